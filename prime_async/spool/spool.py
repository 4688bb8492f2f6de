"""`Spool`: the folder that holds everything undelivered, one folder per push or run."""

from __future__ import annotations

import re
import time
from pathlib import Path

import msgspec

from prime_async._version import __version__
from prime_async.errors import SpoolError, UsageError
from prime_async.spool.adoption import copy_segments, meta_of, segments_of, size_of
from prime_async.spool.entries import SpoolEntry, segment_bytes
from prime_async.spool.locks import EntryLock
from prime_async.spool.owner import EntryWriter
from prime_async.spool.records import Meta
from prime_async.spool.removal import sweep
from prime_async.spool.state import SpoolState
from prime_async.spool.writer import full, spool_error

__all__ = ["DEFAULT_MAX_BYTES", "DEFAULT_SEGMENT_BYTES", "Spool"]

DEFAULT_MAX_BYTES = 1024**3
DEFAULT_SEGMENT_BYTES = 64 * 1024**2

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Spool:
    """Entries under one root, ``<root>/<kind>/<id>/0001.seg``. Makes no file until an entry is
    created.

    Any number of processes may use the same root at the same time. When the limit is reached new
    records are refused with `SpoolError`; nothing undelivered is ever deleted to make room. Each
    writer takes room 16 MiB at a time, so that several at once may pass the limit by as much each.

    Args:
        root: the folder, usually ``~/.prime/spool``. Made with mode 0700 when the first entry is
            created.
        max_bytes: limit over the segments of all entries; 1 GiB by default.
        segment_bytes: size at which a writer begins the next segment; 64 MiB by default.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
    ) -> None:
        self.root = Path(root)
        self.max_bytes = max_bytes
        self.segment_bytes = segment_bytes

    def create(self, kind: str, entry_id: str, meta: Meta | None = None) -> EntryWriter:
        """Make an entry and own it. Its first segment, with the meta record, is on the disk when
        this returns.

        Args:
            kind: what makes the records, such as ``evals.push``; the name of a folder.
            entry_id: the push or run; the name of a folder in that one.
            meta: what it is about; kind, id, time and version are filled in.

        Raises:
            SpoolError: there is such an entry, or the disk cannot be written.
            UsageError: kind or entry_id cannot be the name of a folder.
        """
        entry = SpoolEntry(self, _named("kind", kind), _named("entry_id", entry_id))
        self._make_folder(entry.path)
        lock = EntryLock.acquire(entry.path, "owner")
        if lock is None:
            raise SpoolError(f"{entry.path} was just taken by another process", path=entry.path)
        writer = EntryWriter(entry, self, lock, SpoolState(meta=_filled(meta, kind, entry_id)))
        try:
            writer.begin()
        except BaseException:
            writer.remove(discard=True)
            raise
        return writer

    def open(self, kind: str, entry_id: str) -> SpoolEntry:
        """Return an entry for reading.

        Raises:
            SpoolError: there is no such entry.
            UsageError: kind or entry_id cannot be the name of a folder.
        """
        entry = SpoolEntry(self, _named("kind", kind), _named("entry_id", entry_id))
        if not entry.path.is_dir():
            raise SpoolError(f"there is no spool entry {entry.path}", path=entry.path)
        return entry

    def entries(self, kind: str | None = None) -> list[SpoolEntry]:
        """Return the entries, of one kind or of all, sorted by kind and id (which sorts ids of ours
        by age).

        Raises:
            SpoolError: a folder cannot be read.
        """
        kinds = _folders(self.root) if kind is None else [_named("kind", kind)]
        return [
            SpoolEntry(self, name, entry_id)
            for name in kinds
            for entry_id in _folders(self.root / name)
        ]

    def adopt(self, path: Path) -> SpoolEntry:
        """Take in an entry that was carried here from elsewhere, and return it.

        What it says is copied; the original stays. If there is an entry of its name already, that
        one is returned as it is: adopting twice changes nothing.

        Args:
            path: the folder of an entry, or one of its segments.

        Raises:
            SpoolError: there is no readable segment, it does not fit, or it cannot be copied.
            UsageError: the kind or id in it cannot be the name of a folder.
        """
        segments = segments_of(path)
        meta = meta_of(segments)
        kind, entry_id = _named("kind", meta.kind), _named("entry_id", meta.id)
        entry = SpoolEntry(self, kind, entry_id)
        if not entry.path.exists():
            if size_of(segments) > self.room():
                raise full(self.root, self.max_bytes)
            _make_private(entry.path.parent)
            copy_segments(segments, entry.path)
        return entry

    def used_bytes(self) -> int:
        """Return the size of all segments.

        Raises:
            SpoolError: a folder cannot be read.
        """
        return sum(segment_bytes(entry.path) for entry in self.entries())

    def room(self) -> int:
        """Return how many bytes may still be added.

        Raises:
            SpoolError: a folder cannot be read.
        """
        return max(0, self.max_bytes - self.used_bytes())

    def _make_folder(self, path: Path) -> None:
        sweep(path.parent)
        try:
            _make_private(path.parent)
            path.mkdir(mode=0o700)
        except FileExistsError as error:
            raise SpoolError(f"there is already a spool entry {path}", path=path) from error
        except OSError as error:
            raise spool_error("cannot make the spool folder", path, error) from error

    def __repr__(self) -> str:
        return f"Spool({str(self.root)!r})"


def _filled(meta: Meta | None, kind: str, entry_id: str) -> Meta:
    return msgspec.structs.replace(
        meta or Meta(), kind=kind, id=entry_id, created_at=time.time(), version=__version__
    )


def _named(field: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of a spool folder", field=field)
    return name


def _make_private(path: Path) -> None:
    """Make a folder and those above it, each 0700: `Path.mkdir` gives its mode to the last one
    only."""
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)


def _folders(path: Path) -> list[str]:
    try:
        found = [entry.name for entry in path.iterdir() if entry.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise spool_error("cannot read the spool", path, error) from error
    return sorted(name for name in found if _NAME.fullmatch(name))
