"""The command-session service of a sandbox gateway: its messages, for client and server alike.

Typed wrappers over protobuf; the protobuf package itself is imported when the first message is
encoded or decoded.
"""

from prime_async.sandboxes.wire.events import (
    Ended,
    Event,
    KeepAlive,
    NumberedEvent,
    Output,
    Received,
    Started,
    StreamName,
    decode_event,
    decode_events,
    encode_event,
    encode_events,
)
from prime_async.sandboxes.wire.messages import (
    CloseStdinRequest,
    CommandSpec,
    ConnectRequest,
    ListResponse,
    SendInputRequest,
    SendSignalRequest,
    Session,
    SessionInfo,
    StartManyRequest,
    StartRequest,
    TerminalSize,
    TimedStart,
    UpdateRequest,
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
    "NumberedEvent",
    "Output",
    "Received",
    "Rpc",
    "SERVICE",
    "SendInputRequest",
    "SendSignalRequest",
    "Session",
    "SessionInfo",
    "StartManyRequest",
    "StartRequest",
    "Started",
    "StreamName",
    "TerminalSize",
    "TimedStart",
    "UpdateRequest",
    "decode_event",
    "decode_events",
    "encode_event",
    "encode_events",
    "rpc_path",
]
