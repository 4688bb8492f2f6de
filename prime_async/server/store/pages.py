"""Reads samples by page, in order, in time that does not depend on how deep the page is.

The order of samples is (first arrival of their push, index). A directory per evaluation, built once
from the index and kept while the evaluation does not grow, says at which position each chunk
begins.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from prime_async.server.store.schema import sample_chunks

__all__ = ["Directories", "Slice", "plan", "read_slices"]

_KEPT_CHUNKS = 1_000_000
"""Chunks in all kept directories together: 16 bytes each."""

WINDOW_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Slice:
    """Neighbouring samples of one chunk: their place in its data, commas between them included."""

    chunk: int
    begin: int
    end: int


class _Directory:
    """Where each chunk of an evaluation begins: positions ascending, the chunk's row beside it."""

    def __init__(self, rows: Iterable[Sequence[int]]) -> None:
        self.total = 0
        self.positions = array("q")
        self.chunks = array("q")
        for number, count in rows:
            self.positions.append(self.total)
            self.chunks.append(number)
            self.total += count


class Directories:
    """The directories of the evaluations read last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, _Directory] = OrderedDict()
        self._chunks = 0

    def get(self, evaluation: int, total: int) -> _Directory | None:
        """The directory of an evaluation that holds so many samples."""
        directory = self._kept.get(evaluation)
        if directory is None or directory.total != total:
            return None
        self._kept.move_to_end(evaluation)
        return directory

    def put(self, evaluation: int, directory: _Directory) -> None:
        """Keep a directory, dropping the ones used longest ago when there are too many chunks."""
        self.drop(evaluation)
        self._kept[evaluation] = directory
        self._chunks += len(directory.chunks)
        while self._chunks > _KEPT_CHUNKS and len(self._kept) > 1:
            self.drop(next(iter(self._kept)))

    def drop(self, evaluation: int) -> None:
        """Forget an evaluation."""
        directory = self._kept.pop(evaluation, None)
        if directory is not None:
            self._chunks -= len(directory.chunks)


def build(connection: Connection, evaluation: int) -> _Directory:
    """Read the directory of an evaluation from the index."""
    columns = sample_chunks.c.number, sample_chunks.c.count
    query = (
        select(*columns)
        .where(sample_chunks.c.evaluation == evaluation)
        .order_by(sample_chunks.c.push, sample_chunks.c.start)
    )
    return _Directory(connection.execute(query))


def plan(connection: Connection, directory: _Directory, first: int, count: int) -> list[Slice]:
    """The slices that hold ``count`` samples from position ``first`` on."""
    slices: list[Slice] = []
    last = min(first + count, directory.total)
    place = bisect_right(directory.positions, first) - 1
    while first < last:
        number, begin = directory.chunks[place], directory.positions[place]
        place += 1
        end = directory.positions[place] if place < len(directory.positions) else directory.total
        stop = min(last, end)
        slices.append(_slice(connection, number, first - begin, stop - begin))
        first = stop
    return slices


def _slice(connection: Connection, number: int, first: int, stop: int) -> Slice:
    query = select(sample_chunks.c.offsets).where(sample_chunks.c.number == number)
    offsets = memoryview(connection.execute(query).scalar_one()).cast("I")
    return Slice(number, offsets[first], offsets[stop] - 1)


def read_slices(connection: Connection, slices: list[Slice]) -> bytes:
    """The JSON texts of slices, joined by commas."""
    pieces: list[memoryview] = []
    for one in slices:
        query = select(sample_chunks.c.data).where(sample_chunks.c.number == one.chunk)
        pieces.append(memoryview(connection.execute(query).scalar_one())[one.begin : one.end])
    return b",".join(pieces)
