"""`SegmentWriter`: appends frames to one new file, one write(2) each."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from prime_async.errors import SpoolError, UsageError
from prime_async.spool.frames import FILE_HEADER, MAX_PAYLOAD_BYTES, FrameType, encode_header

__all__ = ["SegmentWriter", "fsync_folder", "full", "spool_error"]

_FLAGS = (
    os.O_CREAT
    | os.O_EXCL
    | os.O_WRONLY
    | os.O_APPEND
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
)
_HELD_BYTES = 256 * 1024
"""What is larger is written without the interpreter."""

_fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
_writev: Callable[[int, Any], int] = getattr(
    os, "writev", lambda fd, parts: os.write(fd, b"".join(parts))
)


class SegmentWriter:
    """The one writer of one segment file, which it creates (0600) and which must not exist yet.

    Every `append` is one write(2): when it has returned, the frame outlives ``kill -9`` of the
    process; after `sync` it outlives a power cut. A write that fails leaves the file as it was
    before. A writer belongs to the process that made it: after a fork the child cannot use it. Not
    locked against threads; `EntryWriter` is.

    Args:
        path: the file to create; its folder must exist.
        max_bytes: size the file may reach; a frame that would pass it is refused.

    Attributes:
        path: the file.
        size: its bytes so far, header included.
        frames: frames written.
        synced: bytes known to be on the medium.

    Raises:
        SpoolError: the file exists or cannot be made.
    """

    def __init__(self, path: Path, *, max_bytes: int | None = None) -> None:
        self.path = path
        self.size = 0
        self.frames = 0
        self.synced = 0
        self._max_bytes = max_bytes
        self._pid = os.getpid()
        try:
            self._file = FileIO(path, "xb", opener=_open_new)
        except OSError as error:
            raise spool_error("cannot create the spool segment", path, error) from error
        try:
            self._write((FILE_HEADER,), len(FILE_HEADER))
        except SpoolError:
            self._file.close()
            path.unlink()
            raise

    def append(
        self,
        kind: FrameType,
        payload: bytes | bytearray | memoryview,
        *,
        index: int = 0,
        held: bool = False,
    ) -> int:
        """Write one frame and return the offset where it begins.

        Args:
            held: keep the interpreter meanwhile, up to 256 KiB: for calls that must not wait until
                another thread gives it back.

        Raises:
            SpoolError: the disk or the quota is full, the frame does not fit under ``max_bytes``,
                the writer is closed, or this process is a fork of the one that made it. The file is
                as it was before.
            UsageError: the payload is larger than 128 MiB, or the index is no 64-bit number.
        """
        length = len(payload)
        if length > MAX_PAYLOAD_BYTES:
            raise UsageError(
                f"a record of {length} bytes is over the {MAX_PAYLOAD_BYTES} a frame can hold"
            )
        if not 0 <= index < 1 << 64:
            raise UsageError(f"{index} cannot be the index of a record", field="index")
        held = held and length <= _HELD_BYTES
        header = encode_header(kind, index, payload, held=held)
        total = len(header) + length
        if self._max_bytes is not None and self.size + total > self._max_bytes:
            raise SpoolError(f"{self.path} is full at {self._max_bytes} bytes", path=self.path)
        offset = self.size
        self._write((header, payload), total, held)
        self.frames += 1
        return offset

    def sync(self) -> None:
        """Wait until everything written so far is on the medium (fdatasync).

        May run in another thread while the writer goes on appending.

        Raises:
            SpoolError: the medium reports an error; what was written since the last sync may be
                lost.
        """
        size = self.size
        if size == self.synced:
            return
        self._check_usable()
        try:
            _fdatasync(self._file.fileno())
        except OSError as error:
            raise spool_error("cannot bring the spool to the disk", self.path, error) from error
        self.synced = max(self.synced, size)

    def close(self) -> None:
        """Close the file; a second time does nothing. Does not sync."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._file.closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(
        self, parts: tuple[bytes | bytearray | memoryview, ...], total: int, held: bool = False
    ) -> None:
        self._check_usable()
        fd = self._file.fileno()
        try:
            written = _written(fd, parts, held)
            if written < total:
                # A short write is a disk that ran full: the next one brings its errno.
                _write_rest(fd, b"".join(parts)[written:])
            self.size += total
        except OSError as error:
            self._roll_back(fd)
            raise spool_error("cannot write to the spool", self.path, error) from error
        except BaseException:
            # Ctrl-C between the write and the count: a later roll-back must not cut this frame off.
            if os.fstat(fd).st_size == self.size + total:
                self.size += total
            else:
                self._roll_back(fd)
            raise

    def _roll_back(self, fd: int) -> None:
        """Cut a half-written frame off; readers would pass over it, but later frames must follow
        the last whole one."""
        try:
            os.ftruncate(fd, self.size)
        except OSError:
            # The tail stays torn, as after a crash; nothing may be appended behind it.
            self._file.close()
            raise

    def _check_usable(self) -> None:
        if self._pid != os.getpid():
            raise SpoolError(
                f"{self.path} is being written by process {self._pid}, of which this one is a fork",
                path=self.path,
                hint="open a spool entry of its own in the child",
            )
        if self._file.closed:
            raise SpoolError(f"{self.path} is closed", path=self.path)


