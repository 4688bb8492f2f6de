"""`batches`: what is left in an entry, in batches ready to be sent, in one pass over the disk."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from prime_async.spool.entries import DataRecord, SpoolEntry
from prime_async.spool.ranges import Ranges
from prime_async.spool.records import Cut
from prime_async.spool.state import SpoolState

__all__ = ["SpoolBatch", "batches"]


class SpoolBatch(NamedTuple):
    """Records to send together, in the order of their indexes.

    Attributes:
        records: index and exact JSON bytes of each.
        cut: the batch as it was cut before: it may have arrived, and must be sent under the same
            key or range. None for records that were never part of a batch: `EntryWriter.cut` comes
            before sending them.
    """

    records: list[DataRecord]
    cut: Cut | None

    @property
    def ranges(self) -> Ranges:
        """The indexes in it."""
        return Ranges.of(record.index for record in self.records)


def batches(
    entry: SpoolEntry, state: SpoolState, *, max_bytes: int, max_records: int = 1_000_000
) -> Iterator[SpoolBatch]:
    """Go through everything undelivered whose bytes are in the entry.

    Batches that were cut before come as they were cut; where one has a digest but lost a record
    since (refused or damaged), its records come as if they had never been cut. Memory: the batches
    that lie interleaved on the disk, so as many as were under way at a time when they were written.

    Args:
        entry: the entry; its owner is the one to send.
        state: how it stands; not changed here.
        max_bytes: limit for the records of a batch that has no cut yet; one larger record makes a
            batch of its own.
        max_records: the same in number.

    Raises:
        SpoolError: a segment cannot be read or has a newer format.
    """
    gathering = _Gathering(state)
    loose = _Loose(max_bytes, max_records)
    for record in entry.records(state.undelivered & state.present):
        cut = gathering.cut_of(record.index)
        if cut is None:
            yield from loose.add(record)
        elif found := gathering.add(cut, record):
            yield found
    for record in gathering.rest():
        yield from loose.add(record)
    yield from loose.flush()


class _Gathering:
    """Cut batches whose records are being collected."""

    def __init__(self, state: SpoolState) -> None:
        settled = state.settled
        self._wanted: dict[int, Ranges] = {}
        self._found: dict[int, list[DataRecord]] = {}
        self._owners: list[tuple[int, int, Cut]] = []
        for cut in state.cuts:
            wanted = cut.ranges - settled
            spoilt = cut.digest is not None and wanted.total < cut.ranges.total
            if not spoilt and state.present.covers(wanted):
                self._wanted[cut.intervals[0][0]] = wanted
                self._owners += [(start, stop, cut) for start, stop in cut.intervals]
        self._owners.sort(key=lambda owner: owner[0])

    def cut_of(self, index: int) -> Cut | None:
        place = bisect_right(self._owners, index, key=lambda owner: owner[0])
        if not place or index >= self._owners[place - 1][1]:
            return None
        return self._owners[place - 1][2]

    def add(self, cut: Cut, record: DataRecord) -> SpoolBatch | None:
        key = cut.intervals[0][0]
        found = self._found.setdefault(key, [])
        found.append(record)
        if len(found) < self._wanted[key].total:
            return None
        return SpoolBatch(sorted(self._found.pop(key)), cut)

    def rest(self) -> Iterator[DataRecord]:
        """Go through the records of batches that are not whole: some of their records turned out
        damaged."""
        for found in self._found.values():
            yield from found


class _Loose:
    """Records outside of any cut, up to a limit."""

    def __init__(self, max_bytes: int, max_records: int) -> None:
        self._max_bytes, self._max_records = max_bytes, max_records
        self._records: list[DataRecord] = []
        self._bytes = 0

    def add(self, record: DataRecord) -> Iterator[SpoolBatch]:
        size = len(record.payload)
        full = self._bytes + size > self._max_bytes or len(self._records) >= self._max_records
        if self._records and full:
            yield from self.flush()
        self._records.append(record)
        self._bytes += size

    def flush(self) -> Iterator[SpoolBatch]:
        if self._records:
            yield SpoolBatch(sorted(self._records), None)
        self._records, self._bytes = [], 0
