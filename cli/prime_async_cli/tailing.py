"""The end of a text file, and what is added to it: without reading the rest."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["added", "last_lines"]

_BLOCK = 64 * 1024
_PAUSE = 0.2


def last_lines(path: Path, count: int) -> tuple[list[str], int]:
    """Return the last lines of a file, and the position after them.

    Reads blocks from the end until there are enough line breaks.
    """
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        start, data = end, b""
        while start > 0 and count and data.count(b"\n") <= count:
            size = min(_BLOCK, start)
            start -= size
            file.seek(start)
            data = file.read(size) + data
    lines = data.decode("utf-8", "replace").splitlines()
    return lines[-count:] if count else [], end


def added(path: Path, position: int) -> Iterator[str]:
    """Yield whole lines as they are added, for ever; a new file of that name is read from its top.

    Blocks between two looks: for a command that does nothing else.
    """
    rest = b""
    number = _number(path)
    while True:
        now = _number(path)
        if now != number or (now is not None and path.stat().st_size < position):
            number, position, rest = now, 0, b""
        data = _read(path, position) if now is not None else b""
        position += len(data)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
        if not data:
            time.sleep(_PAUSE)


def _number(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:  # between the moving away of a full log and the making of the next
        return None


def _read(path: Path, position: int) -> bytes:
    with path.open("rb") as file:
        file.seek(position)
        return file.read(_BLOCK)
