"""A span as it is kept: plain values, whatever encoding it came in."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["ERROR", "Event", "Link", "Span", "decode_span", "encode_span"]

ERROR = 2
"""The status code of a span that failed."""


class Event(msgspec.Struct, omit_defaults=True):
    """Something that happened within a span; ``time`` in epoch seconds."""

    name: str
    time: float = 0.0
    attributes: dict[str, Any] = {}


class Link(msgspec.Struct, omit_defaults=True):
    """Another span this one has to do with; ids as in spans."""

    trace_id: str
    span_id: str
    attributes: dict[str, Any] = {}


class Span(msgspec.Struct, omit_defaults=True):
    """One span; ids are lower-case hex, times epoch seconds.

    Attributes:
        parent_id: empty for the root of its trace.
        resource: attributes of what made the span: service, host and so on.
        scope: name of the library that made it.
        status: 0 unset, 1 ok, 2 error.
    """

    trace_id: str
    span_id: str
    name: str
    start: float
    end: float
    parent_id: str = ""
    kind: int = 0
    attributes: dict[str, Any] = {}
    events: list[Event] = []
    links: list[Link] = []
    resource: dict[str, Any] = {}
    scope: str = ""
    status: int = 0
    message: str = ""

    @property
    def failed(self) -> bool:
        return self.status == ERROR


_decoder = msgspec.json.Decoder(Span)


def encode_span(span: Span) -> bytes:
    """A span as JSON."""
    return msgspec.json.encode(span)


def decode_span(text: bytes) -> Span:
    """A span from what :func:`encode_span` wrote."""
    return _decoder.decode(text)
