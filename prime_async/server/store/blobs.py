"""Files named by the SHA-256 of what is in them.

A file is written under another name, brought to the disk and renamed, so that what has its name is
whole. Whether a file is still needed is known by the rows that name it: :meth:`Blobs.sweep` asks
them, and leaves alone what an upload is just bringing in. All methods block.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["Blobs"]


class Blobs:
    """The files below one folder."""

    def __init__(self, folder: Path) -> None:
        self._kept = folder / "blobs"
        self._incoming = folder / "incoming"
        self._lock = threading.Lock()
        self._pinned: Counter[str] = Counter()

    def open(self, known: Callable[[Collection[str]], Collection[str]]) -> int:
        """Make the folders; remove what was half written and what no row names, and return how
        many files that was.

        Args:
            known: tells which of some digests are still needed.
        """
        removed = 0
        # Folder by folder: parents that mkdir makes by itself are open to others.
        for folder in (self._kept.parent, self._kept, self._incoming):
            folder.mkdir(mode=0o700, exist_ok=True)
        for draft in self._incoming.iterdir():
            draft.unlink()
            removed += 1
        for shelf in self._kept.iterdir():
            names = [file.name for file in shelf.iterdir()]
            removed += self.sweep(names, known)
        return removed

    def new_draft(self) -> Path:
        """A path for a file that is being written; whoever writes it removes it."""
        return self._incoming / secrets.token_hex(16)

    def path(self, digest: str) -> Path:
        """The file of a digest."""
        return self._kept / digest[:2] / digest

    def read(self, digest: str, offset: int, length: int) -> bytes:
        """A part of a file.

        Raises:
            FileNotFoundError: there is no such file (any more).
            OSError: it cannot be read, or is shorter than that.
        """
        with self.path(digest).open("rb", buffering=0) as file:
            part = os.pread(file.fileno(), length, offset)
        if len(part) != length:
            raise OSError(f"the file {digest} ends before {offset + length}")
        return part

    def open_part(self, digest: str, offset: int) -> BinaryIO:
        """A file, open for reading at a place.

        Raises:
            FileNotFoundError: there is no such file (any more).
        """
        file = self.path(digest).open("rb")
        file.seek(offset)
        return file

    @contextmanager
    def pinned(self, digest: str) -> Iterator[None]:
        """Keep :meth:`sweep` from removing a file while the block runs."""
        with self._lock:
            self._pinned[digest] += 1
        try:
            yield
        finally:
            with self._lock:
                self._pinned[digest] -= 1
                self._pinned += Counter()

    def keep(self, draft: Path, digest: str) -> None:
        """Give a file that is on the disk its name; it replaces one with the same content."""
        path = self.path(digest)
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _sync_folder(self._kept)
        draft.chmod(0o600)
        draft.replace(path)
        _sync_folder(path.parent)

    def sweep(
        self, digests: Collection[str], known: Callable[[Collection[str]], Collection[str]]
    ) -> int:
        """Remove those files that no row names and nobody brings in; return how many.

        Called where no row can appear meanwhile: in the writer thread, or before it runs.
        """
        needed = set(known(digests))
        removed = 0
        with self._lock:
            for digest in digests:
                if digest in needed or digest in self._pinned:
                    continue
                self.path(digest).unlink(missing_ok=True)
                removed += 1
        return removed


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
