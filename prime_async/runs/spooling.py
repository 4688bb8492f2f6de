"""What a lane of a run keeps on disk: records that could not be delivered and, with ``durable``,
all of them until they are.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prime_async import ids
from prime_async.errors import SpoolError, UsageError
from prime_async.runs.blocks import BLOCK_BYTES, Item
from prime_async.runs.queue import Lane
from prime_async.spool import EntryWriter, Meta, Ranges, Spool, SpoolBatch, batches

__all__ = ["BATCH_BYTES", "LaneSpool", "SpoolPlace"]

BATCH_BYTES = BLOCK_BYTES
"""Bytes a batch aims at, in memory and from disk."""

_PRUNE_BYTES = 64 * 2**20
_LOG = logging.getLogger("prime_async.runs")


@dataclass(frozen=True, slots=True)
class SpoolPlace:
    """Where a run keeps things, and what it notes about itself there.

    Attributes:
        spool: the folder, or None where there is none: nothing is kept.
        base_url, context: where records are going; the name of the configuration context.
        target: ids, such as ``run_id`` and ``run_kind``.
        extra: whatever else delivery needs.
    """

    spool: Spool | None
    base_url: str | None
    context: str | None
    target: Mapping[str, str]
    extra: Mapping[str, Any] = field(default_factory=dict)

    def meta(self) -> Meta:
        """Return what goes to the head of each entry."""
        return Meta(
            base_url=self.base_url,
            context=self.context,
            target=dict(self.target),
            extra=dict(self.extra),
        )


class LaneSpool:
    """The entry of one lane, made when something is first kept. From any thread.

    A spool that cannot be written costs what it would have kept, and says so once; it never raises.

    Attributes:
        path: the entry's folder, or None while there is none.
        fault: why something could not be kept, or None.
    """

    def __init__(self, place: SpoolPlace, lane: Lane) -> None:
        self.path: Path | None = None
        self.fault: str | None = None
        self._place = place
        self._lane = lane
        self._lock = threading.Lock()
        self._writer: EntryWriter | None = None
        self._closed = False
        self._here = Ranges()
        self._only_here = Ranges()
        self._settled_bytes = 0

    @property
    def pending(self) -> int:
        """Records that are on disk only, to be delivered from there."""
        return self._only_here.total

    def write(self, item: Item, *, only_here: bool) -> bool:
        """Keep a record with one write(2), for the call that logs it; False when it could not be.

        Args:
            only_here: it is not in memory as well.
        """
        with self._lock:
            return self._write(item, only_here, held=True)

    def keep(self, items: list[Item], digest: str | None, *, perhaps_sent: bool) -> list[Item]:
        """Keep a batch that could not be delivered; return the records that could not be kept.

        Args:
            digest: the key of the batch, where it has one.
            perhaps_sent: it may have arrived, and must be sent again as the same batch.
        """
        # Locked one by one: a log call that writes, too, must not wait for a whole batch.
        failed = [item for item in items if not self._keep(item)]
        if perhaps_sent and not failed:
            with self._lock:
                self._note_cut(items, digest)
        return failed

    def sending(self, items: list[Item], digest: str | None) -> None:
        """Note the borders of a batch before it is sent, if its records are on disk as well."""
        with self._lock:
            if self._writer is not None and self._holds(items):
                self._note_cut(items, digest)

    def delivered(self, items: list[Item], receipt: str | None) -> None:
        """Note that the platform has these records. May wait for the disk: for a thread."""
        with self._lock:
            ranges = _ranges(items) & self._here
            if not ranges:
                return
            self._only_here.subtract(ranges)
            self._try(lambda writer: writer.ack(ranges, receipt))
            self._settled_bytes += sum(item.size for item in items)
            prune = self._settled_bytes >= _PRUNE_BYTES
            if prune:
                self._settled_bytes = 0
        if prune:  # waits for the disk: not under the lock that `write` takes
            self._try(lambda writer: writer.prune())

    def refused(self, item: Item, reason: str, status: int | None) -> None:
        """Note that a record is not to be sent again."""
        with self._lock:
            if self._writer is not None and self._holds([item]):
                self._only_here.remove(item.index)
                self._try(lambda writer: writer.refuse(item.index, reason, status=status))

    def dropped(self, items: list[Item]) -> int:
        """Leave records that a full queue turned away to the disk, if they are there; return how
        many are.
        """
        with self._lock:
            kept = _ranges(items) & self._here
            self._only_here.update(kept)
            return kept.total

    def batches(self, max_bytes: int, max_records: int) -> Iterator[SpoolBatch]:
        """Go through what is on disk only, in batches ready to be sent. Blocks: for a thread."""
        with self._lock:
            writer, wanted = self._writer, self._only_here.copy()
            if writer is None or not wanted:
                return
            state = writer.state()
        state.acked.update(state.present - wanted)
        yield from batches(writer.entry, state, max_bytes=max_bytes, max_records=max_records)

    def sync(self) -> None:
        """Wait until what was kept would outlive a power cut. Blocks: for a thread."""
        self._try(lambda writer: writer.sync())

    def close(self, total: int) -> None:
        """Let go of the entry: it stays while something in it is to be delivered.

        Args:
            total: how many records of the lane there were.
        """
        with self._lock:
            writer, self._writer, self._closed = self._writer, None, True
            if writer is None:
                return
            try:
                self._close(writer, total)
            except SpoolError as error:
                self._fault(error)

    def abandon(self) -> None:
        """In a forked child: leave the entry to the parent."""
        self._lock = threading.Lock()
        writer, self._writer, self._closed = self._writer, None, False
        self.path, self.fault = None, None
        self._here, self._only_here = Ranges(), Ranges()
        if writer is not None:
            writer.close()

    def _close(self, writer: EntryWriter, total: int) -> None:
        kept = writer.state().present
        if settled := Ranges([(0, total)]) - kept:
            writer.ack(settled)  # delivered without ever having been here
        writer.end(total)
        if writer.state().complete:
            writer.remove()
            self.path = None
        else:
            writer.close()

    def _keep(self, item: Item) -> bool:
        with self._lock:
            return self._write(item, only_here=True, held=False)

    def _write(self, item: Item, only_here: bool, held: bool) -> bool:
        writer = self._opened()
        if writer is None:
            return False
        if not self._holds([item]):
            try:
                writer.data(item.index, item.view, held=held)
            except (SpoolError, UsageError) as error:
                self._fault(error)
                return False
            self._here.add(item.index)
        if only_here:
            self._only_here.add(item.index)
        return True

    def _opened(self) -> EntryWriter | None:
        if self._writer is None and self._place.spool is not None and not self._closed:
            try:
                self._writer = self._place.spool.create(
                    self._lane.value, ids.new_id("log"), self._place.meta()
                )
            except SpoolError as error:
                self._fault(error)
                return None
            self.path = self._writer.entry.path
        return self._writer

    def _holds(self, items: list[Item]) -> bool:
        return all(item.index in self._here for item in items)

    def _note_cut(self, items: list[Item], digest: str | None) -> None:
        self._try(lambda writer: writer.cut(_ranges(items), digest))

    def _try(self, write: Callable[[EntryWriter], object]) -> None:
        writer = self._writer
        if writer is None:
            return
        try:
            write(writer)
        except SpoolError as error:
            self._fault(error)

    def _fault(self, error: Exception) -> None:
        if self.fault is None:
            _LOG.error("run_spool kind=%s: records cannot be kept: %s", self._lane.value, error)
        self.fault = str(error)


def _ranges(items: list[Item]) -> Ranges:
    return Ranges.of(item.index for item in items)
