"""Request bodies that are sent piece by piece and can be sent again, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import aiohttp
from aiohttp.abc import AbstractStreamWriter

__all__ = ["Body", "BytesBody", "payload_of"]

_WRITE_BYTES = 256 * 1024


class Body(Protocol):
    """A body of known size whose pieces can be produced any number of times, always the same."""

    content_type: str

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        ...

    def pieces(self) -> Iterable[bytes]:
        """Produce the bytes in pieces of at most a few hundred KiB."""
        ...


class BytesBody:
    """A small body that is already one piece."""

    def __init__(self, data: bytes, content_type: str = "application/json") -> None:
        self._data = data
        self.content_type = content_type

    @property
    def size(self) -> int:
        return len(self._data)

    def pieces(self) -> Iterator[bytes]:
        yield self._data


class _Payload(aiohttp.Payload):
    """Lets aiohttp send a :class:`Body` with its Content-Length and without joining it."""

    _autoclose = True

    def __init__(self, body: Body) -> None:
        super().__init__(body, content_type=body.content_type)
        self._body = body
        self._size = body.size

    async def write(self, writer: AbstractStreamWriter) -> None:
        for piece in self._body.pieces():
            if len(piece) <= _WRITE_BYTES:
                await writer.write(piece)
                continue
            # In one write the socket takes what fits and the rest is copied: slices keep both time
            # and memory low.
            view = memoryview(piece)
            for start in range(0, len(piece), _WRITE_BYTES):
                await writer.write(view[start : start + _WRITE_BYTES])

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._body.pieces()).decode(encoding, errors)


def payload_of(body: Body) -> aiohttp.Payload:
    """Wrap a body for one try."""
    return _Payload(body)
