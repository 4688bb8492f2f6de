"""Request bodies that are sent piece by piece and can be sent again, byte for byte."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Protocol

import aiohttp
from aiohttp.abc import AbstractStreamWriter

__all__ = ["Body", "BytesBody", "Payload", "StreamedBody"]

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


class StreamedBody(Protocol):
    """A body whose pieces have to be waited for, such as those of a file; produced anew for each
    try.
    """

    content_type: str

    @property
    def size(self) -> int | None:
        """Bytes on the wire; None when that is not known before."""
        ...

    def stream(self) -> AsyncGenerator[bytes, None]:
        """Produce the bytes from the first on."""
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


class Payload(aiohttp.Payload):
    """Lets aiohttp send a body, for one try, with its Content-Length and without joining it."""

    _autoclose = True

    def __init__(self, body: Body | StreamedBody) -> None:
        super().__init__(body, content_type=body.content_type)
        self._stream: Callable[[], AsyncGenerator[bytes, None]] | None
        self._stream = getattr(body, "stream", None)
        self._pieces: Callable[[], Iterable[bytes]] | None = getattr(body, "pieces", None)
        self._size = body.size
        self.failure: Exception | None = None
        """What its source raised: aiohttp would make an error of the connection of it."""

    async def write(self, writer: AbstractStreamWriter) -> None:
        if self._stream is not None:
            async with aclosing(self._stream()) as pieces:
                while (piece := await self._next(pieces)) is not None:
                    await _write(writer, piece)
        elif self._pieces is not None:
            for piece in self._pieces():
                await _write(writer, piece)

    async def _next(self, pieces: AsyncGenerator[bytes, None]) -> bytes | None:
        try:
            return await anext(pieces, None)
        except Exception as error:
            self.failure = error
            raise

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        if self._pieces is None:
            raise TypeError("a streamed body has no text")
        return b"".join(self._pieces()).decode(encoding, errors)


async def _write(writer: AbstractStreamWriter, piece: bytes) -> None:
    if len(piece) <= _WRITE_BYTES:
        await writer.write(piece)
        return
    # In one write the socket takes what fits and the rest is copied: slices keep both time and
    # memory low.
    view = memoryview(piece)
    for start in range(0, len(piece), _WRITE_BYTES):
        await writer.write(view[start : start + _WRITE_BYTES])
