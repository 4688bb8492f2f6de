"""Runtimes under test, in folders of their own; the reason where this machine cannot run one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from prime_async.server.runtimes.base import BaseRuntime
from prime_async.server.runtimes.bubblewrap import BubblewrapRuntime
from prime_async.server.runtimes.process import ProcessRuntime
from prime_async.server.runtimes.sandbox import Sandbox
from tests.runtimes.boxes import spec

RUNTIMES = {"bubblewrap": BubblewrapRuntime, "process": ProcessRuntime}

_PROBE = """
import asyncio, sys
from pathlib import Path
from prime_async.server.runtimes.bubblewrap import BubblewrapRuntime
report = asyncio.run(BubblewrapRuntime(Path(sys.argv[1]) / "sandboxes").probe())
print(report.reason or "", end="")
"""


@pytest.fixture(scope="session")
def refusal() -> str:
    """Why sandboxes cannot be isolated on this machine; empty where they can."""
    if sys.platform != "linux":
        return "bubblewrap needs Linux"
    folder = tempfile.mkdtemp(prefix="probe-")
    try:
        command = [sys.executable, "-c", _PROBE, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.stdout if done.returncode == 0 else done.stderr[-500:]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def store() -> Iterator[Path]:
    """An empty folder for sandboxes, below one that only this user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="boxes-"))
    yield folder / "sandboxes"
    shutil.rmtree(folder)


@pytest.fixture(params=sorted(RUNTIMES))
async def runtime(
    request: pytest.FixtureRequest, store: Path, refusal: str
) -> AsyncIterator[BaseRuntime]:
    """Every runtime that keeps the contract, one after the other."""
    if request.param == "bubblewrap" and refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    async with RUNTIMES[request.param](store) as entered:
        yield entered
        for box in list(entered._sandboxes.values()):
            await box.stop()


@pytest.fixture
async def isolating(store: Path, refusal: str) -> AsyncIterator[BubblewrapRuntime]:
    """The runtime that isolates."""
    if refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    async with BubblewrapRuntime(store) as entered:
        yield entered
        for box in list(entered._sandboxes.values()):
            await box.stop()


@pytest.fixture
async def box(runtime: BaseRuntime) -> Sandbox:
    """A sandbox of every runtime."""
    return await runtime.start(spec())


@pytest.fixture
async def isolated(isolating: BubblewrapRuntime) -> Sandbox:
    """A sandbox that isolates."""
    return await isolating.start(spec())
