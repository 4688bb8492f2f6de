"""A lock between processes that the system frees when its holder dies."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from prime_async.errors import ConfigError

__all__ = ["FileLock"]

_STALE_AFTER = 30.0


class FileLock:
    """An exclusive lock on a file that is created 0600 and stays.

    Two objects exclude each other in one process too, so threads are safe against each other.
    Entering it waits (in
    the thread that enters: keep it off the event loop).

    Args:
        path: the file; its folder exists.
        timeout: seconds that entering waits for another holder.
    """

    def __init__(self, path: Path, *, timeout: float = 10.0) -> None:
        self.path = path
        self.timeout = timeout
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock if it is free; never waits.

        Raises:
            ConfigError: the lock file cannot be opened.
        """
        try:
            self._descriptor = _acquire(self.path)
        except OSError as error:
            raise ConfigError(
                f"cannot open the lock file {self.path}: {error.strerror}",
                path=self.path,
                hint="check free space and permissions",
            ) from error
        return self._descriptor is not None

    def release(self) -> None:
        """Give the lock back; nothing happens when it is not held."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _release(self.path, descriptor)

    def __enter__(self) -> Self:
        deadline = time.monotonic() + self.timeout
        while not self.try_acquire():
            if time.monotonic() > deadline:
                raise ConfigError(
                    f"another process has held {self.path} for {self.timeout:g} s",
                    path=self.path,
                    hint="end that process and try again",
                )
            # Polling, because waiting inside the system call could not end at the deadline; by
            # chance, so that waiters do not come in step.
            time.sleep(0.001 + os.urandom(1)[0] / 25_600)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def _acquire(path: Path) -> int | None:
    """Return an open descriptor that holds the lock, or None when somebody else has it."""
    lock = _system_lock()
    if lock is None:
        return _acquire_by_creation(path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock(descriptor)
    except (BlockingIOError, PermissionError):
        # What flock and msvcrt.locking say when somebody else has it.
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _system_lock() -> Callable[[int], None] | None:
    """Return what locks an open file without waiting; None where Python has neither kind."""
    if sys.platform == "win32":
        import msvcrt

        return lambda descriptor: msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    try:
        import fcntl
    except ImportError:
        return None
    return lambda descriptor: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _acquire_by_creation(path: Path) -> int | None:
    """Where Python has no file locks: whoever creates the marker holds it; a dead one ages out."""
    marker = _marker(path)
    try:
        return os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        try:
            stale = time.time() - marker.stat().st_mtime > _STALE_AFTER
        except FileNotFoundError:
            return None
        if stale:
            marker.unlink(missing_ok=True)
        return None


def _marker(path: Path) -> Path:
    return path.with_name(path.name + ".held")


def _release(path: Path, descriptor: int) -> None:
    if _system_lock() is None:
        _marker(path).unlink(missing_ok=True)
    os.close(descriptor)
