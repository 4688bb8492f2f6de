"""A folder as a stream of tar, and the other way round, one window at a time."""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import IO

import anyio.from_thread
import anyio.to_thread

from prime_async.errors import ProtocolError
from prime_async.localfiles import WINDOW, LocalFile
from prime_async.sandboxes.treerules import TreeTransfer, link_problem, name_problem

__all__ = ["pack", "unpack"]

_AT_A_TIME = 200


async def pack(root: Path, into: TreeTransfer) -> AsyncGenerator[bytes, None]:
    """Yield the content of a folder as tar (pax), each folder before what is in it.

    Raises:
        OSError: it, or something in it, cannot be read.
    """
    walk = _walk(root, into)
    while entries := await anyio.to_thread.run_sync(_some, walk):
        for info, path in entries:
            yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
            if not info.isreg():
                continue
            async for window in LocalFile(path, info.size).windows():
                yield window
            yield bytes(-info.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _some(walk: Iterator[tuple[tarfile.TarInfo, Path]]) -> list[tuple[tarfile.TarInfo, Path]]:
    return [entry for entry, _ in zip(walk, range(_AT_A_TIME), strict=False)]


def _walk(root: Path, into: TreeTransfer) -> Iterator[tuple[tarfile.TarInfo, Path]]:
    """Walk without following links, so that no loop has a second round."""
    folders = [root]
    while folders:
        folder = folders.pop()
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            path = Path(entry.path)
            info = _info(path, path.relative_to(root).as_posix(), into)
            if info is None:
                continue
            if info.isdir():
                folders.append(path)
            yield info, path


def _info(path: Path, name: str, into: TreeTransfer) -> tarfile.TarInfo | None:
    found = path.lstat()
    info = tarfile.TarInfo(name)
    info.mtime, info.mode = int(found.st_mtime), stat.S_IMODE(found.st_mode) & 0o777
    if stat.S_ISREG(found.st_mode):
        into.files += 1
        into.size += found.st_size
        info.size = found.st_size
    elif stat.S_ISDIR(found.st_mode):
        into.directories += 1
        info.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(found.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
        problem = link_problem(name, info.linkname)
        if problem is not None:
            into.skip(name, problem)
            return None
        into.links += 1
    else:
        into.skip(name, "neither file nor folder nor link")
        return None
    return info


async def unpack(pieces: AsyncGenerator[bytes, None], root: Path, into: TreeTransfer) -> None:
    """Unpack a stream of tar below a folder; files appear whole or not at all.

    Nothing is written outside the folder, whatever the archive says.

    Raises:
        ProtocolError: the stream is no tar, or stops inside.
        OSError: a file cannot be written.
    """
    source = _Source(lambda: anyio.from_thread.run(anext, pieces, b""))
    await anyio.to_thread.run_sync(_unpack, source, root, into)


class _Source:
    """The stream as tarfile reads it, in a thread."""

    def __init__(self, fetch: Callable[[], bytes]) -> None:
        self._fetch = fetch
        self._held = b""

    def read(self, size: int = -1) -> bytes:
        while len(self._held) < size:
            piece = self._fetch()
            if not piece:
                break
            self._held += piece
        data, self._held = self._held[:size], self._held[size:]
        return data


def _unpack(source: _Source, root: Path, into: TreeTransfer) -> None:
    root.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(fileobj=source, mode="r|", errorlevel=2) as archive:  # type: ignore[call-overload]  # read() is all it needs
            for info in archive:
                _unpack_one(archive, info, root, into)
    except tarfile.TarError as error:
        raise ProtocolError(f"the folder did not arrive as a whole tar ({error})") from error


def _unpack_one(
    archive: tarfile.TarFile, info: tarfile.TarInfo, root: Path, into: TreeTransfer
) -> None:
    name = info.name.removeprefix("./").rstrip("/")
    if name in ("", "."):
        return
    problem = name_problem(name) or _parent_problem(root, name)
    if problem is None and info.issym():
        problem = link_problem(name, info.linkname)
    if problem is not None:
        into.skip(name, problem)
    elif info.isdir():
        _make_folder(root / name, info.mode)
        into.directories += 1
    elif info.issym():
        _make_link(root / name, info.linkname)
        into.links += 1
    elif info.isreg():
        content = archive.extractfile(info)
        assert content is not None
        into.size += _write_file(root / name, content, info)
        into.files += 1
    elif info.islnk():
        _copy_again(root, name, info.linkname.removeprefix("./"), into)
    else:
        into.skip(name, "neither file nor folder nor link")


def _parent_problem(root: Path, name: str) -> str | None:
    """Refuse to go through a link, which an archive may have made a moment ago."""
    path = root
    for part in Path(name).parts[:-1]:
        path = path / part
        if path.is_symlink():
            return "it lies behind a link"
    path.mkdir(parents=True, exist_ok=True)
    return None


def _make_folder(path: Path, mode: int) -> None:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        path.unlink()
    path.mkdir(exist_ok=True)
    path.chmod((mode & 0o777) | 0o700)


def _make_link(path: Path, target: str) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    path.symlink_to(target)


def _write_file(path: Path, content: IO[bytes], info: tarfile.TarInfo) -> int:
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", str(path))
    fresh = path.with_name(f".{os.urandom(8).hex()}.part")
    size = 0
    try:
        with fresh.open("xb") as file:
            while window := content.read(WINDOW):
                size += file.write(window)
        if size != info.size:
            raise tarfile.ReadError("a file is cut short")
        fresh.chmod((info.mode & 0o777) | 0o600)
        os.utime(fresh, (info.mtime, info.mtime))
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    return size


def _copy_again(root: Path, name: str, first: str, into: TreeTransfer) -> None:
    """A second name of a file that was unpacked before becomes a file of its own."""
    original = root / first
    problem = name_problem(first) or _parent_problem(root, first)
    if problem is not None or original.is_symlink() or not original.is_file():
        into.skip(name, "a second name of a file that is not in the tree")
        return
    found = original.stat()
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = found.st_size, found.st_mode & 0o777, int(found.st_mtime)
    with original.open("rb") as content:
        into.size += _write_file(root / name, content, info)
    into.files += 1
