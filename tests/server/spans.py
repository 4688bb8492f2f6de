"""Spans by hand, in the JSON form of OTLP."""

from __future__ import annotations

import time
from typing import Any

from tests.server.wire import Reply, Wire

__all__ = ["Spans", "pairs", "request_of"]


class Spans:
    """Makes spans, each with the next id and a later begin, and sends them."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._now = time.time_ns()
        self._count = 0

    def span(self, name: str, *, trace: str = "ab" * 16, **more: Any) -> dict[str, Any]:
        self._count += 1
        start = self._now + self._count * 10**6
        attributes = more.pop("attributes", {})
        return {
            "traceId": trace,
            "spanId": f"{self._count:016x}",
            "name": name,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(start + 5 * 10**5),
            "attributes": pairs(attributes),
            **more,
        }

    async def send(self, *spans: dict[str, Any], **options: Any) -> Reply:
        body = request_of(*spans)
        path = options.pop("path", "//v1/traces")
        return await self._wire.send("POST", path, json=body, **options)


def request_of(*spans: dict[str, Any]) -> dict[str, Any]:
    """The body that carries spans."""
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    """Attributes as a list of keys and values."""
    return [{"key": name, "value": value_of(value)} for name, value in attributes.items()]


def value_of(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [value_of(one) for one in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}
