"""From the bodies of OTLP/HTTP, protobuf or JSON, to spans.

Spans that cannot be kept are left out with the reason, the others are taken: OTLP has a partial
success.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from prime_async.server.failures import RequestError
from prime_async.server.otlp.schema import message_class
from prime_async.server.traces.records import Window
from prime_async.traces.genai.spans import Event, Link, Span

__all__ = ["Decoded", "decode_json", "decode_protobuf"]

_DEEPEST = 32
"""Levels of nested attribute values."""

_NANO = 1_000_000_000
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SPAN_ID = re.compile(r"(?!0{16})[0-9a-f]{16}")


@dataclass(slots=True)
class Decoded:
    """The spans of a request, and why others of it are refused."""

    spans: list[Span] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def decode_protobuf(body: bytes, window: Window) -> Decoded:
    """Decode an ``ExportTraceServiceRequest``.

    Raises:
        RequestError: 400, it is none.
    """
    from google.protobuf.message import DecodeError

    request: Any = message_class("ExportRequest")()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise RequestError(
            400, "invalid_protobuf", "the body is no ExportTraceServiceRequest"
        ) from error
    return _collected(request, _Binary(), window)


def decode_json(body: bytes, window: Window) -> Decoded:
    """Decode the JSON form of an ``ExportTraceServiceRequest``.

    Raises:
        RequestError: 400, it is none.
    """
    try:
        request = _request.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(400, "invalid_json", f"the body is no OTLP request: {error}") from error
    return _collected(request, _Text(), window)


# In JSON, a field that is null counts as left out.


class _Any(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    array_value: _Array | None = None
    kvlist_value: _Pairs | None = None
    bytes_value: str | None = None


class _Array(msgspec.Struct):
    values: list[_Any] | None = None


class _Pair(msgspec.Struct):
    key: str | None = None
    value: _Any | None = None


class _Pairs(msgspec.Struct):
    values: list[_Pair] | None = None


class _Resource(msgspec.Struct):
    attributes: list[_Pair] | None = None


class _Scope(msgspec.Struct):
    name: str | None = None


class _Status(msgspec.Struct):
    message: str | None = None
    code: int | None = None


class _Event(msgspec.Struct, rename="camel"):
    time_unix_nano: int | str | None = None
    name: str | None = None
    attributes: list[_Pair] | None = None


class _Link(msgspec.Struct, rename="camel"):
    trace_id: str | None = None
    span_id: str | None = None
    attributes: list[_Pair] | None = None


class _Span(msgspec.Struct, rename="camel"):
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    name: str | None = None
    kind: int | None = None
    start_time_unix_nano: int | str | None = None
    end_time_unix_nano: int | str | None = None
    attributes: list[_Pair] | None = None
    events: list[_Event] | None = None
    links: list[_Link] | None = None
    status: _Status | None = None


class _ScopeSpans(msgspec.Struct):
    scope: _Scope | None = None
    spans: list[_Span] | None = None


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] | None = None


class _Request(msgspec.Struct, rename="camel"):
    resource_spans: list[_ResourceSpans] | None = None


_request = msgspec.json.Decoder(_Request)


class _Binary:
    """How ids, times and values are read out of protobuf messages."""

    def id(self, value: bytes) -> str:
        return value.hex()

    def seconds(self, value: int) -> float:
        return value / _NANO

    def value(self, value: Any, depth: int = 0) -> Any:
        kind = value.WhichOneof("value")
        if kind is None or depth > _DEEPEST:
            return None
        if kind == "array_value":
            return [self.value(one, depth + 1) for one in value.array_value.values]
        if kind == "kvlist_value":
            pairs = value.kvlist_value.values
            return {pair.key: self.value(pair.value, depth + 1) for pair in pairs}
        return _plain(getattr(value, kind))


class _Text:
    """The same for the JSON form."""

    def id(self, value: str | None) -> str:
        return (value or "").lower()

    def seconds(self, value: int | str | None) -> float:
        try:
            return int(value or 0) / _NANO
        except (ValueError, OverflowError):
            return math.nan

    def value(self, value: _Any | None, depth: int = 0) -> Any:
        if value is None or depth > _DEEPEST:
            return None
        if value.array_value is not None:
            return [self.value(one, depth + 1) for one in value.array_value.values or ()]
        if value.kvlist_value is not None:
            pairs = value.kvlist_value.values or ()
            return {pair.key or "": self.value(pair.value, depth + 1) for pair in pairs}
        if value.int_value is not None:
            return _number(value.int_value, int)
        if value.double_value is not None:
            return _plain(_number(value.double_value, float))
        plain = (value.string_value, value.bool_value, value.bytes_value)
        return next((one for one in plain if one is not None), None)


def _number(value: float | str, kind: Callable[[Any], Any]) -> Any:
    try:
        return kind(value)
    except ValueError:
        return None


def _plain(value: Any) -> Any:
    """A scalar as JSON has it: no number for NaN and infinities, bytes as base64."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _collected(request: Any, read: _Binary | _Text, window: Window) -> Decoded:
    decoded = Decoded()
    for resource, scope, raw in _raw_spans(request):
        span = _span(raw, read)
        reason = _unfit(span, window)
        if reason is not None:
            decoded.refused.append(reason)
            continue
        span.resource = _attributes(resource and resource.attributes, read)
        span.scope = (scope and scope.name) or ""
        decoded.spans.append(span)
    return decoded


def _raw_spans(request: Any) -> Iterator[tuple[Any, Any, Any]]:
    for of_resource in request.resource_spans or ():
        for of_scope in of_resource.scope_spans or ():
            for span in of_scope.spans or ():
                yield of_resource.resource, of_scope.scope, span


def _span(raw: Any, read: _Binary | _Text) -> Span:
    start = read.seconds(raw.start_time_unix_nano)
    status = raw.status
    return Span(
        trace_id=read.id(raw.trace_id),
        span_id=read.id(raw.span_id),
        parent_id=read.id(raw.parent_span_id),
        name=raw.name or "",
        kind=raw.kind or 0,
        start=start,
        end=max(start, read.seconds(raw.end_time_unix_nano)),
        attributes=_attributes(raw.attributes, read),
        events=[
            Event(one.name or "", _moment(one, read), _attributes(one.attributes, read))
            for one in raw.events or ()
        ],
        links=[
            Link(
                read.id(one.trace_id),
                read.id(one.span_id),
                _attributes(one.attributes, read),
            )
            for one in raw.links or ()
        ],
        status=(status and status.code) or 0,
        message=(status and status.message) or "",
    )


def _moment(event: Any, read: _Binary | _Text) -> float:
    """When an event happened; 0 when that is no time."""
    moment = read.seconds(event.time_unix_nano)
    return moment if math.isfinite(moment) else 0.0


def _attributes(pairs: Iterable[Any] | None, read: _Binary | _Text) -> dict[str, Any]:
    return {pair.key or "": read.value(pair.value) for pair in pairs or ()}


def _unfit(span: Span, window: Window) -> str | None:
    if not _TRACE_ID.fullmatch(span.trace_id):
        return f"span {span.name[:80]!r}: trace_id is not 16 bytes"
    if not _SPAN_ID.fullmatch(span.span_id):
        return f"span {span.name[:80]!r}: span_id is not 8 bytes"
    if not window.holds(span.start):
        return f"span {span.span_id}: it began more than 365 days ago, or more than 300 s ahead"
    return None
