"""`RollingWriter`: the segments of one entry as one thing to append to."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec

from prime_async.errors import SpoolError
from prime_async.spool.entries import numbered_segments
from prime_async.spool.frames import FRAME_HEADER_BYTES, FrameType
from prime_async.spool.ranges import Ranges
from prime_async.spool.records import Meta
from prime_async.spool.writer import SegmentWriter, fsync_folder

__all__ = ["RollingWriter"]


class RollingWriter:
    """Appends to the newest segment of a folder and begins the next one at a size.

    Always begins with a segment of its own, so what others wrote is never touched.

    Args:
        folder: the entry's folder.
        meta: copied to the head of each segment.
        segment_bytes: a frame that would take a segment past this size goes to the next one.
        present: records in the segments that are there already.

    Attributes:
        lock: held by the caller of `append`, `begin` and `stop`; `sync` and `close` take it
            themselves.
        bytes_written: bytes added to the disk so far.
        full: segments that nothing is appended to any more, oldest first, with the records they
            hold; those of earlier owners with the records of all of these together.
    """

    def __init__(self, folder: Path, meta: Meta, segment_bytes: int, present: Ranges) -> None:
        self.lock = threading.Lock()
        self.bytes_written = 0
        self.full = [(path, present) for _, path in numbered_segments(folder)]
        self._folder = folder
        self._meta = meta
        self._segment_bytes = segment_bytes
        self._segment: SegmentWriter | None = None
        self._held = Ranges()
        # Full segments that wait for the next sync: an append that begins a segment must not wait
        # for the disk. The spool's limit bounds them: 16 open files at the defaults.
        self._unsynced: list[SegmentWriter] = []
        self._names_changed = False
        self._closed = False
        self._sync_lock = threading.Lock()

    def append(
        self,
        kind: FrameType,
        index: int,
        payload: bytes | bytearray | memoryview,
        held: bool = False,
    ) -> None:
        """Write one frame; see `SegmentWriter.append`.

        Raises:
            SpoolError: the disk is full or cannot be written; nothing was written.
            UsageError: the payload is larger than 128 MiB or the index is no 64-bit number.
        """
        segment = self._segment_for(FRAME_HEADER_BYTES + len(payload))
        before = segment.size
        segment.append(kind, payload, index=index, held=held)
        self.bytes_written += segment.size - before
        if kind == FrameType.DATA:
            self._held.add(index)

    def begin(self) -> None:
        """Begin the next segment.

        Raises:
            SpoolError: the disk is full or cannot be written; the segment before stays in use.
        """
        self._check_open()
        fresh = self._new_segment()
        if self._segment is not None:
            self.full.append((self._segment.path, self._held))
            self._held = Ranges()
            self._unsynced.append(self._segment)
        self._segment = fresh
        self._names_changed = True
        self.bytes_written += fresh.size

    def present(self) -> Ranges:
        """Return the records in all segments, `full` ones and the one in use."""
        found = self._held.copy()
        for _, held in self.full:
            found.update(held)
        return found

    def sync(self) -> None:
        """Wait until everything appended before this call is on the medium.

        Raises:
            SpoolError: the medium reports an error.
        """
        with self._sync_lock:
            with self.lock:
                unsynced, self._unsynced = self._unsynced, []
                names_changed, self._names_changed = self._names_changed, False
                current = self._segment
            try:
                for segment in unsynced:
                    segment.sync()
                if current is not None:
                    current.sync()
            finally:
                for segment in unsynced:
                    segment.close()
            if names_changed:
                self.sync_names()

    def sync_names(self) -> None:
        """Bring the names of the segments, and of the folders above them, to the medium.

        Raises:
            SpoolError: the medium reports an error.
        """
        for folder in (self._folder, self._folder.parent, self._folder.parent.parent):
            fsync_folder(folder)

    def close(self) -> None:
        """Close every file, after a sync that may be running; a second time does nothing."""
        with self._sync_lock, self.lock:
            self.abandon()

    def stop(self) -> None:
        """Take no more frames; what is there can still be synced and must be closed."""
        self._closed = True

    def abandon(self) -> None:
        """Close every file without waiting, as a fork must, in which no sync is running."""
        for segment in (*self._unsynced, self._segment):
            if segment is not None:
                segment.close()
        self._unsynced, self._segment, self._closed = [], None, True

    def _segment_for(self, needed: int) -> SegmentWriter:
        self._check_open()
        segment = self._segment
        # One record behind the meta record always fits, however large.
        if segment is not None and (
            segment.frames <= 1 or segment.size + needed <= self._segment_bytes
        ):
            return segment
        self.begin()
        assert self._segment is not None
        return self._segment

    def _check_open(self) -> None:
        if self._closed:
            raise SpoolError(f"{self._folder} is closed", path=self._folder)

    def _new_segment(self) -> SegmentWriter:
        numbers = [number for number, _ in numbered_segments(self._folder)]
        number = max(numbers, default=0) + 1
        segment = SegmentWriter(self._folder / f"{number:04d}.seg")
        meta = msgspec.structs.replace(self._meta, segment=number)
        try:
            segment.append(FrameType.META, msgspec.json.encode(meta))
        except SpoolError:
            segment.close()
            segment.path.unlink()
            raise
        return segment