def _written(fd: int, parts: tuple[bytes | bytearray | memoryview, ...], held: bool) -> int:
    """Write once, and return how much was written."""
    if held and (write := _held_write()) is not None:
        data = b"".join(parts)
        done = write(fd, data, len(data))
        if done >= 0:
            return done
    return _writev(fd, parts)  # after an error the same again, which says what it is


@functools.cache
def _held_write() -> Callable[[int, bytes, int], int] | None:
    """Return a write(2) that keeps the interpreter; None where there is none.

    A record goes to the page cache in some 40 µs. `os.write` lets go of the interpreter meanwhile,
    and a log call would wait for it behind whatever another thread does then: for milliseconds,
    in one call of twenty.
    """
    try:
        import ctypes

        write = ctypes.PyDLL(None).write
    except (ImportError, OSError, TypeError, AttributeError):
        return None
    write.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
    write.restype = ctypes.c_ssize_t
    found: Callable[[int, bytes, int], int] = write
    return found


def fsync_folder(path: Path) -> None:
    """Bring new and removed names of a folder to the medium, where the system can do that.

    Raises:
        SpoolError: the medium reports an error.
    """
    if os.name == "nt":
        return
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        if (
            error.errno != errno.EINVAL
        ):  # a file system that cannot sync folders, such as some network ones
            raise spool_error("cannot bring the spool folder to the disk", path, error) from error


def spool_error(what: str, path: Path, error: OSError) -> SpoolError:
    """Return the `SpoolError` for an error of the system, with its errno and what to do."""
    made = SpoolError(
        f"{what} {path}: {error.strerror or error}", path=path, hint=_HINTS.get(error.errno or 0)
    )
    made.errno = error.errno
    return made


def full(root: Path, max_bytes: int) -> SpoolError:
    """Return the `SpoolError` that says a spool has reached its own limit."""
    made = SpoolError(
        f"the spool {root} is full: its limit is {max_bytes} bytes",
        path=root,
        hint="deliver or remove what is in it, or raise the limit",
    )
    made.errno = errno.EDQUOT
    return made


_HINTS = {
    errno.ENOSPC: "free some space on this disk",
    errno.EDQUOT: "free some space: the disk quota is used up",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EACCES: "check who owns the folder",
    errno.EROFS: "the disk is mounted read-only: choose another place for the spool",
}


def _open_new(path: str, _flags: int) -> int:
    return os.open(path, _FLAGS, 0o600)


def _write_rest(fd: int, rest: bytes) -> None:
    while rest:
        rest = rest[os.write(fd, rest) :]
