"""A window of a file as the JSON text of ``read-file``, piece by piece: however large the window, a
piece of the file is all that is held."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator

import msgspec

from prime_async.server.runtimes.errors import SandboxFileError
from prime_async.server.runtimes.files import OpenFile

__all__ = ["require_length", "window_pieces"]

_SLICE = 128 * 1024


def require_length(file: OpenFile, limit: int) -> None:
    """Refuse a window that is too large for one answer.

    Raises:
        SandboxFileError: ``too_large``.
    """
    if file.length > limit:
        raise SandboxFileError(
            f"{file.length} bytes are more than the {limit} of one answer",
            path=file.info.path,
            code="too_large",
            hint="read a window of it, or download it",
        )


async def window_pieces(file: OpenFile) -> AsyncIterator[bytes]:
    """The object of the answer; bytes that are not UTF-8 become U+FFFD, as if decoded at once."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    size = 0
    yield b'{"content":"'
    async for chunk in file:
        size += len(chunk)
        # In slices on the loop: threads do not help, since decoding and encoding hold the GIL.
        for start in range(0, len(chunk), _SLICE):
            yield _escaped(decoder.decode(chunk[start : start + _SLICE]))
    yield _escaped(decoder.decode(b"", final=True))
    rest = {
        "size": size,
        "total_size": file.info.size,
        "offset": file.offset,
        "truncated": size < file.info.size,
    }
    yield b'",' + msgspec.json.encode(rest)[1:]


def _escaped(text: str) -> bytes:
    return msgspec.json.encode(text)[1:-1]
