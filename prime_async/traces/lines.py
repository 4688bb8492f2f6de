"""What a line of JSONL is to the traces service, and the lines of a file.

Lines are opaque: their bytes are sent as they are, line feed included, because their digest names
the upload. Only the line feed ends a line; a carriage return belongs to it.
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = [
    "ID_CHARACTERS",
    "MAX_LINE_BYTES",
    "LongLine",
    "bounded_lines",
    "content_size",
    "file_lines",
    "read_jsonl_lines",
]

MAX_LINE_BYTES = 64 * 2**20
"""Bytes a line may have, line feeds at its end not counted."""

ID_CHARACTERS = 256
"""Longest id of a trace, an episode, a run, an environment."""

_WINDOW = 2**20
_LINE_FEED = 0x0A


class LongLine:
    """Stands for a line that is too long to be held.

    Attributes:
        size: its bytes, without line feeds at its end.
    """

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


def content_size(line: bytes) -> int:
    """Return the bytes of a line without the line feeds at its end, which do not count."""
    end = len(line)
    while end and line[end - 1] == _LINE_FEED:
        end -= 1
    return end


def read_jsonl_lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the lines of a file as they are, line feeds included.

    Raises:
        OSError: it cannot be opened or read.
    """
    with Path(path).open("rb", buffering=_WINDOW) as file:
        yield from file


def bounded_lines(file: BinaryIO, limit: int = MAX_LINE_BYTES) -> Iterator[bytes | LongLine]:
    """Yield the lines of an open file; one of more than `limit` bytes is passed over in pieces,
    and a :class:`LongLine` stands for it.
    """
    while line := file.readline(limit + 1):
        if len(line) <= limit or line[-1] == _LINE_FEED:
            yield line
            continue
        size = len(line)
        while (piece := file.readline(_WINDOW)) and piece[-1] != _LINE_FEED:
            size += len(piece)
        yield LongLine(size + content_size(piece))


def file_lines(path: Path) -> Iterator[bytes | LongLine]:
    """Yield the lines of a file, too long ones by name only; a byte order mark is no part of them.

    Raises:
        OSError: it cannot be opened or read.
    """
    with path.open("rb", buffering=_WINDOW) as file:
        if file.read(len(BOM_UTF8)) != BOM_UTF8:
            file.seek(0)
        yield from bounded_lines(file)
