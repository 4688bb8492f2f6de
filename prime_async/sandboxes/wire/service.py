"""Names of the service and its calls."""

from __future__ import annotations

import enum

__all__ = ["SERVICE", "Rpc", "rpc_path"]

SERVICE = "command_session.CommandSession"


class Rpc(enum.StrEnum):
    """The calls of the service.

    Two are ours; a gateway that does not know them answers ``unimplemented``. ``CloseStdin`` says
    that no more input comes. ``StartMany`` starts several commands and streams their events, each
    with the number of its command.
    """

    START = "Start"
    CONNECT = "Connect"
    LIST = "List"
    UPDATE = "Update"
    SEND_INPUT = "SendInput"
    SEND_SIGNAL = "SendSignal"
    CLOSE_STDIN = "CloseStdin"
    START_MANY = "StartMany"


def rpc_path(rpc: Rpc) -> str:
    """Return the path of a call below a sandbox's gateway address."""
    return f"/{SERVICE}/{rpc.value}"
