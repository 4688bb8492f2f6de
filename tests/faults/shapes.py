"""The transport shapes the fault table runs, and the little platform they talk to.

A shape is one way of using the transport: a read, a write with or without a key, an upload in
pieces, a download, a stream of lines. Later kinds of request add their shape here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prime_async.transport import Transport
from tests.stub import Answer, Request, Stub

__all__ = ["SHAPES", "ThingsPlatform", "Shape"]

LINES = [b'{"line": %d}' % number for number in range(200)]
_UPLOAD = [b'{"part": "%d"}' % number * 1000 for number in range(8)]


class ThingsPlatform(Stub):
    """Carries out writes, counts them, and knows idempotency keys as the embedded platform does.

    Attributes:
        carried_out: how often each write was really done, by its key or, without one, its number.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.carried_out: dict[str, int] = {}
        self._features = {"X-Prime-Features": "idempotency, sample-ranges"}
        self.default = Answer(json={}, headers=self._features)
        self.route("GET", "/api/v1/things", Answer(json={"thing": "read"}, headers=self._features))
        self.route("GET", "/api/v1/things/file", Answer(body=b"\n".join(LINES)))
        self.route("POST", "/api/v1/things", self._write)

    def _write(self, request: Request) -> Answer:
        key = request.headers.get("Idempotency-Key") or f"request {request.number}"
        if key not in self.carried_out or key.startswith("request"):
            self.carried_out[key] = self.carried_out.get(key, 0) + 1
        answer = {"thing": "written", "bytes": len(request.body)}
        return Answer(json=answer, headers=self._features)


@dataclass(frozen=True)
class Shape:
    """One way of using the transport.

    Attributes:
        call: uses it within a timeout and returns what the caller gets.
        good: the right result.
        repeatable: a fault that may have hit a carried-out request is survived by repeating it.
        streams: the result is read after the head arrived, when nothing can be repeated any more.
        writes: the platform must carry it out once at most.
    """

    name: str
    call: Callable[[Transport, float], Awaitable[Any]]
    good: Any
    repeatable: bool = True
    streams: bool = False
    writes: bool = False

    def __str__(self) -> str:
        return self.name


class _Pieces:
    """A body in pieces, the same however often it is sent."""

    content_type = "application/octet-stream"
    size = sum(map(len, _UPLOAD))

    def pieces(self) -> Iterator[bytes]:
        yield from _UPLOAD


async def _get(transport: Transport, timeout: float) -> Any:
    return (await transport.request("GET", "/things", timeout=timeout)).json()


async def _keyed_post(transport: Transport, timeout: float) -> Any:
    response = await transport.request(
        "POST", "/things", json={"a": 1}, timeout=timeout, idempotency_key="key-1"
    )
    return response.json()


async def _plain_post(transport: Transport, timeout: float) -> Any:
    return (await transport.request("POST", "/things", json={"a": 1}, timeout=timeout)).json()


async def _upload(transport: Transport, timeout: float) -> Any:
    response = await transport.request(
        "POST", "/things", body=_Pieces(), timeout=timeout, idempotency_key="key-2"
    )
    return response.json()


async def _download(transport: Transport, timeout: float) -> Any:
    async with transport.stream("GET", "/things/file", timeout=timeout) as stream:
        return b"".join([piece async for piece in stream.iter_bytes()])


async def _lines(transport: Transport, timeout: float) -> Any:
    async with transport.stream("GET", "/things/file", timeout=timeout) as stream:
        return [line async for line in stream.iter_lines()]


_WRITTEN = {"thing": "written", "bytes": 7}

SHAPES = [
    Shape("GET", _get, {"thing": "read"}),
    Shape("POST with a key", _keyed_post, _WRITTEN, writes=True),
    Shape("POST", _plain_post, _WRITTEN, writes=True, repeatable=False),
    Shape("upload", _upload, {"thing": "written", "bytes": _Pieces.size}, writes=True),
    Shape("download", _download, b"\n".join(LINES), streams=True),
    Shape("JSONL stream", _lines, LINES, streams=True),
]
