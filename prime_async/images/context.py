"""A build context: a folder as a gzipped tar on disk, sent from there in windows."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import anyio.from_thread
import anyio.to_thread

from prime_async.errors import UsageError
from prime_async.images.ignoring import Ignoring

__all__ = ["BuildContext", "ContextBody", "packed"]

_WINDOW = 2**20
_IGNORE_FILE = ".dockerignore"
_COMPRESSION = 6


class BuildContext:
    """A folder that images are built from.

    Raises:
        UsageError: it is no folder, or has no such Dockerfile.
        OSError: it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], dockerfile_path: str) -> None:
        self.root = Path(path)
        self.dockerfile = Path(os.path.normpath(dockerfile_path)).as_posix()
        if not self.root.is_dir():
            raise UsageError(f"path {os.fspath(path)!r} is not a folder", field="path")
        inside = not self.dockerfile.startswith(("/", ".."))
        if not inside or not (self.root / self.dockerfile).is_file():
            raise UsageError(
                f"there is no {dockerfile_path} in {os.fspath(path)!r}",
                field="dockerfile_path",
                hint="its path in the folder, such as docker/Dockerfile",
            )
        self._ignoring = Ignoring(_lines(self.root / _IGNORE_FILE))

    def pack(self, stopped: threading.Event) -> IO[bytes]:
        """Write everything that is not left out into a file that has no name; in a worker thread.

        Args:
            stopped: set when nobody waits for it any more; it then ends soon, with an error.
        """
        file = tempfile.TemporaryFile(prefix="prime-async-context-")  # noqa: SIM115 - returned
        try:
            with tarfile.open(
                fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=_COMPRESSION
            ) as archive:
                for path, name in self._entries():
                    _add(archive, path, name, stopped)
            file.flush()  # it is read by its descriptor
        except BaseException:
            file.close()
            raise
        return file

    def _entries(self) -> Iterator[tuple[Path, str]]:
        """Walk without following links; the Dockerfile and the rules themselves always go along."""
        needed = {self.dockerfile, _IGNORE_FILE}
        folders = [self.root]
        while folders:
            with os.scandir(folders.pop()) as found:
                entries = sorted(found, key=lambda entry: entry.name)
            for entry in entries:
                path = Path(entry.path)
                name = path.relative_to(self.root).as_posix()
                left_out = self._ignoring.leaves_out(name) and name not in needed
                holds_needed = any(each.startswith(f"{name}/") for each in needed)
                if entry.is_dir(follow_symlinks=False) and (
                    not left_out or self._ignoring.takes_back or holds_needed
                ):
                    folders.append(path)
                if not left_out:
                    yield path, name


def _add(archive: tarfile.TarFile, path: Path, name: str, stopped: threading.Event) -> None:
    info: tarfile.TarInfo | None = archive.gettarinfo(path, name)
    if info is None:  # a socket, which has no place in an archive
        return
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    if info.isreg() or info.islnk():  # a second name of a file becomes a file of its own
        info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
        with path.open("rb") as content:
            archive.addfile(info, _Stoppable(content, stopped))
    elif info.isdir() or info.issym():
        archive.addfile(info)


class _Stoppable(io.RawIOBase):
    """A file that is read to its end only while somebody waits for it."""

    def __init__(self, file: IO[bytes], stopped: threading.Event) -> None:
        self._file = file
        self._stopped = stopped

    def read(self, size: int = -1) -> bytes:
        anyio.from_thread.check_cancelled()  # of a scope of anyio; of a task of asyncio:
        if self._stopped.is_set():
            raise InterruptedError("nobody waits for the build context any more")
        return self._file.read(size)


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8-sig").splitlines() if path.is_file() else []


class ContextBody:
    """A body for the transport: the packed file from its beginning, for each try."""

    content_type = "application/octet-stream"

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield its bytes in windows."""
        for offset in range(0, self._size, _WINDOW):
            yield await anyio.to_thread.run_sync(os.pread, self._file.fileno(), _WINDOW, offset)


@asynccontextmanager
async def packed(context: BuildContext) -> AsyncGenerator[ContextBody, None]:
    """Pack a context into a file that is gone when the block ends."""
    stopped = threading.Event()
    try:
        file = await anyio.to_thread.run_sync(context.pack, stopped)
    finally:
        stopped.set()
    with file:
        yield ContextBody(file, file.tell())
