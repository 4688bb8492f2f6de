"""Looking at the platform and ending it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prime_async import local
from prime_async.errors import LocalPlatformError
from prime_async.local.control import change_lock
from prime_async.local.paths import LocalPaths


async def test_nothing_there(home: Path) -> None:
    """Before the first start there is nothing to see, to stop, or to be created by looking."""
    found = await local.status()
    assert (found.running, found.answering, found.base_url) == (False, False, None)
    assert found.data_dir == home / ".prime/local"
    assert not (await local.stop()).was_running
    assert list(home.iterdir()) == []


async def test_status_of_a_running_one(platform_home: Path) -> None:
    """Process, version, address, socket and log are told; afterwards the address is remembered."""
    address = await local.ensure_running()
    found = await local.status()
    assert found.running
    assert found.answering
    assert found.pid is not None
    assert found.version
    assert found.started_at
    assert (found.base_url, found.unix_socket) == (address.base_url, address.unix_socket)
    assert "listening" in found.log.read_text()
    stopped = await local.stop()
    assert (stopped.was_running, stopped.pid, stopped.killed) == (True, found.pid, False)
    after = await local.status()
    assert (after.running, after.pid, after.version) == (False, None, None)
    assert after.base_url == address.base_url
    assert address.unix_socket is not None
    assert not Path(address.unix_socket).exists()
    assert "stopped" in found.log.read_text()


async def test_one_that_does_not_end_is_killed(platform_home: Path) -> None:
    """Stopping ends within its limit, and says that it had to kill."""
    await local.ensure_running()
    pid = (await local.status()).pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    stopped = await local.stop(timeout=0.3)
    assert stopped.killed
    assert not (await local.status()).running
    assert (await local.ensure_running()).started


async def test_start_and_stop_exclude_each_other(platform_home: Path) -> None:
    """While one process starts or stops, another waits, and not for ever."""
    paths = LocalPaths.find()
    paths.make()
    async with change_lock(paths, 1):
        for call in (local.ensure_running(timeout=0.2), local.stop(timeout=0.2)):
            with pytest.raises(LocalPlatformError, match=r"0\.2 s"):
                await call
    assert (await local.ensure_running()).started


async def test_stops_and_starts_at_once_end_in_order(platform_home: Path) -> None:
    """Whatever the order, everybody gets an answer and at most one platform is left."""
    await local.ensure_running()
    await asyncio.gather(local.stop(), local.ensure_running(), local.stop(), local.ensure_running())
    found = await local.status()
    assert found.running == found.answering


@pytest.mark.parametrize("port", ["99999", "-1", "x"])
async def test_a_port_is_checked_before_anything_is_made(platform_home: Path, port: str) -> None:
    """By the words of the command, and not by the socket."""
    command = [sys.executable, "-m", "prime_async.server", f"--port={port}"]
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert ran.returncode == 2
    assert f"'{port}' is not a port, 0 to 65535" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (platform_home / ".prime").exists()


async def test_foreground(platform_home: Path) -> None:
    """By hand in a terminal: it logs there, is found by others, and ends on Ctrl-C with code 0."""
    command = [sys.executable, "-m", "prime_async.server", "--foreground"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "listening" in await asyncio.to_thread(process.stderr.readline)
        address = await local.ensure_running()
        assert not address.started
        assert (await local.status()).pid == process.pid
        second = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert second.returncode == 3
        assert "already runs" in second.stderr
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 30) == 0
        assert "stopped" in process.stderr.read()
    assert not (await local.status()).running
