"""Batches: chunks packed by their true bytes on the wire, sent in pieces, taken apart when the
platform wants less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from prime_async.evals.encoding import Chunk, join
from prime_async.spool import Ranges

__all__ = ["MAX_PAYLOAD_BYTES", "OVERHEAD", "TARGET_BYTES", "Batch", "Packer"]

MAX_PAYLOAD_BYTES = 25 * 2**20
"""Bytes a request may have at most; the official clients' limit."""

TARGET_BYTES = 2**20
"""Bytes after which a batch is closed: large enough to be cheap, small enough to keep several on
their way.
"""

_HEAD, _TAIL = b'{"samples":[', b"]}"

OVERHEAD = len(_HEAD) + len(_TAIL)
"""Bytes a request has beside its samples and the commas between them."""

_PIECE_BYTES = 256 * 1024
_MAX_HOLES = 100
"""Holes a batch may have where samples were refused; each costs an interval in a request header."""


@dataclass(slots=True)
class Batch:
    """Samples that travel in one request. Implements the transport's ``Body``: any try sends the
    same bytes.
    """

    chunks: list[Chunk] = field(default_factory=list)
    size: int = OVERHEAD - 1
    count: int = 0
    holes: int = 0
    content_type: str = "application/json"

    @classmethod
    def of(cls, samples: Sequence[tuple[int, bytes]]) -> Batch:
        """Make a batch of encoded samples."""
        batch = cls()
        for chunk in join(samples):
            batch.add(chunk)
        return batch

    def add(self, chunk: Chunk) -> None:
        """Put a chunk at the end."""
        self.holes += bool(self.chunks) and chunk.start != self.stop
        self.chunks.append(chunk)
        self.size += len(chunk.data) + 1
        self.count += chunk.number

    @property
    def stop(self) -> int:
        """One more than the last index inside."""
        last = self.chunks[-1]
        return last.start + last.number

    @property
    def indexes(self) -> Ranges:
        """The input indexes inside."""
        if not self.holes:
            return Ranges([(self.chunks[0].start, self.stop)])
        return Ranges([(chunk.start, chunk.start + chunk.number) for chunk in self.chunks])

    @property
    def samples(self) -> list[tuple[int, bytes]]:
        """The samples one by one."""
        return [sample for chunk in self.chunks for sample in chunk.samples()]

    def pieces(self) -> Iterator[bytes]:
        """Produce the request body in pieces of about 256 KiB; one of them exists at a time."""
        piece: list[bytes | memoryview] = []
        size = 0
        lead = _HEAD
        for chunk in self.chunks:
            piece += (lead, chunk.data)
            lead = b","
            size += len(chunk.data)
            if size >= _PIECE_BYTES:
                yield b"".join(piece)
                piece, size = [], 0
        yield b"".join((*piece, _TAIL))

    def halves(self) -> tuple[Batch, Batch]:
        """Split in the middle, by bytes. Needs at least two samples; neither half is empty."""
        samples = self.samples
        sizes = list(accumulate(len(data) + 1 for _, data in samples))
        cut = min(range(1, len(samples)), key=lambda place: abs(2 * sizes[place - 1] - sizes[-1]))
        return Batch.of(samples[:cut]), Batch.of(samples[cut:])

    def without(self, indexes: set[int]) -> Batch:
        """Return a batch that lacks these samples."""
        return self._picked(lambda index: index not in indexes)

    def only(self, indexes: set[int]) -> Batch:
        """Return a batch of just these samples."""
        return self._picked(lambda index: index in indexes)

    def _picked(self, wanted: Callable[[int], bool]) -> Batch:
        return Batch.of([sample for sample in self.samples if wanted(sample[0])])


class Packer:
    """Packs chunks into batches of the target size, never beyond the ceiling.

    Args:
        ceiling: bytes a request may have at most; no chunk with more than one sample may be larger.
    """

    def __init__(self, ceiling: int) -> None:
        self._ceiling = ceiling
        self._target = min(TARGET_BYTES, ceiling)
        self._open = Batch()

    def add(self, chunk: Chunk) -> Batch | None:
        """Put a chunk in; return a batch when one became ready."""
        ready = None
        if self._open.chunks and self._must_close_before(chunk):
            ready, self._open = self._open, Batch()
        self._open.add(chunk)
        return ready

    def flush(self) -> Batch | None:
        """Return what is left, or None."""
        batch, self._open = self._open, Batch()
        return batch if batch.chunks else None

    def _must_close_before(self, chunk: Chunk) -> bool:
        batch = self._open
        return (
            chunk.start < batch.stop  # a request lists its indexes as rising ranges
            or batch.size >= self._target
            or batch.size + len(chunk.data) + 1 > self._ceiling
            or (batch.holes >= _MAX_HOLES and chunk.start != batch.stop)
        )
