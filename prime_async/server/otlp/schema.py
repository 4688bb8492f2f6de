"""The protobuf messages of OTLP that spans travel in, as far as this server reads them.

Written as a table, so that neither a compiler nor the OpenTelemetry packages are needed. The
descriptors live in a pool of their own: a program may import those packages beside this one.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["message_class"]

_PACKAGE = "otlp"
_SCALARS = {
    "double": 1,
    "int64": 3,
    "int32": 5,
    "fixed64": 6,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "uint32": 13,
}
_MESSAGE = 11
_OPTIONAL, _REPEATED = 1, 3

# Name of a message to its fields: number, name and kind. A kind is a scalar or a message, ``*``
# before it means repeated, ``|`` that the field is one of several of which one is set.
_MESSAGES: Mapping[str, tuple[tuple[int, str, str], ...]] = {
    "AnyValue": (
        (1, "string_value", "|string"),
        (2, "bool_value", "|bool"),
        (3, "int_value", "|int64"),
        (4, "double_value", "|double"),
        (5, "array_value", "|ArrayValue"),
        (6, "kvlist_value", "|KeyValueList"),
        (7, "bytes_value", "|bytes"),
    ),
    "ArrayValue": ((1, "values", "*AnyValue"),),
    "KeyValueList": ((1, "values", "*KeyValue"),),
    "KeyValue": ((1, "key", "string"), (2, "value", "AnyValue")),
    "Resource": ((1, "attributes", "*KeyValue"),),
    "Scope": ((1, "name", "string"), (2, "version", "string")),
    "Status": ((2, "message", "string"), (3, "code", "int32")),
    "Event": (
        (1, "time_unix_nano", "fixed64"),
        (2, "name", "string"),
        (3, "attributes", "*KeyValue"),
    ),
    "Link": ((1, "trace_id", "bytes"), (2, "span_id", "bytes"), (4, "attributes", "*KeyValue")),
    "Span": (
        (1, "trace_id", "bytes"),
        (2, "span_id", "bytes"),
        (4, "parent_span_id", "bytes"),
        (5, "name", "string"),
        (6, "kind", "int32"),
        (7, "start_time_unix_nano", "fixed64"),
        (8, "end_time_unix_nano", "fixed64"),
        (9, "attributes", "*KeyValue"),
        (11, "events", "*Event"),
        (13, "links", "*Link"),
        (15, "status", "Status"),
    ),
    "ScopeSpans": ((1, "scope", "Scope"), (2, "spans", "*Span")),
    "ResourceSpans": ((1, "resource", "Resource"), (2, "scope_spans", "*ScopeSpans")),
    "ExportRequest": ((1, "resource_spans", "*ResourceSpans"),),
    "PartialSuccess": ((1, "rejected_spans", "int64"), (2, "error_message", "string")),
    "ExportResponse": ((1, "partial_success", "PartialSuccess"),),
    # google.rpc.Status, which every refusal is.
    "Refusal": ((1, "code", "int32"), (2, "message", "string")),
}


@functools.cache
def message_class(name: str) -> type[Message]:
    """The protobuf class of a message."""
    from google.protobuf import message_factory

    descriptor = _pool().FindMessageTypeByName(f"{_PACKAGE}.{name}")
    made: type[Message] = message_factory.GetMessageClass(descriptor)
    return made


@functools.cache
def _pool() -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    file = FileDescriptorProto(name="otlp.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, kind in fields:
            made: Any = message.field.add(name=field, number=number)
            _type(made, kind)
            if kind.startswith("|"):
                made.oneof_index = 0
        if any(kind.startswith("|") for _, _, kind in fields):
            message.oneof_decl.add(name="value")
    pool = DescriptorPool()
    pool.Add(file)
    return pool


def _type(made: Any, kind: str) -> None:
    made.label = _REPEATED if kind.startswith("*") else _OPTIONAL
    name = kind.lstrip("*|")
    if name in _SCALARS:
        made.type = _SCALARS[name]
    else:
        made.type, made.type_name = _MESSAGE, f".{_PACKAGE}.{name}"
