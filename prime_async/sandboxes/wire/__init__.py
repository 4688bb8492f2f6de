"""The command-session service of a sandbox gateway: its messages, for client and server alike.

Typed wrappers over protobuf; the protobuf package itself is imported when the first message is
encoded or decoded.
"""

from prime_async.sandboxes.wire.messages import (
    CloseStdinRequest,
    CommandSpec,
    ConnectRequest,
    Ended,
    Event,
    KeepAlive,
    ListResponse,
    Output,
    SendInputRequest,
    SendSignalRequest,
    Session,
    SessionInfo,
    Started,
    StartRequest,
    StreamName,
    TerminalSize,
    UpdateRequest,
    decode_event,
    encode_event,
)
from prime_async.sandboxes.wire.service import SERVICE, Rpc, rpc_path

__all__ = [
    "CloseStdinRequest",
    "CommandSpec",
    "ConnectRequest",
    "Ended",
    "Event",
    "KeepAlive",
    "ListResponse",
    "Output",
    "Rpc",
    "SERVICE",
    "SendInputRequest",
    "SendSignalRequest",
    "Session",
    "SessionInfo",
    "StartRequest",
    "Started",
    "StreamName",
    "TerminalSize",
    "UpdateRequest",
    "decode_event",
    "encode_event",
    "rpc_path",
]
