"""How a sandbox ends, in the words of the wire."""

from __future__ import annotations

from typing import NamedTuple

from prime_async.server.runtimes.protocol import Ending, EndReason

__all__ = ["End", "deleted", "end_of", "failed"]


class End(NamedTuple):
    """The last status of a sandbox, and why.

    Attributes:
        status: ``TERMINATED``, ``TIMEOUT`` or ``ERROR``.
        reason: a word for programs.
        error_type: the same for what clients treat as an error, else None.
        message: one sentence for people.
    """

    status: str
    reason: str
    error_type: str | None
    message: str | None


_BY_KIND = {
    Ending.STOPPED: ("TERMINATED", "STOPPED", None),
    Ending.OOM_KILLED: ("ERROR", "OOM_KILLED", "OOM_KILLED"),
    Ending.TIMEOUT: ("TIMEOUT", "TIMEOUT", "TIMEOUT"),
    Ending.IDLE: ("TIMEOUT", "IDLE_TIMEOUT", "TIMEOUT"),
    Ending.DISK_FULL: ("ERROR", "DISK_FULL", "DISK_FULL"),
    Ending.EXITED: ("TERMINATED", "EXITED", "EXITED"),
    Ending.KILLED: ("ERROR", "KILLED", "KILLED"),
    Ending.LOST: ("ERROR", "LOST", "LOST"),
}


def end_of(reason: EndReason) -> End:
    """The end that a runtime reports."""
    status, word, error_type = _BY_KIND[reason.kind]
    return End(status, word, error_type, reason.message)


def deleted(by: str = "DELETED") -> End:
    """The end that somebody asked for, or that a client left behind by going away."""
    return End("TERMINATED", by, None, None)


def failed(error_type: str, message: str) -> End:
    """The end of a sandbox that never ran, or cannot run on."""
    return End("ERROR", error_type, error_type, message)
