"""A platform whose sandboxes are plain processes, and bare HTTP to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.platform import RunningPlatform, running_platform
from tests.server.clocks import FakeClock
from tests.server.sandboxes.boxes import Boxes
from tests.server.sandboxes.double import DoubleRuntime


@pytest.fixture
def clock() -> FakeClock:
    """The platform's clock."""
    return FakeClock()


@pytest.fixture
def runtime(tmp_path: Path) -> DoubleRuntime:
    """What runs the sandboxes."""
    return DoubleRuntime(tmp_path / "double")


@pytest.fixture
async def platform(
    tmp_path: Path, clock: FakeClock, runtime: DoubleRuntime
) -> AsyncIterator[RunningPlatform]:
    """A running platform."""
    async with running_platform(tmp_path, clock=clock, runtime=lambda: runtime) as running:
        yield running


@pytest.fixture
async def boxes(platform: RunningPlatform, runtime: DoubleRuntime) -> AsyncIterator[Boxes]:
    """HTTP to the platform and to the gateways of its sandboxes."""
    async with Boxes(platform, runtime) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Boxes]:
    """HTTP to one platform for all tests of a module, whose sandboxes are real ones."""
    folder = tmp_path_factory.mktemp("shared")
    async with running_platform(folder) as running, Boxes(running) as made:
        try:
            yield made
        finally:
            await made.end_all()


@pytest_asyncio.fixture(loop_scope="module")
async def isolated(shared: Boxes) -> AsyncIterator[Boxes]:
    """The same, of which each test leaves nothing: no sandboxes, checkpoints or volumes."""
    try:
        yield shared
    finally:
        await shared.clear()
