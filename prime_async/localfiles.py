"""Files of this machine, read and written in windows, off the event loop, replaced in one step."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio.to_thread

from prime_async.errors import UsageError

__all__ = [
    "AtomicFile",
    "LocalFile",
    "WINDOW",
    "given_path",
    "nearest_path",
    "sha256_of",
    "windows_of",
]

WINDOW = 2**20
"""Bytes read or written at a time."""

_MOST_LOOKED_AT = 10_000


def given_path(path: object, field: str) -> Path:
    """Take a path as the caller gave it.

    Raises:
        UsageError: it is neither text nor a path; names the field.
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"{field} is a {type(path).__name__}, not a path", field=field)
    return Path(path)


class LocalFile:
    """A plain file that is read as it was when it was opened here.

    Raises:
        OSError: it is not there, not readable, or not a plain file.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size

    @classmethod
    async def at(cls, path: str | os.PathLike[str]) -> LocalFile:
        """Look at a file."""
        return await anyio.to_thread.run_sync(cls._at, Path(path))

    @classmethod
    def _at(cls, path: Path) -> LocalFile:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", str(path))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "is not a plain file", str(path))
        with path.open("rb"):
            return cls(path, found.st_size)

    async def windows(self, offset: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield its bytes from an offset on.

        Raises:
            OSError: it cannot be read, or became shorter meanwhile.
        """
        file = await anyio.to_thread.run_sync(self.path.open, "rb", 0)
        try:
            await anyio.to_thread.run_sync(file.seek, offset)
            while offset < self.size:
                wanted = min(WINDOW, self.size - offset)
                piece: bytes = await anyio.to_thread.run_sync(file.read, wanted)
                if not piece:
                    raise OSError(errno.EIO, "became shorter while it was read", str(self.path))
                offset += len(piece)
                yield piece
        finally:
            file.close()


class AtomicFile:
    """A file that appears under its name when it is whole, and not at all otherwise.

    ``async with`` makes its folders and a temporary file beside it; :meth:`commit` gives it the
    name.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        # Cut by bytes, of which file systems count 255: names may be long, and not of ASCII.
        start = os.fsencode(self.path.name)[:100].decode(errors="ignore")
        self._fresh = self.path.with_name(f".{start}.{secrets.token_hex(8)}.part")
        self._descriptor = -1

    async def __aenter__(self) -> Self:
        await anyio.to_thread.run_sync(self._open)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Two quick system calls on the loop: in a thread, a cancelled caller would leave them out.
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        with contextlib.suppress(FileNotFoundError):
            self._fresh.unlink()

    async def write(self, data: bytes) -> None:
        """Write at the end."""
        await anyio.to_thread.run_sync(self._write, data)

    async def restart(self) -> None:
        """Drop what was written."""
        await anyio.to_thread.run_sync(os.ftruncate, self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)

    async def sha256(self) -> str:
        """Return the checksum of what was written."""
        return await anyio.to_thread.run_sync(_sha256, self._fresh)

    async def commit(self) -> None:
        """Give it its name."""
        await anyio.to_thread.run_sync(self._fresh.replace, self.path)

    def _open(self) -> None:
        if self.path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", str(self.path))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            self._descriptor = os.open(self._fresh, flags, 0o666)
        except OSError as error:  # nobody asked for a file of the other name
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]


def nearest_path(path: Path) -> Path | None:
    """Return the entry of the same folder whose name is most like that of a missing one."""
    try:
        names = sorted(entry.name for entry in islice(path.parent.iterdir(), _MOST_LOOKED_AT))
    except OSError:
        return None
    near = get_close_matches(path.name, names, n=1)
    return path.with_name(near[0]) if near else None


async def sha256_of(path: Path) -> str:
    """Return the checksum of a file."""
    return await anyio.to_thread.run_sync(_sha256, path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def windows_of(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Gather bytes that come in pieces into windows of about 1 MiB."""
    held: list[bytes] = []
    size = 0
    async for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= WINDOW:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)
