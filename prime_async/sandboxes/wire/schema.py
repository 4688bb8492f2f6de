"""The protobuf schema of the service, built when it is first needed.

It is written here as a table, not generated: no compiler is needed to install or change it, and
its descriptors live in a pool of their own, so that a program may import the official client (which
registers the same names in the default pool) beside this package.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.message import Message

__all__ = ["FIELDS", "PACKAGE", "Field", "message_class"]

PACKAGE = "command_session"


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        kind: a scalar type, the name of a message, an enum, or ``map``.
        label: "" for a plain field, ``optional`` (presence is told), ``repeated``, or the name of
            its oneof.
    """

    number: int
    name: str
    kind: str
    label: str = ""


_OURS = 100
"""Number of what we add to messages of the official service: far from what it may add itself."""

_SESSION = Field(1, "session", "CommandSessionSelector")

FIELDS: Mapping[str, tuple[Field, ...]] = {
    "CommandSpec": (
        Field(1, "cmd", "string"),
        Field(2, "args", "string", "repeated"),
        Field(3, "envs", "map"),
        Field(4, "cwd", "string", "optional"),
        Field(5, "user", "string", "optional"),
    ),
    "Size": (Field(1, "cols", "uint32"), Field(2, "rows", "uint32")),
    "PTY": (Field(1, "size", "Size"),),
    "StartRequest": (
        Field(1, "command", "CommandSpec"),
        Field(2, "pty", "PTY", "optional"),
        Field(4, "stdin", "bool", "optional"),
        Field(5, "session_uuid", "string", "optional"),
    ),
    "Received": (Field(1, "stdout", "uint64"), Field(2, "stderr", "uint64")),
    "StartEvent": (Field(1, "pid", "uint32"), Field(_OURS, "at", "Received", "optional")),
    "DataEvent": (
        Field(1, "stdout", "bytes", "output"),
        Field(2, "stderr", "bytes", "output"),
        Field(3, "pty", "bytes", "output"),
    ),
    "EndEvent": (
        Field(1, "exit_code", "sint32"),
        Field(2, "exited", "bool"),
        Field(3, "status", "string"),
        Field(4, "error", "string", "optional"),
    ),
    "KeepAlive": (),
    "CommandSessionEvent": (
        Field(1, "start", "StartEvent", "event"),
        Field(2, "data", "DataEvent", "event"),
        Field(3, "end", "EndEvent", "event"),
        Field(4, "keepalive", "KeepAlive", "event"),
    ),
    "StartResponse": (Field(1, "event", "CommandSessionEvent"),),
    "ConnectResponse": (Field(1, "event", "CommandSessionEvent"),),
    "CommandSessionSelector": (
        Field(1, "pid", "uint32", "selector"),
        Field(3, "session_uuid", "string", "selector"),
    ),
    "ConnectRequest": (_SESSION, Field(_OURS, "received", "Received", "optional")),
    "CommandSessionInput": (
        Field(1, "stdin", "bytes", "input"),
        Field(2, "pty", "bytes", "input"),
    ),
    "SendInputRequest": (
        _SESSION,
        Field(2, "input", "CommandSessionInput"),
        Field(3, "input_uuid", "string", "optional"),
    ),
    "SendSignalRequest": (
        _SESSION,
        Field(2, "signal", "Signal"),
        Field(3, "signal_uuid", "string", "optional"),
    ),
    "UpdateRequest": (_SESSION, Field(2, "pty", "PTY", "optional")),
    "CommandSessionInfo": (
        Field(1, "command", "CommandSpec"),
        Field(2, "pid", "uint32"),
        Field(4, "session_uuid", "string", "optional"),
    ),
    "ListResponse": (Field(1, "sessions", "CommandSessionInfo", "repeated"),),
    "CloseStdinRequest": (_SESSION,),
    "TimedStart": (
        Field(1, "start", "StartRequest"),
        Field(2, "timeout_ms", "uint32", "optional"),
    ),
    "StartManyRequest": (Field(1, "commands", "TimedStart", "repeated"),),
    "Failure": (Field(1, "code", "string"), Field(2, "message", "string")),
    "NumberedEvent": (
        Field(1, "number", "uint32"),
        Field(2, "event", "CommandSessionEvent"),
        Field(3, "failure", "Failure", "optional"),
    ),
    "StartManyResponse": (Field(1, "events", "NumberedEvent", "repeated"),),
}

_SIGNALS = {"SIGNAL_UNSPECIFIED": 0, "SIGNAL_SIGKILL": 9, "SIGNAL_SIGTERM": 15}
_SCALARS = {"string": 9, "bytes": 12, "bool": 8, "uint32": 13, "sint32": 17, "uint64": 4}
_MESSAGE, _ENUM = 11, 14
_OPTIONAL, _REPEATED = 1, 3


@functools.cache
def message_class(name: str) -> type[Message]:
    """Return the protobuf class of a message."""
    from google.protobuf import message_factory

    descriptor = _pool().FindMessageTypeByName(f"{PACKAGE}.{name}")
    made: type[Message] = message_factory.GetMessageClass(descriptor)
    return made


@functools.cache
def _pool() -> Any:
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    pool.Add(_file())
    return pool


def _file() -> FileDescriptorProto:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name="command_session.proto", package=PACKAGE, syntax="proto3")
    signals = file.enum_type.add(name="Signal")
    for name, number in _SIGNALS.items():
        signals.value.add(name=name, number=number)
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add(message, field)
        _move_presence_last(message, fields)
    return file


def _add(message: DescriptorProto, field: Field) -> None:
    made: Any = message.field.add(name=field.name, number=field.number)
    made.label = _OPTIONAL
    if field.kind == "map":
        entry = message.nested_type.add(name=f"{field.name.capitalize()}Entry")
        entry.options.map_entry = True
        for number, part in ((1, "key"), (2, "value")):
            inner: Any = entry.field.add(name=part, number=number)
            inner.label, inner.type = _OPTIONAL, _SCALARS["string"]
        made.label = _REPEATED
        made.type, made.type_name = _MESSAGE, f".{PACKAGE}.{message.name}.{entry.name}"
        return
    if field.kind in _SCALARS:
        made.type = _SCALARS[field.kind]
    else:
        made.type = _ENUM if field.kind == "Signal" else _MESSAGE
        made.type_name = f".{PACKAGE}.{field.kind}"
    if field.label == "repeated":
        made.label = _REPEATED
    elif field.label not in ("", "optional"):
        made.oneof_index = _oneof(message, field.label)


def _move_presence_last(message: DescriptorProto, fields: tuple[Field, ...]) -> None:
    """Give optional fields the oneofs of one member that proto3 writes them with; these come after
    the real ones.
    """
    for made, field in zip(message.field, fields, strict=True):
        if field.label == "optional":
            made.proto3_optional = True
            made.oneof_index = _oneof(message, f"_{field.name}")


def _oneof(message: DescriptorProto, name: str) -> int:
    for index, oneof in enumerate(message.oneof_decl):
        if oneof.name == name:
            return index
    message.oneof_decl.add(name=name)
    return len(message.oneof_decl) - 1
