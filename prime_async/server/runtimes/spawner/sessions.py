"""Signals to process groups and to whole sessions, as the machine numbers them."""

from __future__ import annotations

import contextlib
import os
import signal

__all__ = ["kill_session", "signal_group"]


def signal_group(pid: int, number: int) -> None:
    """Signal the process group of a session's leader."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def kill_session(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal everything in the session of a leader, other process groups included.

    What made a session of its own is not in it: that is how background jobs go on.
    """
    signal_group(pid, number)
    for member in _members(pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(member, number)


def _members(session: int) -> list[int]:
    names = os.listdir("/proc")  # noqa: PTH208  # names are all that is wanted
    return [int(name) for name in names if name.isdigit() and _session_of(name) == session]


def _session_of(name: str) -> int:
    try:
        with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123  # pathlib is 2 MB more here
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return -1
    return int(fields[3])
