"""The files of a sandbox, for the event loop: every call runs in a thread, in windows of 1 MiB.

What is opened, and how it is kept from leading out of the sandbox, is the business of `rooted.py`.
Paths are text as the sandbox's user would write them; bytes that are not UTF-8 travel as surrogate
escapes. Relative paths start at the working directory. Links are followed inside the sandbox, but
for the last name of what is written or deleted: an upload replaces a link, it does not write
through it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from prime_async.server.runtimes.entries import (
    FileInfo,
    FileWindow,
    describe,
    list_directory,
    remove,
    walk,
)
from prime_async.server.runtimes.errors import SandboxFileError
from prime_async.server.runtimes.rooted import Root, fault
from prime_async.server.runtimes.uploads import Upload

__all__ = ["FileInfo", "FileWindow", "OpenFile", "SandboxFiles", "WINDOW_BYTES"]

WINDOW_BYTES = 1024 * 1024
"""How much is read or written at a time."""

READ_LIMIT = 64 * 1024 * 1024
"""What :meth:`SandboxFiles.read` returns at most; larger files are streamed."""

_ENTRIES_AT_ONCE = 512
_THREADS = 16

P = ParamSpec("P")
T = TypeVar("T")


def _no_note() -> None:
    """Nobody wants to know."""


class OpenFile:
    """A file that is being read.

    Attributes:
        info: what it was when it was opened.
        offset, length: the window that iterating gives.
    """

    def __init__(
        self, files: SandboxFiles, descriptor: int, info: FileInfo, offset: int, length: int
    ) -> None:
        self._files = files
        self._descriptor = descriptor
        self.info = info
        self.offset = offset
        self.length = length

    async def __aiter__(self) -> AsyncIterator[bytes]:
        position, left = self.offset, self.length
        while left > 0:
            window = min(left, WINDOW_BYTES)
            data = await self._files.call(
                self.info.path, os.pread, self._descriptor, window, position
            )
            if not data:
                return  # It became shorter while it was read.
            position += len(data)
            left -= len(data)
            yield data


class SandboxFiles:
    """The files of one sandbox.

    Args:
        root: its root.
        room: bytes that may still be written to its disk.
        touched: called at every use.
    """

    def __init__(
        self,
        root: Root,
        *,
        room: Callable[[], int],
        touched: Callable[[], None] = _no_note,
    ) -> None:
        self._root = root
        self._room = room
        self._touched = touched
        self._threads = CapacityLimiter(_THREADS)

    @property
    def root(self) -> Root:
        """What names are resolved below; for work of several steps, in a thread."""
        return self._root

    def close(self) -> None:
        """Let go of the root."""
        self._root.close()

    async def call(
        self, path: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run something that blocks in a thread, as the sandbox, its errors turned into faults."""
        self._touched()
        bound = partial(function, *args, **kwargs)

        def run() -> T:
            try:
                with self._root.identity.taken():
                    return bound()
            except OSError as error:
                raise fault(error, path) from error

        return await to_thread.run_sync(run, limiter=self._threads)

    @asynccontextmanager
    async def open(
        self, path: str, *, offset: int = 0, length: int | None = None
    ) -> AsyncIterator[OpenFile]:
        """Open a file for streaming a window of it.

        Args:
            offset: where the window starts; negative counts from the end.
            length: its bytes; None is up to the end.

        Raises:
            SandboxFileError: there is no such file, or it is not a regular one.
        """
        opened: list[int] = []

        def open_it() -> FileInfo:
            # Kept where a cancelled caller still finds it: the thread goes on when we do not wait.
            opened.append(self._root.open_file(path))
            return describe(opened[0], self._root.absolute(path))

        try:
            info = await self.call(path, open_it)
            start = _start(offset, info.size)
            rest = info.size - start
            yield OpenFile(
                self, opened[0], info, start, rest if length is None else min(length, rest)
            )
        finally:
            for descriptor in opened:
                os.close(descriptor)

    async def read(
        self, path: str, *, offset: int = 0, length: int | None = None, limit: int = READ_LIMIT
    ) -> FileWindow:
        """Return a window of a file.

        Args:
            offset: where it starts; negative counts from the end, beyond the end is empty.
            length: its bytes; None is up to the end.
            limit: the most that is returned.

        Raises:
            SandboxFileError: no regular file, or (``too_large``) a window beyond ``limit``.
        """
        async with self.open(path, offset=offset, length=length) as file:
            if file.length > limit:
                raise SandboxFileError(
                    f"{file.length} bytes are more than the {limit} of one answer",
                    path=path,
                    code="too_large",
                    hint="read a window of it, or download it",
                )
            data = bytearray()
            async for chunk in file:
                data += chunk
            return FileWindow(bytes(data), file.info.size, file.offset)

    async def upload(
        self,
        path: str,
        chunks: AsyncIterable[bytes],
        *,
        mode: int = 0o644,
        sha256: str | None = None,
        upload_id: str | None = None,
        offset: int = 0,
        final: bool = True,
    ) -> FileInfo:
        """Write a file: into a temporary name beside it, and renamed when all of it is there.

        Missing directories are made. With an ``upload_id`` what arrived stays, under a name made
        of it, when the transfer breaks off; the next call goes on from :meth:`partial_size`.

        Args:
            sha256: digest of the whole file in hexadecimal, compared before the rename.
            offset: bytes of the file that are there already; must be what ``partial_size`` says.
            final: whether the file is complete afterwards; only with ``upload_id`` it need not be.

        Raises:
            SandboxFileError: no room, a name that cannot be, an offset or digest that does not fit.
        """
        upload = Upload(
            self._root, path, upload_id=upload_id, room=self._room(), digest=sha256 is not None
        )
        try:
            await self.call(path, upload.open, offset)
            async for window in _windows(chunks):
                await self.call(path, upload.write, window)
            if not final:
                return await self.call(path, upload.pause)
            return await self.call(path, upload.commit, mode, sha256)
        finally:
            with anyio.CancelScope(shield=True):
                await self.call(path, upload.close)

    async def partial_size(self, path: str, upload_id: str) -> int:
        """How many bytes of an upload that broke off are there; 0 when there is none."""
        return await self.call(path, Upload(self._root, path, upload_id=upload_id).size)

    async def discard_partial(self, path: str, upload_id: str) -> bool:
        """Delete what an upload that broke off left; say whether there was something."""
        return await self.call(path, Upload(self._root, path, upload_id=upload_id).discard)

    async def digest(self, path: str) -> str:
        """SHA-256 of a file, in hexadecimal."""
        hasher = hashlib.sha256()
        async with self.open(path) as file:
            async for chunk in file:
                await self.call(path, hasher.update, chunk)
        return hasher.hexdigest()

    async def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        """What a path names."""

        def look() -> FileInfo:
            reached = self._root.reach(path, follow=follow)
            try:
                return describe(reached, self._root.absolute(path))
            finally:
                os.close(reached)

        return await self.call(path, look)

    async def list(self, path: str) -> list[FileInfo]:
        """What is in a directory, by name; links are told, not followed.

        Raises:
            SandboxFileError: no directory, or (``too_large``) more than 100,000 entries in it.
        """
        return await self.call(path, list_directory, self._root, path)

    async def tree(self, path: str, *, depth: int = 64) -> AsyncIterator[FileInfo]:
        """Everything below a directory, a directory before what is in it. Follows no link, so it
        always ends; what vanishes on the way is left out.

        Raises:
            SandboxFileError: it is no directory, or is deeper than ``depth``.
        """
        entries = walk(self._root, path, depth)

        def batch() -> list[FileInfo]:
            return [entry for entry, _ in zip(entries, range(_ENTRIES_AT_ONCE), strict=False)]

        try:
            while found := await self.call(path, batch):
                for entry in found:
                    yield entry
        finally:
            with anyio.CancelScope(shield=True):
                await self.call(path, entries.close)

    async def mkdir(self, path: str, *, parents: bool = True, exist_ok: bool = True) -> FileInfo:
        """Make a directory.

        Raises:
            SandboxFileError: it is there and ``exist_ok`` is false; the one it is in is missing and
                ``parents`` is false; or something on the way is not a directory.
        """

        def make() -> None:
            if not parents:
                above, _ = self._root.parent(path)
                os.close(above)
            if not self._root.make_directories(path) and not exist_ok:
                raise SandboxFileError("it is there already", path=path, code="exists")

        await self.call(path, make)
        return await self.stat(path)

    async def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file, a link, or a directory (an empty one, unless ``recursive``)."""
        await self.call(path, remove, self._root, path, recursive)


def _start(offset: int, size: int) -> int:
    return max(0, size + offset) if offset < 0 else min(offset, size)


async def _windows(chunks: AsyncIterable[bytes]) -> AsyncIterator[list[bytes]]:
    """Gather small chunks, so that a thread is woken once per window and not once per chunk."""
    window: list[bytes] = []
    held = 0
    async for chunk in chunks:
        window.append(chunk)
        held += len(chunk)
        if held >= WINDOW_BYTES:
            yield window
            window, held = [], 0
    if window:
        yield window
