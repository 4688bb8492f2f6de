"""The body of an upload: one file in a form, streamed."""

from __future__ import annotations

import mimetypes
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

__all__ = ["FormBody", "RawBody"]

Pieces = Callable[[], AsyncGenerator[bytes, None]]


class RawBody:
    """Bytes as they are.

    Args:
        size: how many; None when that is not known.
        pieces: produces them, from the first on, for each try.
    """

    content_type: str = "application/octet-stream"

    def __init__(self, size: int | None, pieces: Pieces) -> None:
        self._size = size
        self._pieces = pieces

    @property
    def size(self) -> int | None:
        return self._size

    async def stream(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                yield piece


class FormBody(RawBody):
    """A form with one part called ``file``."""

    def __init__(self, filename: str, size: int | None, pieces: Pieces) -> None:
        boundary = f"prime-{secrets.token_hex(16)}"
        self.content_type = f"multipart/form-data; boundary={boundary}"
        kind = mimetypes.guess_type(filename)[0] or "application/octet-stream"
        self._head = (
            f"--{boundary}\r\n"
            f'Content-Disposition: form-data; name="file"; filename="{_quoted(filename)}"\r\n'
            f"Content-Type: {kind}\r\n\r\n"
        ).encode("utf-8", "replace")
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        super().__init__(None if size is None else len(self._head) + size + len(self._tail), pieces)

    async def stream(self) -> AsyncGenerator[bytes, None]:
        yield self._head
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                yield piece
        yield self._tail


def _quoted(filename: str) -> str:
    """Escape what would end the name or the line, as browsers do."""
    return filename.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
