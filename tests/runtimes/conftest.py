"""Runtimes under test, in folders of their own; the reason where this machine cannot run one.

Entering a runtime costs more than most tests: the tests of a module share one, and with it a loop
(``pytestmark = pytest.mark.asyncio(loop_scope="module")``). Each has sandboxes of its own on it,
which are ended after it, or says that it can share one. What would break a runtime for others
enters one of its own on ``store``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from prime_async.server.runtimes.base import BaseRuntime
from prime_async.server.runtimes.bubblewrap import BubblewrapRuntime
from prime_async.server.runtimes.process import ProcessRuntime
from prime_async.server.runtimes.sandbox import Sandbox
from tests.runtimes.boxes import ending, new_store, spec

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
    with new_store() as folder:
        yield folder


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=sorted(RUNTIMES))
async def shared_runtime(
    request: pytest.FixtureRequest, refusal: str
) -> AsyncIterator[BaseRuntime]:
    """Every runtime that keeps the contract, one after the other."""
    if request.param == "bubblewrap" and refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    with new_store() as folder:
        async with RUNTIMES[request.param](folder) as entered, ending(entered):
            yield entered


@pytest_asyncio.fixture(loop_scope="module")
async def runtime(shared_runtime: BaseRuntime) -> AsyncIterator[BaseRuntime]:
    """The same, with no sandbox of another test."""
    async with ending(shared_runtime):
        yield shared_runtime


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_isolating(refusal: str) -> AsyncIterator[BubblewrapRuntime]:
    """The runtime that isolates."""
    if refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    with new_store() as folder:
        async with BubblewrapRuntime(folder) as entered, ending(entered):
            yield entered


@pytest_asyncio.fixture(loop_scope="module")
async def isolating(shared_isolating: BubblewrapRuntime) -> AsyncIterator[BubblewrapRuntime]:
    """The same, with no sandbox of another test but what its module shares."""
    async with ending(shared_isolating):
        yield shared_isolating


@pytest_asyncio.fixture(loop_scope="module")
async def box(runtime: BaseRuntime) -> Sandbox:
    """A sandbox of every runtime."""
    return await runtime.start(spec())


@pytest_asyncio.fixture(loop_scope="module")
async def isolated(isolating: BubblewrapRuntime) -> Sandbox:
    """A sandbox that isolates."""
    return await isolating.start(spec())
