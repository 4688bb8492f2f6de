"""`PidLock`: an exclusive lock of plain files, for systems and file systems without flock(2).

Each taking of the lock creates the file ``lock.<n>``, n one higher than the last, exclusively: of
several processes that find the owner of ``lock.4`` dead, one makes ``lock.5``. Numbers never go
back, so nobody can mistake a new lock for the dead one; that is why letting go leaves the last file
behind.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from prime_async.spool.processes import Holder

__all__ = ["PidLock"]

_RELEASED = b"released"
_UNWRITTEN_SECONDS = 60.0


class PidLock:
    """A lock that is held until `release`, or until its process has ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._released = False

    @classmethod
    def acquire(cls, folder: Path, holder: Holder) -> PidLock | None:
        """Take the lock in a folder, or return None when another process has it.

        Raises:
            OSError: the folder cannot be read or written.
        """
        last = _last(folder)
        if last and _is_held(_file(folder, last)):
            return None
        path = _file(folder, last + 1)
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return None
        with os.fdopen(fd, "wb", buffering=0) as file:
            file.write(msgspec.json.encode(holder))
        if _last(folder) > last + 1:  # we looked before others took it, and let go of it, in turn
            path.unlink()
            return None
        for number in _numbers(folder):
            if number <= last:
                _file(folder, number).unlink(missing_ok=True)
        return cls(path)

    def release(self) -> None:
        """Let go of the lock; a second time does nothing.

        Raises:
            OSError: the file cannot be written.
        """
        if self._released:
            return
        self._released = True
        try:
            with self._path.open("r+b") as file:
                file.truncate(0)
                file.write(_RELEASED)
        except FileNotFoundError:
            return  # deleted together with the entry

    @staticmethod
    def holder(folder: Path) -> Holder | None:
        """Return the process that has the lock, or None."""
        last = _last(folder)
        return _read(_file(folder, last)) if last else None


def _is_held(path: Path) -> bool:
    holder = _read(path)
    if holder is not None:
        return holder.alive
    try:
        if path.read_bytes() == _RELEASED:
            return False
        # Made, but its owner is not written yet: unless that was long ago, it is about to be.
        return time.time() - path.stat().st_mtime < _UNWRITTEN_SECONDS
    except FileNotFoundError:
        return False


def _read(path: Path) -> Holder | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def _file(folder: Path, number: int) -> Path:
    return folder / f"lock.{number}"


def _numbers(folder: Path) -> list[int]:
    names = (path.name.removeprefix("lock.") for path in folder.glob("lock.*"))
    return sorted(int(name) for name in names if name.isdecimal())


def _last(folder: Path) -> int:
    return max(_numbers(folder), default=0)
