"""A streamed answer: bytes and lines, in bounded memory, with a limit on silence."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import aiohttp
import anyio

from prime_async.errors import APITimeoutError, ProtocolError
from prime_async.transport.faults import classify

__all__ = ["MAX_LINE", "StreamedResponse"]

MAX_LINE = 64 * 2**20
"""Longest line in bytes that :meth:`StreamedResponse.iter_lines` gathers."""


class StreamedResponse:
    """The open answer inside ``async with transport.stream(...)``; read it once."""

    def __init__(
        self,
        raw: aiohttp.ClientResponse,
        method: str,
        url: str,
        deadline: float,
        idle_timeout: float,
    ) -> None:
        self._raw = raw
        self._method = method
        self._url = url
        self._deadline = deadline
        self._idle_timeout = idle_timeout

    @property
    def status(self) -> int:
        """HTTP status, always 2xx."""
        return self._raw.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The answer's headers; names in any case."""
        return self._raw.headers

    @property
    def at_end(self) -> bool:
        """Whether the whole body has been read."""
        return self._raw.content.at_eof()

    async def iter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives.

        Raises:
            APITimeoutError: silence for longer than the idle limit, or the deadline.
            APIConnectionError: the stream broke off before its end.
        """
        while piece := await self.next_piece():
            yield piece

    async def iter_lines(self) -> AsyncIterator[bytes]:
        """Yield the lines without their ending; a last line without one counts.

        Raises:
            ProtocolError: a line longer than 64 MiB.
        """
        held: list[bytes] = []
        size = 0
        async for piece in self.iter_bytes():
            *whole, rest = piece.split(b"\n")
            for part in whole:
                held.append(part)
                yield b"".join(held).removesuffix(b"\r")
                held, size = [], 0
            held.append(rest)
            size += len(rest)
            if size > MAX_LINE:
                raise ProtocolError(
                    f"a line of {self._url} is longer than {MAX_LINE >> 20} MiB", url=self._url
                )
        if last := b"".join(held):
            yield last

    async def next_piece(self) -> bytes:
        """Return the next bytes of the body, b"" at its end; raises as :meth:`iter_bytes`."""
        if self._raw.content.exception() is None and (piece := self._raw.content.read_nowait()):
            return piece  # already here: no limit on waiting has to be set up
        limit = min(self._deadline, anyio.current_time() + self._idle_timeout)
        with anyio.move_on_at(limit):
            try:
                return await self._raw.content.readany()
            except Exception as error:
                fault = classify(error)
                if fault is None:
                    raise
                raise fault.to_error(method=self._method, url=self._url, safe=True) from error
        silent = limit < self._deadline
        raise APITimeoutError(
            f"{self._method} {self._url}: "
            + (
                f"silent for {self._idle_timeout:g} s"
                if silent
                else "the deadline passed while streaming"
            ),
            budget="idle" if silent else "total",
            seconds=self._idle_timeout,
            method=self._method,
            url=self._url,
        )
