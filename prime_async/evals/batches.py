"""Batches: samples packed by their true bytes on the wire, sent in pieces, split when the platform wants less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from prime_async.spool import Ranges

__all__ = ["MAX_PAYLOAD_BYTES", "OVERHEAD", "TARGET_BYTES", "Batch", "Packer"]

MAX_PAYLOAD_BYTES = 25 * 2**20
"""Bytes a request may have at most; the official clients' limit."""

TARGET_BYTES = 2**20
"""Bytes after which a batch is closed: large enough to be cheap, small enough to keep several on their way."""

_HEAD, _TAIL = b'{"samples":[', b"]}"

OVERHEAD = len(_HEAD) + len(_TAIL)
"""Bytes a request has beside its samples and the commas between them."""

_PIECE_BYTES = 128 * 1024

_MAX_GAPS = 100
"""Holes a batch may have where samples were refused; each costs an interval in a request header."""


@dataclass(slots=True)
class Batch:
    """Samples that travel in one request. Implements the transport's ``Body``: any try sends the same bytes."""

    samples: list[tuple[int, bytes]] = field(default_factory=list)
    size: int = OVERHEAD - 1
    content_type: str = "application/json"

    def add(self, index: int, data: bytes) -> None:
        """Put a sample at the end."""
        self.samples.append((index, data))
        self.size += len(data) + 1

    @property
    def indexes(self) -> Ranges:
        """The input indexes inside."""
        first, last = self.samples[0][0], self.samples[-1][0]
        if last - first + 1 == len(
            self.samples
        ):  # they rise, so nothing is missing between the two
            return Ranges([(first, last + 1)])
        return Ranges.of(index for index, _ in self.samples)

    def pieces(self) -> Iterator[bytes]:
        """Produce the request body in pieces of about 128 KiB; only one of them exists at a time."""
        piece: list[bytes] = []
        size = 0
        lead = _HEAD
        for _, data in self.samples:
            piece.append(data if piece else lead + data)
            size += len(data)
            if size >= _PIECE_BYTES:
                yield b",".join(piece)
                lead, piece, size = b",", [], 0
        yield b",".join(piece) + _TAIL if piece else _TAIL

    def halves(self) -> tuple[Batch, Batch]:
        """Split in the middle, by bytes."""
        left, right = Batch(), Batch()
        for index, data in self.samples:
            half = left if not left.samples or left.size + len(data) <= self.size // 2 else right
            (right if right.samples else half).add(index, data)
        return left, right

    def without(self, indexes: set[int]) -> Batch:
        """Return a batch that lacks these samples."""
        return self._picked(lambda index: index not in indexes)

    def only(self, indexes: set[int]) -> Batch:
        """Return a batch of just these samples."""
        return self._picked(lambda index: index in indexes)

    def _picked(self, wanted: Callable[[int], bool]) -> Batch:
        picked = Batch()
        for index, data in self.samples:
            if wanted(index):
                picked.add(index, data)
        return picked


class Packer:
    """Packs samples in input order into batches of the target size, never beyond the ceiling.

    Args:
        ceiling: bytes a request may have at most.
    """

    def __init__(self, ceiling: int) -> None:
        self._ceiling = ceiling
        self._target = min(TARGET_BYTES, ceiling)
        self._open = Batch()
        self._gaps = 0

    def add(self, index: int, data: bytes) -> Batch | None:
        """Put a sample in; return a batch when one became ready."""
        ready = None
        if self._open.samples and self._must_close_before(index, len(data)):
            ready, self._open = self._open, Batch()
            self._gaps = 0
        if self._open.samples and index != self._open.samples[-1][0] + 1:
            self._gaps += 1
        self._open.add(index, data)
        return ready

    def _must_close_before(self, index: int, size: int) -> bool:
        batch = self._open
        return (
            batch.size >= self._target
            or batch.size + size + 1 > self._ceiling
            or (self._gaps >= _MAX_GAPS and index != batch.samples[-1][0] + 1)
        )

    def flush(self) -> Batch | None:
        """Return what is left, or None."""
        batch, self._open = self._open, Batch()
        self._gaps = 0
        return batch if batch.samples else None
