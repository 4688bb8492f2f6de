"""`EntryLock`: one process at a time owns an entry: the push that is still running, or what
delivers the rest.

flock(2) where the system and the file system have it, since the kernel lets go of it when the
process dies; `PidLock` elsewhere.
"""

from __future__ import annotations

import errno
import os
import weakref
from io import FileIO
from pathlib import Path

import msgspec

from prime_async.spool.pidlock import PidLock
from prime_async.spool.processes import Holder
from prime_async.spool.writer import spool_error

__all__ = ["EntryLock"]

_NAME = "lock"
_NO_FLOCK = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}


class EntryLock:
    """Ownership of an entry, from `acquire` to `release` or to the end of the process. Not handed
    on by fork."""

    def __init__(self, folder: Path, held: FileIO | PidLock) -> None:
        self._folder = folder
        self._held = held
        self._pid = os.getpid()

    @classmethod
    def acquire(cls, folder: Path, purpose: str) -> EntryLock | None:
        """Take the entry in a folder, or return None when another process, or another part of this
        one, has it.

        Raises:
            SpoolError: the folder is gone or cannot be written.
        """
        try:
            held = _acquire(folder, Holder.this_process(purpose))
        except OSError as error:
            raise spool_error("cannot lock the spool entry", folder, error) from error
        if held is None:
            return None
        lock = cls(folder, held)
        _close_after_fork(lock)
        return lock

    @staticmethod
    def holder(folder: Path) -> Holder | None:
        """Return the living process that owns the entry in a folder, or None."""
        try:
            raw = (folder / _NAME).read_bytes()
            found = msgspec.json.decode(raw, type=Holder) if raw else PidLock.holder(folder)
        except (OSError, msgspec.MsgspecError):
            return None
        return found if found is not None and found.alive else None

    def release(self) -> None:
        """Let go; a second time does nothing. In a fork of the owner this leaves the owner's lock
        alone.

        Raises:
            SpoolError: the lock file cannot be written.
        """
        if self._pid != os.getpid():
            return
        try:
            if isinstance(self._held, PidLock):
                self._held.release()
            elif not self._held.closed:
                self._held.truncate(0)
        except OSError as error:
            raise spool_error("cannot let go of the spool entry", self._folder, error) from error
        finally:
            self._close()

    def _close(self) -> None:
        if isinstance(self._held, FileIO):
            self._held.close()


def _acquire(folder: Path, holder: Holder) -> FileIO | PidLock | None:
    file = FileIO(folder / _NAME, "r+", opener=_open)
    try:
        locked = _try_flock(file.fileno())
        if locked and _is_at(file, folder / _NAME):
            file.truncate(0)
            file.write(msgspec.json.encode(holder))
            return file
    except BaseException:
        file.close()
        raise
    file.close()
    return PidLock.acquire(folder, holder) if locked is None else None


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)


def _try_flock(fd: int) -> bool | None:
    """Return True when the lock is ours, False when another has it, None when there are no such
    locks here."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_FLOCK:
            return None
        raise
    return True


def _is_at(file: FileIO, path: Path) -> bool:
    """Return False when the entry was removed between opening its lock and getting it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


_held: weakref.WeakSet[EntryLock] = weakref.WeakSet()
_hooked = False


def _close_after_fork(lock: EntryLock) -> None:
    # A forked worker that outlives its parent would keep the parent's entries locked.
    global _hooked
    _held.add(lock)
    if not _hooked and hasattr(os, "register_at_fork"):
        _hooked = True
        os.register_at_fork(after_in_child=_close_all)


def _close_all() -> None:
    for lock in list(_held):
        lock._close()
    _held.clear()
