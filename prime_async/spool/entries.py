"""`SpoolEntry`: one push or run on disk, as any process may read it while its owner writes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from prime_async.errors import SpoolError, UsageError
from prime_async.spool.frames import FrameType
from prime_async.spool.locks import EntryLock
from prime_async.spool.processes import Holder
from prime_async.spool.ranges import Ranges
from prime_async.spool.reader import Damage, Frame, SegmentReader
from prime_async.spool.state import SpoolState, decode_control
from prime_async.spool.writer import spool_error

if TYPE_CHECKING:
    from prime_async.spool.owner import EntryWriter
    from prime_async.spool.spool import Spool

__all__ = ["DataRecord", "EntrySummary", "SpoolEntry"]

_LISTINGS = 10


class DataRecord(msgspec.Struct, frozen=True, order=True):
    """One record: its position in the input and its exact JSON bytes."""

    index: int
    payload: bytes


class EntrySummary(NamedTuple):
    """What a listing shows of an entry.

    Attributes:
        kind, id, path: the entry.
        bytes: size of its segments.
        records: records whose bytes it holds.
        undelivered: records neither confirmed nor refused.
        created_at: seconds since 1970; time of the folder where no meta record can be read.
        age: seconds since then.
        holder: the living process that owns it, or None.
        damaged: True when parts of it cannot be read.
    """

    kind: str
    id: str
    path: Path
    bytes: int
    records: int
    undelivered: int
    created_at: float
    age: float
    holder: Holder | None
    damaged: bool


class SpoolEntry:
    """One entry of a spool: a folder of segments. Reading needs no lock and never writes.

    Made by `Spool.open` and `Spool.entries`.

    Attributes:
        path: its folder.
        kind, id: its names, such as ``evals.push`` and ``push_01J…``.
    """

    def __init__(self, spool: Spool, kind: str, entry_id: str) -> None:
        self.kind = kind
        self.id = entry_id
        self.path = spool.root / kind / entry_id
        self._spool = spool

    def segments(self) -> list[Path]:
        """Return its segment files, oldest first."""
        return [path for _, path in numbered_segments(self.path)]

    @property
    def bytes(self) -> int:
        """Size of its segments."""
        return segment_bytes(self.path)

    def state(self, *, verify: bool = True) -> SpoolState:
        """Fold all its frames into what is delivered and what is not.

        Args:
            verify: False skips the payloads of data records: quicker on large entries, damage in
                them stays unseen.

        Raises:
            SpoolError: a segment cannot be read or has a newer format. Damage is no error: see
                `SpoolState.damage`.
        """
        return read_state(self.path, payloads=verify)

    def records(self, wanted: Ranges | None = None) -> Iterator[DataRecord]:
        """Go through the records it holds, in the order they were written, one in memory at a time.

        Args:
            wanted: only these; None is all. A record that was written twice comes once.

        Raises:
            SpoolError: a segment cannot be read or has a newer format.
        """
        left = Ranges([(0, 1 << 64)]) if wanted is None else wanted.copy()
        for path in self.segments():
            for frame in _frames_unless_pruned(path):
                if frame.type == FrameType.DATA and frame.index in left:
                    left.remove(frame.index)
                    yield DataRecord(frame.index, frame.payload)

    def summary(self) -> EntrySummary:
        """Return what a listing shows. Reads frame headers, not the records.

        Raises:
            SpoolError: a segment cannot be read or has a newer format.
        """
        state = self.state(verify=False)
        created_at = state.meta.created_at if state.meta else _changed(self.path)
        return EntrySummary(
            kind=self.kind,
            id=self.id,
            path=self.path,
            bytes=self.bytes,
            records=state.present.total,
            undelivered=state.undelivered.total,
            created_at=created_at,
            age=max(0.0, time.time() - created_at),
            holder=self.holder(),
            damaged=bool(state.damage),
        )

    def holder(self) -> Holder | None:
        """Return the living process that owns it, or None."""
        return EntryLock.holder(self.path)

    def try_take_over(self, purpose: str = "replay") -> EntryWriter | None:
        """Become its owner, to deliver what is left; None when another process is.

        The writer goes on in a segment of its own, made when it first writes; what is there stays
        as it is.

        Raises:
            SpoolError: the entry is gone, or cannot be read or written.
        """
        from prime_async.spool.owner import EntryWriter

        lock = EntryLock.acquire(self.path, purpose)
        if lock is None:
            return None
        try:
            state = self.state()
        except BaseException:
            lock.release()
            raise
        return EntryWriter(self, self._spool, lock, state)

    def take_over(self, purpose: str = "replay") -> EntryWriter:
        """Become its owner, as `try_take_over` does.

        Raises:
            SpoolError: another process owns it (the message names it); or as `try_take_over`.
        """
        writer = self.try_take_over(purpose)
        if writer is None:
            owner = self.holder() or "another process"
            raise SpoolError(
                f"{self.path} is in use by {owner}",
                path=self.path,
                hint="wait until that has ended",
            )
        return writer

    def remove(self, *, discard: bool = False) -> None:
        """Delete it from the disk, once everything in it is delivered.

        Args:
            discard: True deletes what is not delivered, too.

        Raises:
            SpoolError: something is not delivered, another process owns it, or it cannot be
                deleted.
        """
        with self.take_over("remove") as writer:
            writer.remove(discard=discard)

    def __repr__(self) -> str:
        return f"SpoolEntry({str(self.path)!r})"


def read_state(folder: Path, *, payloads: bool) -> SpoolState:
    """Fold the frames of every segment in a folder."""
    for _ in range(_LISTINGS):
        try:
            return _read_once(folder, payloads)
        except SpoolError as error:
            # Its owner may have pruned a segment after we listed it; a later one says what was in.
            if not isinstance(error.__cause__, FileNotFoundError) or not folder.is_dir():
                raise
    raise SpoolError(f"{folder} changes faster than it can be read", path=folder)


def _read_once(folder: Path, payloads: bool) -> SpoolState:
    state = SpoolState()
    expected = None
    for number, path in numbered_segments(folder):
        if expected is not None and number != expected:
            state.damage.append(Damage(path, 0, 0, f"segments before it are missing: {expected}"))
        expected = number + 1
        reader = SegmentReader(path)
        for frame in reader.frames(payloads=payloads):
            _fold(state, path, frame)
        state.damage += reader.damage
        state.torn += reader.torn
    return state


def _frames_unless_pruned(path: Path) -> Iterator[Frame]:
    try:
        yield from SegmentReader(path).frames()
    except SpoolError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise  # a segment that its owner pruned meanwhile held nothing undelivered


def numbered_segments(folder: Path) -> list[tuple[int, Path]]:
    """Return number and path of each segment in a folder, in the order of their numbers."""
    try:
        found = [(path.stem, path) for path in folder.iterdir() if path.suffix == ".seg"]
    except OSError as error:
        raise spool_error("cannot read the spool entry", folder, error) from error
    return sorted((int(stem), path) for stem, path in found if stem.isdecimal())


def segment_bytes(folder: Path) -> int:
    """Return the size of the segments in a folder; 0 when it is gone.

    Raises:
        SpoolError: the folder cannot be read.
    """
    try:
        with os.scandir(folder) as found:
            return sum(_size(path) for path in found if path.name.endswith(".seg"))
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise spool_error("cannot measure the spool entry", folder, error) from error


def _size(path: os.DirEntry[str]) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # pruned, or delivered and removed, since it was listed


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError as error:
        raise spool_error("cannot read the spool entry", folder, error) from error


def _fold(state: SpoolState, path: Path, frame: Frame) -> None:
    try:
        state.fold(frame.type, frame.index, decode_control(frame.type, frame.payload))
    except (msgspec.MsgspecError, UsageError) as error:
        reason = f"its content is not understood: {error}"
        state.damage.append(Damage(path, frame.offset, frame.length, reason))
