"""What happens to a command, and how much of its outputs there was before.

Decoding raises :class:`~prime_async.errors.ProtocolError` for bytes that are not the message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from prime_async.connect import Failure
from prime_async.errors import ProtocolError
from prime_async.sandboxes.wire.schema import message_class

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = [
    "Ended",
    "Event",
    "KeepAlive",
    "NumberedEvent",
    "Output",
    "Received",
    "Started",
    "StreamName",
    "decode_event",
    "decode_events",
    "encode_event",
    "encode_events",
    "fill_received",
    "parsed",
    "presence",
    "read_received",
]

StreamName = Literal["stdout", "stderr", "pty"]


class Received(NamedTuple):
    """How many bytes of each output there were before some point; on a terminal all is ``stdout``.

    The official wire has no such thing; see docs/sandbox-wire.md.
    """

    stdout: int = 0
    stderr: int = 0


@dataclass(frozen=True, slots=True)
class Started:
    """The command runs; sent first, and again to who attaches.

    Attributes:
        at: where in its outputs this stream begins; None when the service does not say.
    """

    pid: int
    at: Received | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """Bytes the command wrote."""

    stream: StreamName
    data: bytes


@dataclass(frozen=True, slots=True)
class Ended:
    """The command has ended.

    Attributes:
        exited: False when a signal ended it.
        status: words such as ``exit status 1``.
        error: why it could not be run to its end, or None.
    """

    exit_code: int
    exited: bool = True
    status: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """Nothing happened, and the connection lives."""


Event = Started | Output | Ended | KeepAlive


NumberedEvent = tuple[int, Event | Failure]
"""What happened to one of several commands; a failure is the last that is told of it."""


def encode_event(event: Event, answer_to: Literal["Start", "Connect"] = "Start") -> bytes:
    """Write an event as the answer of ``Start`` or ``Connect``, which look the same."""
    message: Any = message_class(f"{answer_to}Response")()
    _fill_event(message.event, event)
    encoded: bytes = message.SerializeToString()
    return encoded


def encode_events(events: Iterable[NumberedEvent]) -> bytes:
    """Write events as one answer of ``StartMany``."""
    message: Any = message_class("StartManyResponse")()
    for number, event in events:
        made = message.events.add(number=number)
        if isinstance(event, Failure):
            made.failure.code, made.failure.message = event.code.value, event.message
        else:
            _fill_event(made.event, event)
    encoded: bytes = message.SerializeToString()
    return encoded


def decode_event(data: bytes) -> Event | None:
    """Read an event of a ``Start`` or ``Connect`` stream; None for one this version does not know.

    Raises:
        ProtocolError: the bytes are no event.
    """
    return _read_event(parsed("StartResponse", data).event)


def decode_events(data: bytes) -> list[NumberedEvent]:
    """Read an answer of a ``StartMany`` stream.

    Raises:
        ProtocolError: the bytes are no such answer.
    """
    found: list[NumberedEvent] = []
    for made in parsed("StartManyResponse", data).events:
        if made.HasField("failure"):
            failure = {"code": made.failure.code, "message": made.failure.message}
            found.append((made.number, Failure.from_object(failure)))
        elif (event := _read_event(made.event)) is not None:
            found.append((made.number, event))
    return found


def _fill_event(made: Any, event: Event) -> None:
    match event:
        case Output():
            setattr(made.data, event.stream, event.data)
        case Started():
            made.start.SetInParent()
            made.start.pid = event.pid
            if event.at is not None:
                fill_received(made.start.at, event.at)
        case Ended():
            made.end.SetInParent()
            made.end.exit_code = event.exit_code
            made.end.exited = event.exited
            made.end.status = event.status
            if event.error is not None:
                made.end.error = event.error
        case KeepAlive():
            made.keepalive.SetInParent()


def _read_event(event: Any) -> Event | None:
    match event.WhichOneof("event"):
        case "start":
            return Started(event.start.pid, read_received(event.start, "at"))
        case "data":
            stream = event.data.WhichOneof("output")
            return Output(stream, getattr(event.data, stream)) if stream else None
        case "end":
            end = event.end
            return Ended(end.exit_code, end.exited, end.status, presence(end, "error"))
        case "keepalive":
            return KeepAlive()
        case _:
            return None


def parsed(name: str, data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    message: Message = message_class(name)()
    try:
        message.ParseFromString(data)
    except (DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a {name} of the wire cannot be read ({error})") from error
    return message


def fill_received(made: Any, received: Received) -> None:
    made.SetInParent()
    made.stdout, made.stderr = received


def read_received(message: Any, name: str) -> Received | None:
    if not message.HasField(name):
        return None
    found = getattr(message, name)
    return Received(found.stdout, found.stderr)


def presence(message: Any, name: str) -> str | None:
    return getattr(message, name) if message.HasField(name) else None
