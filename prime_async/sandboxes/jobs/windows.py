"""Reading the end of a file of a sandbox as text, window by window.

Windows are cut by bytes and come as text, in which a character that a cut goes through is U+FFFD.
From the size of a window the number of bytes follows that this stands for, and the next window
begins with them: the text is the same as if it had been read in one piece.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio
import msgspec

from prime_async.errors import APIError, SandboxFileTooLargeError
from prime_async.localfiles import windows_of
from prime_async.sandboxes.downloads import raise_file_error
from prime_async.sandboxes.gateway import Gateway, Link
from prime_async.sandboxes.output import Tail
from prime_async.sandboxes.pace import STILL_SECONDS
from prime_async.transport import Response

__all__ = ["OUTPUT_BYTES", "StreamText", "TailReader", "Window", "read_window", "split_bytes"]

OUTPUT_BYTES = 10 * 2**20
"""Bytes of a stream that are read at most: its end."""

_FIRST_WINDOW = 64 * 1024
_WINDOW = 2**20
_SECONDS = 30.0
_LONGEST_REST = 3
_CLOSE_LOOK = 64
_REPLACED = "\ufffd"


class Window(msgspec.Struct, gc=False):
    """A part of a file.

    Attributes:
        content: its text; size: its bytes.
        total_size, offset: the size of the file, and where the part begins in it; None where the
            gateway knows no windows and the part is the whole file.
    """

    content: str = ""
    size: int = 0
    total_size: int | None = None
    offset: int | None = None
    truncated: bool | None = None


_DECODER = msgspec.json.Decoder(Window)


@dataclass(frozen=True, slots=True)
class StreamText:
    """What is known of one stream of a job.

    Attributes:
        text: its end, or None when it could not be read.
        truncated: whether its beginning is missing.
        error: why it could not be read, or why there is nothing.
        size: bytes of the text.
    """

    text: str | None
    truncated: bool = False
    error: str | None = None
    size: int = 0


async def read_window(
    gateway: Gateway, sandbox_id: str, path: str, offset: int, length: int
) -> Window:
    """Read one window.

    Raises:
        SandboxFileNotFoundError: there is no such file.
        SandboxFileTooLargeError: the gateway knows no windows, and the file is too large without.
        APIError: it cannot be read.
    """

    async def send(link: Link) -> Response:
        return await link.transport.request(
            "GET",
            f"{link.path}/read-file",
            params={"path": path, "offset": offset, "length": length},
            headers=link.headers,
            timeout=_SECONDS,
        )

    try:
        response = await gateway.call(sandbox_id, send)
    except APIError as error:
        raise_file_error(error, path)
    try:
        return _DECODER.decode(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise response.broken(f"is not a window of a file: {error}") from error


class TailReader:
    """Reads the ends of files.

    Args:
        gateway: the way to them.
        requests: how many may be under way at a time.
        large: how many files that take more than one may be read at a time: until its text is
            made of its windows, each of them takes some MiB beside the result.
        counted: called for each request.
    """

    def __init__(
        self,
        gateway: Gateway,
        requests: anyio.CapacityLimiter,
        large: anyio.CapacityLimiter,
        counted: Callable[[], None],
    ) -> None:
        self._gateway = gateway
        self._requests = requests
        self._large = large
        self._counted = counted

    async def read(self, sandbox_id: str, path: str) -> StreamText:
        """Read the last 10 MiB of a file.

        Raises:
            SandboxFileNotFoundError: there is no such file.
            APIError: it cannot be read.
        """
        try:
            first = await self._window(sandbox_id, path, -OUTPUT_BYTES, _FIRST_WINDOW)
        except SandboxFileTooLargeError:
            return await self._download(sandbox_id, path)
        if first.total_size is None or first.offset is None:
            return _end_of(first.content)
        if first.offset + first.size >= first.total_size:
            return await self._rest(sandbox_id, path, first)
        async with self._large:
            return await self._rest(sandbox_id, path, first)

    async def _rest(self, sandbox_id: str, path: str, window: Window) -> StreamText:
        assert window.offset is not None
        assert window.total_size is not None
        end = window.total_size
        truncated = window.offset > 0
        begin = offset = window.offset
        text = ""
        while True:
            reached = offset + window.size
            content = window.content
            if reached < end and window.size:
                rest = await self._split(sandbox_id, path, window, reached)
                if rest:
                    content = content[:-1]
                    reached -= rest
            # Grows in place: joining 10 MiB at the end would hold the loop for 20 ms.
            text += content
            if reached >= end or reached == offset:
                break
            offset = reached
            length = min(_WINDOW, end - offset)
            window = await self._window(sandbox_id, path, offset, length)
        if truncated:
            text = _without_rest_of_character(text)
        return StreamText(text, truncated, size=reached - begin)

    async def _window(self, sandbox_id: str, path: str, offset: int, length: int) -> Window:
        async with self._requests:
            self._counted()
            return await read_window(self._gateway, sandbox_id, path, offset, length)

    async def _split(self, sandbox_id: str, path: str, window: Window, reached: int) -> int:
        """Return how many bytes of a character the cut at the end of a window left in it."""
        rest = split_bytes(window.content, window.size)
        if rest is not None:
            return rest
        # Other bytes that are not UTF-8 blur the sum: few of them are in the last bytes alone.
        close = min(_CLOSE_LOOK, window.size)
        last = await self._window(sandbox_id, path, reached - close, close)
        content = _without_rest_of_character(last.content)
        # What a cut at its beginning left is a character for each byte.
        return split_bytes(content, last.size - (len(last.content) - len(content))) or 0

    async def _download(self, sandbox_id: str, path: str) -> StreamText:
        """Stream a file that the gateway gives only as a whole, and keep its end."""
        tail = Tail(OUTPUT_BYTES)

        async def send(link: Link) -> None:
            async with link.transport.stream(
                "GET",
                f"{link.path}/download",
                params={"path": path, "sandbox_id": sandbox_id},
                headers={**link.headers, "Accept": "*/*"},
                idle_timeout=STILL_SECONDS,
            ) as response:
                async for piece in windows_of(response.iter_bytes()):
                    tail.add(piece)

        async with self._large, self._requests:
            self._counted()
            try:
                await self._gateway.call(sandbox_id, send)
            except APIError as error:
                raise_file_error(error, path)
        text = tail.text()
        return StreamText(text, tail.truncated, size=len(tail.data()))


def split_bytes(content: str, size: int) -> int | None:
    """Return how many bytes of a cut character stand at the end of a window's text.

    None when other bytes that are not UTF-8 make it impossible to tell.
    """
    if not content.endswith(_REPLACED):
        return 0
    whole = content[:-1]
    if _REPLACED in whole:
        return None
    rest = size - len(whole.encode())
    return rest if 0 < rest <= _LONGEST_REST and rest < size else 0


def _without_rest_of_character(text: str) -> str:
    start = 0
    while start < _LONGEST_REST and text.startswith(_REPLACED, start):
        start += 1
    return text[start:]


def _end_of(content: str) -> StreamText:
    data = content.encode("utf-8", "replace")
    if len(data) <= OUTPUT_BYTES:
        return StreamText(content, size=len(data))
    tail = Tail(OUTPUT_BYTES)
    tail.add(data)
    return StreamText(tail.text(), truncated=True, size=OUTPUT_BYTES)
