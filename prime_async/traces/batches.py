"""Batches: neighbouring lines that travel in one request, named by the digest of their bytes.

The same lines always give the same batches, however they are read, so that an upload that is
repeated after a crash meets what it had stored before. The rules are those of the official client:
blank lines are left out, a batch is closed before the line that would take it beyond its target,
and a line larger than the target is a batch of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from prime_async.traces.errors import TracesUsageError, TraceTooLargeError
from prime_async.traces.lines import MAX_LINE_BYTES, LongLine, content_size

__all__ = [
    "DEFAULT_TARGET_BATCH_BYTES",
    "MAX_BATCH_BYTES",
    "MAX_BATCH_LINES",
    "Batch",
    "Draft",
    "Packer",
    "digest_of",
    "iter_batches",
]

MAX_BATCH_BYTES = 256 * 2**20
"""Uncompressed bytes the service takes in one request."""

MAX_BATCH_LINES = 1_000_000
"""Rows the service takes in one request; an episode counts as one and its traces."""

DEFAULT_TARGET_BATCH_BYTES = 30 * 2**20
"""Uncompressed bytes a batch aims at: the front of the hosted service takes 32 MiB."""

_CHUNK = 256 * 1024
"""Small lines are joined up to this size; larger ones stay the objects they are."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The bytes of one request and what names them.

    Attributes:
        chunks: the bytes, in pieces that are never joined on the way to the platform.
        digest: SHA-256 of the bytes, 64 lower-case hex digits.
        num_lines: lines in it.
        first_line_number, last_line_number: places in the source, from 1; blank and refused lines
            count.
        size: how many bytes.
    """

    chunks: tuple[bytes, ...] = field(repr=False)
    digest: str
    num_lines: int
    first_line_number: int
    last_line_number: int
    size: int

    @property
    def data(self) -> bytes:
        """The bytes in one piece: a copy, where there are several."""
        return self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)

    @property
    def idempotency_key(self) -> str:
        """The name as the wire carries it, ``sha256:<digest>``."""
        return f"sha256:{self.digest}"


@dataclass(frozen=True, slots=True)
class Draft:
    """A batch whose digest is still to be computed."""

    chunks: tuple[bytes, ...]
    num_lines: int
    first_line_number: int
    last_line_number: int
    size: int

    def sealed(self) -> Batch:
        """Compute the digest: about a millisecond per MiB, off the event loop if there is one."""
        return Batch(
            self.chunks,
            digest_of(self.chunks),
            self.num_lines,
            self.first_line_number,
            self.last_line_number,
            self.size,
        )


def digest_of(chunks: Iterable[bytes | memoryview]) -> str:
    """Return the SHA-256 of bytes in pieces, as 64 lower-case hex digits."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


class Packer:
    """Packs lines, given one after the other, into batches.

    Args:
        target_bytes: bytes a batch aims at, at most 256 MiB.
        max_line_bytes: bytes a line may have.
        max_lines: lines a batch may have.

    Raises:
        UsageError: a limit is out of range.
    """

    def __init__(
        self,
        *,
        target_bytes: int = DEFAULT_TARGET_BATCH_BYTES,
        max_line_bytes: int = MAX_LINE_BYTES,
        max_lines: int = MAX_BATCH_LINES,
    ) -> None:
        _check_limit("target_bytes", target_bytes, MAX_BATCH_BYTES)
        _check_limit("max_line_bytes", max_line_bytes)
        _check_limit("max_lines", max_lines)
        self._target = target_bytes
        self._max_line = max_line_bytes
        self._max_lines = max_lines
        self.number = 0
        """Number of the last line given, from 1."""
        self._start_anew()

    def add(self, line: bytes | LongLine) -> Draft | None:
        """Take the next line; return the batch that ends before it, if one does.

        Raises:
            TraceTooLargeError: the line is too large; it is left out, and more may be added.
            UsageError: it is not bytes.
        """
        self.number += 1
        line = self._checked(line)
        size = len(line)
        if not size or line.isspace():
            return None
        closed = None
        if self._lines and (self._size + size > self._target or self._lines >= self._max_lines):
            closed = self.finish()
        self._take(line, size)
        return closed

    def pass_over(self) -> None:
        """Count a line that was refused before it could be one."""
        self.number += 1

    def finish(self) -> Draft | None:
        """Return the batch that is open, or None when it is empty."""
        if not self._lines:
            return None
        self._join()
        draft = Draft(tuple(self._chunks), self._lines, self._first, self._last, self._size)
        self._start_anew()
        return draft

    def _checked(self, line: object) -> bytes:
        if isinstance(line, LongLine):
            raise TraceTooLargeError(self.number, line.size, self._max_line)
        if isinstance(line, bytearray | memoryview):
            line = bytes(line)  # a copy: what is handed over as a buffer may change later
        if not isinstance(line, bytes):
            raise TracesUsageError(
                f"line {self.number} is a {type(line).__name__}, not bytes",
                field=f"line {self.number}",
                hint="upload_records takes objects, upload_file a path",
            )
        if len(line) > self._max_line and (size := content_size(line)) > self._max_line:
            raise TraceTooLargeError(self.number, size, self._max_line)
        return line

    def _start_anew(self) -> None:
        self._chunks: list[bytes] = []
        self._small: list[bytes] = []
        self._small_size = 0
        self._lines = 0
        self._size = 0
        self._first = 0
        self._last = 0

    def _take(self, line: bytes, size: int) -> None:
        if not self._lines:
            self._first = self.number
        self._last = self.number
        self._lines += 1
        self._size += size
        if self._small_size + size > _CHUNK:
            self._join()
        if size > _CHUNK:
            self._chunks.append(line)
        else:
            self._small.append(line)
            self._small_size += size

    def _join(self) -> None:
        if self._small:
            self._chunks.append(self._small[0] if len(self._small) == 1 else b"".join(self._small))
            self._small, self._small_size = [], 0


def iter_batches(
    lines: Iterable[bytes],
    *,
    target_bytes: int = DEFAULT_TARGET_BATCH_BYTES,
    max_line_bytes: int = MAX_LINE_BYTES,
    max_lines: int = MAX_BATCH_LINES,
) -> Iterator[Batch]:
    """Yield the batches of lines, in order.

    Args:
        lines: each with its line feed; the last may lack one.
        target_bytes: bytes a batch aims at; a line larger than that is a batch of its own.
        max_line_bytes: bytes a line may have.
        max_lines: lines a batch may have.

    Raises:
        UsageError: a limit is out of range, or a line is not bytes.
        TraceTooLargeError: a line is too large; the lines before it that were not yielded yet are
            not.
    """
    packer = Packer(target_bytes=target_bytes, max_line_bytes=max_line_bytes, max_lines=max_lines)
    return _batches(packer, lines)


def _batches(packer: Packer, lines: Iterable[bytes]) -> Iterator[Batch]:
    for line in lines:
        if draft := packer.add(line):
            yield draft.sealed()
    if draft := packer.finish():
        yield draft.sealed()


def _check_limit(name: str, value: int, highest: int | None = None) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value <= 0 or (highest is not None and value > highest):
        bounds = "at least 1" if highest is None else f"1 to {highest:,}"
        raise TracesUsageError(
            f"{name} is {value!r}; it must be a whole number, {bounds}", field=name
        )
