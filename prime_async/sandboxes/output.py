"""What a command writes: kept up to a limit, cut into lines, decoded across its pieces."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "DEFAULT_OUTPUT_BYTES",
    "LineCutter",
    "MAX_LINE",
    "OutputLine",
    "Tail",
]

DEFAULT_OUTPUT_BYTES = 64 * 2**20
"""Bytes of each stream a result holds by default; the beginning goes first."""

MAX_LINE = 2**20
"""Bytes of a line before it is handed on in parts."""


@dataclass(frozen=True, slots=True)
class OutputLine:
    r"""One line of a command's output.

    Attributes:
        stream: where it was written.
        text: decoded as UTF-8, without the ending; what is not UTF-8 is replaced by U+FFFD.
        data: the exact bytes, the ending included.
        complete: False for a part of a line longer than 1 MiB, and for a last line without
            ``\n``.
    """

    stream: Literal["stdout", "stderr"]
    text: str
    data: bytes
    complete: bool = True


class Tail:
    """The last bytes of a stream, and how many there were.

    Args:
        limit: bytes that are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self.size = 0

    @property
    def truncated(self) -> bool:
        """Whether the beginning is gone."""
        return self.size > self._held

    def add(self, piece: bytes) -> None:
        """Take the next bytes."""
        self.size += len(piece)
        self._pieces.append(piece)
        self._held += len(piece)
        while self._held > self._limit:
            surplus = self._held - self._limit
            first = self._pieces.popleft()
            if len(first) > surplus:
                self._pieces.appendleft(first[surplus:])
            self._held -= min(surplus, len(first))

    def data(self) -> bytes:
        """Return the bytes that are kept."""
        if len(self._pieces) > 1:
            self._pieces = deque([b"".join(self._pieces)])
        return self._pieces[0] if self._pieces else b""

    def text(self) -> str:
        """Return them decoded; the rest of a character that the cut went through is left out."""
        data = self.data()
        if self.truncated:
            # A character has three bytes at most after its first one.
            start = 0
            while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
                start += 1
            data = data[start:]
        return data.decode("utf-8", "replace")


class LineCutter:
    """Cuts one stream into lines.

    A character that is split over two pieces is put together again; long lines are handed on in
    parts, between characters.
    """

    def __init__(self, stream: Literal["stdout", "stderr"]) -> None:
        self._stream = stream
        self._held: list[bytes] = []
        self._size = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> Iterator[OutputLine]:
        """Take the next bytes and yield the lines they complete."""
        *whole, rest = piece.split(b"\n")
        for part in whole:
            yield self._line(part + b"\n", complete=True)
        if rest:
            self._held.append(rest)
            self._size += len(rest)
            if self._size > MAX_LINE:
                yield self._line(b"", complete=False)

    def finish(self) -> Iterator[OutputLine]:
        """Yield what is left when nothing more comes."""
        if self._held or self._decoder.getstate()[0]:
            yield self._line(b"", complete=False, last=True)

    def _line(self, end: bytes, *, complete: bool, last: bool = False) -> OutputLine:
        data = b"".join([*self._held, end])
        self._held, self._size = [], 0
        text = self._decoder.decode(data, final=last)
        if complete:
            text = text.removesuffix("\n").removesuffix("\r")
        return OutputLine(self._stream, text, data, complete)
