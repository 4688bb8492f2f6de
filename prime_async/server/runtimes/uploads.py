"""Writing a file of a sandbox: a temporary name, windows, a digest, one rename. Blocks."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import replace

from prime_async.errors import UsageError
from prime_async.server.runtimes.entries import FileInfo, describe
from prime_async.server.runtimes.errors import SandboxFileError
from prime_async.server.runtimes.rooted import Root, require_file

__all__ = ["Upload"]

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME_BYTES = 255
_WINDOW = 1024 * 1024


class Upload:
    """One file on its way in.

    Args:
        root: of the sandbox.
        path: the final name.
        upload_id: names what is kept when it breaks off; None keeps nothing.
        room: bytes it may write.
        digest: whether to compute SHA-256 on the way.
    """

    def __init__(
        self,
        root: Root,
        path: str,
        *,
        upload_id: str | None = None,
        room: int = 0,
        digest: bool = False,
    ) -> None:
        if upload_id is not None and not _ID.fullmatch(upload_id):
            raise UsageError("an upload id is [A-Za-z0-9_-]{1,64}", field="upload_id")
        self._root = root
        self._path = path
        self._id = upload_id
        self._room = room
        self._hasher = hashlib.sha256() if digest else None
        self._directory = -1
        self._descriptor = -1
        self._name = ""
        self._temporary = ""
        self._keep = upload_id is not None

    def open(self, offset: int) -> None:
        """Create, or find again, the temporary file; make missing directories."""
        self._enter(make=True)
        self._refuse_directory()
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        exists = os.O_EXCL if self._id is None else 0
        self._descriptor = os.open(
            self._temporary, flags | os.O_CREAT | exists, 0o600, dir_fd=self._directory
        )
        require_file(self._descriptor, self._path)
        self._continue_at(offset)

    def _continue_at(self, offset: int) -> None:
        there = os.fstat(self._descriptor).st_size
        if offset == 0 and there:
            os.ftruncate(self._descriptor, 0)
        elif offset != there:
            raise SandboxFileError(
                f"{there} bytes of the upload are here, not {offset}",
                path=self._path,
                code="offset",
            )
        if self._hasher is not None:
            position = 0
            while position < offset:
                window = os.pread(self._descriptor, min(_WINDOW, offset - position), position)
                self._hasher.update(window)
                position += len(window)
        os.lseek(self._descriptor, offset, os.SEEK_SET)

    def write(self, window: list[bytes]) -> None:
        """Write some chunks."""
        data = window[0] if len(window) == 1 else b"".join(window)
        self._room -= len(data)
        if self._room < 0:
            raise SandboxFileError(
                "the disk of the sandbox is full", path=self._path, code="no_space"
            )
        if self._hasher is not None:
            self._hasher.update(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def pause(self) -> FileInfo:
        """Leave what is there for the next call."""
        return describe(self._descriptor, self._root.absolute(self._path))

    def commit(self, mode: int, sha256: str | None) -> FileInfo:
        """Compare the digest and give the file its name."""
        found = self._hasher.hexdigest() if self._hasher is not None else None
        if sha256 is not None and found != sha256.lower():
            self._keep = False
            raise SandboxFileError(
                f"the content has SHA-256 {found}, not {sha256}", path=self._path, code="checksum"
            )
        os.fchmod(self._descriptor, mode & 0o777)
        os.rename(
            self._temporary, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory
        )
        self._temporary = ""
        return replace(describe(self._descriptor, self._root.absolute(self._path)), sha256=found)

    def close(self) -> None:
        """Let go; delete what is not to be kept."""
        try:
            if self._temporary and self._descriptor >= 0 and not self._keep:
                with suppress(FileNotFoundError):
                    os.unlink(self._temporary, dir_fd=self._directory)
        finally:
            for descriptor in (self._descriptor, self._directory):
                if descriptor >= 0:
                    os.close(descriptor)
            self._descriptor = self._directory = -1

    def size(self) -> int:
        """How much of an upload that broke off is there."""
        try:
            self._enter()
            return os.stat(self._temporary, dir_fd=self._directory, follow_symlinks=False).st_size
        except FileNotFoundError:
            return 0
        finally:
            self.close()

    def discard(self) -> bool:
        """Delete what an upload that broke off left."""
        try:
            self._enter()
            os.unlink(self._temporary, dir_fd=self._directory)
        except FileNotFoundError:
            return False
        finally:
            self.close()
        return True

    def _enter(self, *, make: bool = False) -> None:
        self._directory, self._name = self._root.parent(self._path, make=make)
        mark = self._id or secrets.token_hex(8)
        tail = os.fsencode(f".{mark}.part")
        head = os.fsencode("." + self._name)[: _NAME_BYTES - len(tail)]
        self._temporary = os.fsdecode(head + tail)

    def _refuse_directory(self) -> None:
        """A rename onto a directory would fail only after everything was sent."""
        with suppress(FileNotFoundError):
            found = os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                raise SandboxFileError("it is a directory", path=self._path, code="is_directory")
