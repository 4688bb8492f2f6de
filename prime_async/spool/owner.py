"""`EntryWriter`: an entry and the lock on it, for the one process that writes to it."""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from prime_async.errors import SpoolError
from prime_async.spool.entries import SpoolEntry
from prime_async.spool.frames import FRAME_HEADER_BYTES, FrameType
from prime_async.spool.locks import EntryLock
from prime_async.spool.ranges import Ranges
from prime_async.spool.records import Ack, Cut, End, Meta, Refusal, Release
from prime_async.spool.removal import delete_folder
from prime_async.spool.rolling import RollingWriter
from prime_async.spool.state import SpoolState
from prime_async.spool.writer import full, spool_error

if TYPE_CHECKING:
    from prime_async.spool.spool import Spool

__all__ = ["EntryWriter"]

_GRANT_BYTES = 16 * 1024 * 1024


class EntryWriter:
    """Owns an entry until `close`: appends its records, over as many segments as they need.

    Every method that writes does one write(2), plus a new segment now and then, and may be called
    from any thread. When it has returned, what it wrote outlives ``kill -9``; after `sync`, a power
    cut. When it raises, nothing was written.

    Made by `Spool.create` and `SpoolEntry.take_over`. Belongs to the process that made it: of no
    use after a fork.

    Attributes:
        entry: the entry, as others see it.
    """

    def __init__(self, entry: SpoolEntry, spool: Spool, lock: EntryLock, state: SpoolState) -> None:
        self.entry = entry
        self._spool = spool
        self._entry_lock = lock
        self._state = state
        self._granted = 0
        meta = state.meta or Meta(kind=entry.kind, id=entry.id)
        self._segments = RollingWriter(entry.path, meta, spool.segment_bytes, state.present.copy())
        self._pid = os.getpid()
        self._closed = False

    @property
    def bytes_written(self) -> int:
        """Bytes this writer has added to the disk."""
        return self._segments.bytes_written

    def begin(self) -> None:
        """Make the next segment now instead of with the first record.

        Raises:
            SpoolError: the disk is full or cannot be written.
        """
        with self._segments.lock:
            self._segments.begin()

    def data(
        self, index: int, payload: bytes | bytearray | memoryview, *, held: bool = False
    ) -> None:
        """Keep a record: its position in the input and its exact JSON bytes.

        Args:
            held: keep the interpreter meanwhile; see `SegmentWriter.append`.

        Raises:
            SpoolError: the disk or the spool is full, or the writer is closed.
            UsageError: the record is larger than 128 MiB, or the index is no 64-bit number.
        """
        self._check_process()
        with self._segments.lock:
            self._take_room(len(payload) + FRAME_HEADER_BYTES)
            self._segments.append(FrameType.DATA, index, payload, held)
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
        """Return a copy of what is delivered and what is not, as of now. Reads no file."""
        self._check_process()
        with self._segments.lock:
            return self._state.copy()

    def sync(self) -> None:
        """Wait until everything written so far would outlive a power cut (fdatasync).

        Takes milliseconds; other threads may go on writing meanwhile.

        Raises:
            SpoolError: the medium reports an error; what was written since the last sync may be
                lost.
        """
        self._check_process()
        self._segments.sync()

    def prune(self) -> int:
        """Delete the oldest full segments, as far as everything in them is settled.

        What is known about their records is written down, and synced, first. For owners that keep
        every record before it is sent, such as a run that goes on for days. Does nothing where the
        entry is damaged: what cannot be read may be undelivered.

        Returns:
            Bytes given back.

        Raises:
            SpoolError: the disk is full, cannot be written or reports an error.
        """
        self._check_process()
        with self._segments.lock:
            done = self._settled_segments()
            if done:
                self._write(FrameType.CHECKPOINT, self._state.checkpoint())
        if not done:
            return 0
        self._segments.sync()
        return sum(self._delete_segment(path) for path in done)

    def close(self) -> None:
        """Let go of the entry, which stays on the disk; a second time does nothing.

        Syncs first when something is not delivered. In a fork of the owner it closes the child's
        copies of the files only.

        Raises:
            SpoolError: as `sync`. The entry is let go of all the same.
        """
        if self._pid != os.getpid():
            self._segments.abandon()
        elif not self._closed:
            try:
                if not self._state.complete:
                    self._segments.sync()
            finally:
                self._let_go()

    def remove(self, *, discard: bool = False) -> None:
        """Delete the entry from the disk, once everything in it is delivered, and let go of it.

        Args:
            discard: True deletes what is not delivered, too.

        Raises:
            SpoolError: something is not delivered or the source has not ended (the entry stays, and
                stays owned), or it cannot be deleted.
        """
        self._check_process()
        with self._segments.lock:  # no thread may slip a record in behind the check
            self._check_removable(discard)
            self._segments.stop()
        try:
            self._segments.close()
            delete_folder(self.entry.path)
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
        self._check_process()
        with self._segments.lock:
            self._write(kind, control, index)

    def _write(self, kind: FrameType, control: Any, index: int = 0) -> None:
        self._segments.append(kind, index, msgspec.msgpack.encode(control))
        self._state.fold(kind, index, control)

    def _take_room(self, needed: int) -> None:
        # Counting every entry costs some system calls, so room is taken a few MiB at a time. Only
        # records count: a full spool must still be able to note what was delivered from it.
        if self._granted < needed:
            self._granted = min(self._spool.room(), max(needed, _GRANT_BYTES))
            if self._granted < needed:
                raise full(self._spool.root, self._spool.max_bytes)
        self._granted -= needed

    def _settled_segments(self) -> list[Path]:
        if self._state.damage:
            return []
        settled, full = self._state.settled, self._segments.full
        done = list(takewhile(lambda segment: settled.covers(segment[1]), full))
        del full[: len(done)]
        self._state.present = self._segments.present()
        return [path for path, _ in done]

    def _delete_segment(self, path: Path) -> int:
        try:
            size = path.stat().st_size
            path.unlink()
        except OSError as error:
            raise spool_error("cannot delete the spool segment", path, error) from error
        return size

    def _check_process(self) -> None:
        # Before any lock: a thread of the parent may have held it when this process was forked.
        if self._pid != os.getpid():
            raise SpoolError(
                f"{self.entry.path} belongs to process {self._pid}, of which this one is a fork",
                path=self.entry.path,
                hint="create a spool entry of its own in the child",
            )

    def _check_removable(self, discard: bool) -> None:
        path, undelivered = self.entry.path, self._state.undelivered
        if self._closed:
            raise SpoolError(f"{path} is closed", path=path)
        if discard or self._state.complete:
            return
        if undelivered:
            raise SpoolError(f"{path} is kept: records {undelivered} are not delivered", path=path)
        raise SpoolError(f"{path} is kept: its source has not ended", path=path)

    def _let_go(self) -> None:
        self._segments.close()
        self._closed = True
        self._entry_lock.release()


def _intervals(ranges: Ranges) -> list[tuple[int, int]]:
    return list(ranges)
