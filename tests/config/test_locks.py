"""The lock between processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from prime_async.config.locks import FileLock
from prime_async.errors import ConfigError


def test_two_holders_exclude_each_other(tmp_path: Path) -> None:
    """Also within one process; after release the other one gets it."""
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.try_acquire()
    assert not second.try_acquire()
    first.release()
    first.release()
    assert second.try_acquire()
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600


def test_waiting_ends_at_the_time_limit(tmp_path: Path) -> None:
    """A holder that does not let go is an error that names the file."""
    holder = FileLock(tmp_path / "lock")
    assert holder.try_acquire()
    started = time.monotonic()
    with pytest.raises(ConfigError, match="another process has held"):
        FileLock(tmp_path / "lock", timeout=0.1).__enter__()
    assert time.monotonic() - started < 5


def test_death_of_the_holder_frees_the_lock(tmp_path: Path) -> None:
    """kill -9 of a holder leaves nothing behind that blocks."""
    script = (
        "import pathlib, sys, time\n"
        "from prime_async.config.locks import FileLock\n"
        "lock = FileLock(pathlib.Path(sys.argv[1]))\n"
        "print(lock.try_acquire(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        lock = FileLock(tmp_path / "lock")
        assert not lock.try_acquire()
        holder.kill()
        holder.wait()
    assert lock.try_acquire()


def test_unusable_path_is_reported(tmp_path: Path) -> None:
    """A lock in a folder that does not exist is an error with a path."""
    with pytest.raises(ConfigError, match="cannot open the lock file"):
        FileLock(tmp_path / "nowhere" / "lock").try_acquire()


def test_FR48_works_without_fcntl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without file locks of the system the creation of a file is the lock; a dead one ages out."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.try_acquire()
    assert not second.try_acquire()
    first.release()
    assert second.try_acquire()
    marker = tmp_path / "lock.held"
    os.utime(marker, (1, 1))
    assert not first.try_acquire()
    assert first.try_acquire()
