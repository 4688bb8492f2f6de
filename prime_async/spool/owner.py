"""`EntryWriter`: an entry and the lock on it, for the one process that writes to it."""

from __future__ import annotations

import errno
import shutil
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from prime_async.errors import SpoolError
from prime_async.spool.entries import SpoolEntry, numbered_segments
from prime_async.spool.frames import FRAME_HEADER_BYTES, FrameType
from prime_async.spool.locks import EntryLock
from prime_async.spool.ranges import Ranges
from prime_async.spool.records import Ack, Cut, End, Meta, Refusal, Release
from prime_async.spool.state import SpoolState
from prime_async.spool.writer import SegmentWriter, fsync_folder, spool_error

if TYPE_CHECKING:
    from prime_async.spool.spool import Spool

__all__ = ["EntryWriter"]

_GRANT_BYTES = 4 * 1024 * 1024
_RETIRED_KEPT = 8


class EntryWriter:
    """Owns an entry until `close`: appends its records, over as many segments as they need.

    Every method that writes does one write(2), plus a new segment now and then, and may be called
    from any thread. When it has returned, what it wrote outlives ``kill -9``; after `sync`, a power
    cut. When it raises, nothing was written.

    Made by `Spool.create` and `SpoolEntry.take_over`. Belongs to the process that made it: of no
    use after a fork.

    Attributes:
        entry: the entry, as others see it.
        bytes_written: bytes this writer has added to the disk.
    """

    def __init__(self, entry: SpoolEntry, spool: Spool, lock: EntryLock, state: SpoolState) -> None:
        self.entry = entry
        self.bytes_written = 0
        self._spool = spool
        self._entry_lock = lock
        self._state = state
        self._granted = 0
        self._segment: SegmentWriter | None = None
        # Full segments that wait for the next sync: a roll in the middle of an append must not wait
        # for the disk.
        self._retired: list[SegmentWriter] = []
        self._names_changed = False
        self._closed = False
        self._lock = threading.Lock()
        self._sync_lock = threading.Lock()

    def begin(self) -> None:
        """Make the next segment now instead of with the first record.

        Raises:
            SpoolError: the disk is full or cannot be written.
        """
        with self._lock:
            self._roll()

    def data(self, index: int, payload: bytes | bytearray | memoryview) -> None:
        """Keep a record: its position in the input and its exact JSON bytes.

        Raises:
            SpoolError: the disk or the spool is full, or the writer is closed.
            UsageError: the record is larger than 128 MiB.
        """
        with self._lock:
            self._take_room(len(payload) + FRAME_HEADER_BYTES)
            self._append(FrameType.DATA, index, payload)
            self._state.present.add(index)

    def cut(self, ranges: Ranges, digest: str | None = None) -> Cut:
        """Fix the borders of a batch, before it is sent for the first time.

        A later cut that names some of the same records takes the place of the earlier one.

        Args:
            ranges: the records in it.
            digest: the key of its content, where the wire goes by content.

        Raises:
            SpoolError: the disk is full, or the writer is closed.
        """
        cut = Cut(_intervals(ranges), digest)
        self._control(FrameType.CUT, cut)
        return cut

    def ack(self, ranges: Ranges, receipt: str | None = None) -> None:
        """Note that the platform holds these records.

        Args:
            ranges: the records.
            receipt: the platform's id for them, if any.

        Raises:
            SpoolError: as `cut`. The records are delivered all the same, only this spool does not
                know it.
        """
        self._control(FrameType.ACK, Ack(_intervals(ranges), receipt))

    def release(self, ranges: Ranges) -> None:
        """Note that these records of a batch certainly did not arrive, so that they can be cut
        anew.

        Raises:
            SpoolError: as `cut`.
        """
        self._control(FrameType.RELEASE, Release(_intervals(ranges)))

    def refuse(
        self, index: int, reason: str, *, path: str | None = None, status: int | None = None
    ) -> None:
        """Note that a record is not to be sent again.

        Args:
            index: its position in the input.
            reason: why, in words.
            path: the place in the record that is at fault.
            status: HTTP status of the refusal; None when it was refused before it was sent.

        Raises:
            SpoolError: as `cut`.
        """
        self._control(FrameType.REFUSE, Refusal(index, reason, path, status), index)

    def end(self, total: int) -> None:
        """Note that the source has ended, after this many records (refused ones included).

        Raises:
            SpoolError: as `cut`.
        """
        self._control(FrameType.END, End(total))

    def state(self) -> SpoolState:
        """Return a copy of what is delivered and what is not, as of now. Reads nothing from the
        disk."""
        with self._lock:
            return self._state.copy()

    def sync(self) -> None:
        """Wait until everything written so far would outlive a power cut (fdatasync).

        Takes milliseconds; other threads may go on writing meanwhile.

        Raises:
            SpoolError: the medium reports an error; what was written since the last sync may be
                lost.
        """
        with self._sync_lock:
            self._sync()

    def close(self) -> None:
        """Let go of the entry, which stays on the disk; a second time does nothing.

        Syncs first when something is not delivered.

        Raises:
            SpoolError: as `sync`. The entry is let go of all the same.
        """
        with self._sync_lock:
            if self._closed:
                return
            try:
                if not self._state.complete:
                    self._sync()
            finally:
                self._let_go()

    def remove(self, *, discard: bool = False) -> None:
        """Delete the entry from the disk, once everything in it is delivered, and let go of it.

        Args:
            discard: True deletes what is not delivered, too.

        Raises:
            SpoolError: something is not delivered (the entry stays, and stays owned), or it cannot
                be deleted.
        """
        with self._sync_lock:
            self._check_removable(discard)
            try:
                self._delete()
            finally:
                self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _control(self, kind: FrameType, control: Any, index: int = 0) -> None:
        payload = msgspec.msgpack.encode(control)
        with self._lock:
            self._append(kind, index, payload)
            self._state.fold(kind, index, control)

    def _append(self, kind: FrameType, index: int, payload: bytes | bytearray | memoryview) -> None:
        segment = self._segment_for(FRAME_HEADER_BYTES + len(payload))
        before = segment.size
        segment.append(kind, payload, index=index)
        self.bytes_written += segment.size - before

    def _take_room(self, needed: int) -> None:
        # Counting every entry costs a few system calls, so room is taken some MiB at a time. Only
        # records count: a full spool must still be able to note what was delivered from it.
        if self._granted < needed:
            room = self._spool.room()
            self._granted = min(room, max(needed, _GRANT_BYTES))
            if self._granted < needed:
                raise _full(self._spool)
        self._granted -= needed

    def _segment_for(self, needed: int) -> SegmentWriter:
        segment = self._segment
        if segment is None or (
            segment.frames > 1 and segment.size + needed > self._spool.segment_bytes
        ):
            self._roll()
        assert self._segment is not None
        return self._segment

    def _roll(self) -> None:
        if self._closed:
            raise SpoolError(f"{self.entry.path} is closed", path=self.entry.path)
        fresh = self._new_segment()
        if self._segment is not None:
            self._retired.append(self._segment)
            if len(self._retired) > _RETIRED_KEPT:
                oldest = self._retired.pop(0)
                oldest.sync()
                oldest.close()
        self._segment = fresh
        self._names_changed = True
        self.bytes_written += fresh.size

    def _new_segment(self) -> SegmentWriter:
        numbers = [number for number, _ in numbered_segments(self.entry.path)]
        number = max(numbers, default=0) + 1
        segment = SegmentWriter(self.entry.path / f"{number:04d}.seg")
        meta = self._state.meta or Meta(kind=self.entry.kind, id=self.entry.id)
        copy = msgspec.structs.replace(meta, segment=number)
        try:
            segment.append(FrameType.META, msgspec.json.encode(copy))
        except SpoolError:
            segment.close()
            segment.path.unlink()
            raise
        return segment

    def _sync(self) -> None:
        with self._lock:
            retired, self._retired = self._retired, []
            current = self._segment
            names_changed, self._names_changed = self._names_changed, False
        try:
            for segment in retired:
                segment.sync()
            if current is not None:
                current.sync()
        finally:
            for segment in retired:
                segment.close()
        if names_changed:
            for folder in (self.entry.path, self.entry.path.parent, self._spool.root):
                fsync_folder(folder)

    def _check_removable(self, discard: bool) -> None:
        undelivered = self._state.undelivered
        if self._closed:
            raise SpoolError(f"{self.entry.path} is closed", path=self.entry.path)
        if discard or self._state.complete:
            return
        what = (
            f"records {undelivered} are not delivered"
            if undelivered
            else "its source has not ended"
        )
        raise SpoolError(f"{self.entry.path} is kept: {what}", path=self.entry.path)

    def _delete(self) -> None:
        self._close_segments()
        # Renamed first: a crash half-way must not leave records without the notes that they were
        # delivered.
        doomed = self.entry.path.with_name(f".removed-{self.entry.id}")
        try:
            self.entry.path.rename(doomed)
            shutil.rmtree(doomed)
        except OSError as error:
            raise spool_error("cannot delete the spool entry", self.entry.path, error) from error

    def _close_segments(self) -> None:
        with self._lock:
            for segment in (*self._retired, self._segment):
                if segment is not None:
                    segment.close()
            self._retired, self._segment, self._closed = [], None, True

    def _let_go(self) -> None:
        self._close_segments()
        self._entry_lock.release()


def _intervals(ranges: Ranges) -> list[tuple[int, int]]:
    return list(ranges)


def _full(spool: Spool) -> SpoolError:
    error = SpoolError(
        f"the spool {spool.root} is full: its limit is {spool.max_bytes} bytes",
        path=spool.root,
        hint="deliver or remove what is in it, or raise the limit",
    )
    error.errno = errno.EDQUOT
    return error


def sweep(kind_folder: Path) -> None:
    """Delete what a crash in the middle of a removal left behind."""
    for doomed in kind_folder.glob(".removed-*"):
        shutil.rmtree(doomed, ignore_errors=True)  # another process may be at the same
