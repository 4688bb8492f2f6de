"""Messages of the command-session service, held against the official descriptors."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import Any

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st
from prime_sandboxes._proto.command_session import command_session_pb2 as official

from prime_async.connect import Code, Failure
from prime_async.errors import ProtocolError
from prime_async.sandboxes.wire import (
    CloseStdinRequest,
    CommandSpec,
    ConnectRequest,
    Ended,
    Event,
    KeepAlive,
    ListResponse,
    NumberedEvent,
    Output,
    Received,
    SendInputRequest,
    SendSignalRequest,
    Session,
    SessionInfo,
    Started,
    StartManyRequest,
    StartRequest,
    TerminalSize,
    TimedStart,
    UpdateRequest,
    decode_event,
    decode_events,
    encode_event,
    encode_events,
)
from prime_async.sandboxes.wire.schema import FIELDS, message_class

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
UINT = st.integers(0, 2**32 - 1)
SIZES = st.builds(TerminalSize, UINT, UINT)
SESSIONS = st.builds(Session, TEXT) | st.builds(lambda pid: Session(pid=pid), UINT)
COMMANDS = st.builds(
    CommandSpec,
    TEXT,
    st.lists(TEXT, max_size=4).map(tuple),
    st.dictionaries(TEXT, TEXT, max_size=4),
    st.none() | TEXT,
    st.none() | TEXT,
)
STARTS = st.builds(
    StartRequest, COMMANDS, st.none() | SIZES, st.none() | st.booleans(), st.none() | TEXT
)
INPUTS = st.builds(
    SendInputRequest, SESSIONS, st.binary(max_size=50), st.booleans(), st.none() | TEXT
)
SIGNALS = st.builds(SendSignalRequest, SESSIONS, st.integers(0, 64), st.none() | TEXT)
EVENTS = (
    st.builds(Started, UINT)
    | st.builds(Output, st.sampled_from(["stdout", "stderr", "pty"]), st.binary(max_size=50))
    | st.builds(Ended, st.integers(-(2**31), 2**31 - 1), st.booleans(), TEXT, st.none() | TEXT)
    | st.just(KeepAlive())
)


def _through_official(name: str, data: bytes, *, added: bool = False) -> tuple[Any, bytes]:
    message = getattr(official, name).FromString(data)
    assert added or not UnknownFieldSet(message)
    return message, message.SerializeToString()


@given(STARTS)
def test_start_requests_mean_the_same_to_the_official_client(request: StartRequest) -> None:
    """What we write, the official descriptors read, and what they write, we read."""
    message, data = _through_official("StartRequest", request.encode())
    assert StartRequest.decode(data) == request
    assert dict(message.command.envs) == request.command.envs
    assert message.HasField("stdin") == (request.stdin is not None)
    assert message.HasField("session_uuid") == (request.session_uuid is not None)


@given(INPUTS)
def test_inputs_mean_the_same(request: SendInputRequest) -> None:
    """Input bytes reach the pipe or the terminal they were meant for."""
    message, data = _through_official("SendInputRequest", request.encode())
    assert SendInputRequest.decode(data) == request
    assert message.input.WhichOneof("input") == ("pty" if request.pty else "stdin")


@given(SIGNALS)
def test_signals_mean_the_same(request: SendSignalRequest) -> None:
    """Any signal number passes, those the official enum does not name too."""
    message, data = _through_official("SendSignalRequest", request.encode())
    assert SendSignalRequest.decode(data) == request
    assert message.signal == request.signal


@given(SESSIONS, st.none() | SIZES)
def test_selectors_and_updates_mean_the_same(session: Session, size: TerminalSize | None) -> None:
    """A session is named by its id or its process id."""
    assert ConnectRequest.decode(
        _through_official("ConnectRequest", ConnectRequest(session).encode())[1]
    ) == ConnectRequest(session)
    assert UpdateRequest.decode(
        _through_official("UpdateRequest", UpdateRequest(session, size).encode())[1]
    ) == UpdateRequest(session, size)
    assert CloseStdinRequest.decode(CloseStdinRequest(session).encode()).session == session


@given(EVENTS, st.sampled_from(["Start", "Connect"]))
def test_events_mean_the_same(event: Event, rpc: Any) -> None:
    """Events read back equal, through the official descriptors of either stream."""
    _, data = _through_official(f"{rpc}Response", encode_event(event, rpc))
    assert decode_event(data) == event


@given(st.lists(st.builds(SessionInfo, COMMANDS, UINT, st.none() | TEXT), max_size=3).map(tuple))
def test_lists_mean_the_same(sessions: tuple[SessionInfo, ...]) -> None:
    """What runs is listed the same by both."""
    _, data = _through_official("ListResponse", ListResponse(sessions).encode())
    assert ListResponse.decode(data).sessions == sessions


@given(st.binary(max_size=100))
def test_noise_is_a_message_or_a_protocol_error(data: bytes) -> None:
    """Bytes from anywhere raise nothing but ProtocolError."""
    for decode in (StartRequest.decode, SendInputRequest.decode, ListResponse.decode, decode_event):
        with contextlib.suppress(ProtocolError):
            decode(data)


@pytest.mark.parametrize("received", [None, Received(), Received(7, 2**40)])
def test_offsets_arrive_and_are_passed_over_by_others(received: Received | None) -> None:
    """Who does not know them reads the rest of the message."""
    request = ConnectRequest(Session(session_uuid="x"), received)
    message, _ = _through_official("ConnectRequest", request.encode(), added=True)
    assert message.session.session_uuid == "x"
    assert ConnectRequest.decode(request.encode()) == request
    event = Started(3, received)
    message, _ = _through_official("StartResponse", encode_event(event), added=True)
    assert message.event.start.pid == 3
    assert decode_event(encode_event(event)) == event


def test_unknown_events_are_none() -> None:
    """An event of a later version is passed over, not an error."""
    assert decode_event(b"") is None
    assert decode_event(b"\x0a\x02\x32\x00") is None


ADDED = {
    *("CloseStdinRequest", "TimedStart", "StartManyRequest"),
    *("StartManyResponse", "NumberedEvent", "Failure", "Received"),
}
"""Messages that the official service does not have."""

OURS = {
    "Size": "PTY.Size",
    "StartEvent": "CommandSessionEvent.StartEvent",
    "DataEvent": "CommandSessionEvent.DataEvent",
    "EndEvent": "CommandSessionEvent.EndEvent",
    "KeepAlive": "CommandSessionEvent.KeepAlive",
    "CommandSessionInput": "CommandInput",
}


def _official(path: str) -> Any:
    first, *rest = path.split(".")
    descriptor = official.DESCRIPTOR.message_types_by_name[first]
    for part in rest:
        descriptor = descriptor.nested_types_by_name[part]
    return descriptor


@pytest.mark.parametrize("name", sorted(set(FIELDS) - ADDED))
def test_every_field_has_the_official_number_type_and_presence(name: str) -> None:
    """Number, type, repetition, oneof and presence of each field are the official ones; what we add
    to a message lies far from what it may grow by."""

    def shape(descriptor: Any) -> dict[str, tuple[Any, ...]]:
        return {
            field.name: (
                field.number,
                field.type,
                field.is_repeated,
                field.has_presence,
                field.containing_oneof is not None,
            )
            for field in descriptor.fields
            if field.number < 100
        }

    assert shape(message_class(name).DESCRIPTOR) == shape(_official(OURS.get(name, name)))


def test_the_messages_live_beside_the_official_ones_and_load_late() -> None:
    """Importing the wire loads no protobuf, and both packages work in one process."""
    script = (
        "import sys; import prime_async.sandboxes.wire as w;"
        "assert not any(n.startswith('google') for n in sys.modules);"
        "w.ConnectRequest(w.Session('a')).encode();"
        "import prime_sandboxes;"
        "from prime_sandboxes._proto.command_session import command_session_pb2 as o;"
        "o.ConnectRequest.FromString(w.ConnectRequest(w.Session('a')).encode())"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@given(st.lists(st.tuples(UINT, EVENTS | st.builds(Failure, st.sampled_from(Code), TEXT))))
def test_events_of_many_commands_come_back_as_they_were(events: list[NumberedEvent]) -> None:
    """Numbers, events and failures; each event is the official message."""
    data = encode_events(events)
    assert decode_events(data) == events
    for made in message_class("StartManyResponse").FromString(data).events:  # type: ignore[attr-defined]  # built when it runs
        _through_official("CommandSessionEvent", made.event.SerializeToString())


@given(st.lists(st.builds(TimedStart, STARTS, st.none() | UINT), max_size=4).map(tuple))
def test_many_starts_come_back_as_they_were(commands: tuple[TimedStart, ...]) -> None:
    """Each with its own limit, or none."""
    request = StartManyRequest(commands)
    assert StartManyRequest.decode(request.encode()) == request
