"""Names of the service and its calls."""

from __future__ import annotations

import enum

__all__ = ["SERVICE", "Rpc", "rpc_path"]

SERVICE = "command_session.CommandSession"


class Rpc(enum.StrEnum):
    """The calls of the service.

    ``CloseStdin`` is ours: the official service has no way to say that no more input comes. A
    gateway that does not know it answers ``unimplemented``.
    """

    START = "Start"
    CONNECT = "Connect"
    LIST = "List"
    UPDATE = "Update"
    SEND_INPUT = "SendInput"
    SEND_SIGNAL = "SendSignal"
    CLOSE_STDIN = "CloseStdin"


def rpc_path(rpc: Rpc) -> str:
    """Return the path of a call below a sandbox's gateway address."""
    return f"/{SERVICE}/{rpc.value}"
