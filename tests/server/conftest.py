"""A platform in the test's loop, and bare HTTP to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.platform import RunningPlatform, running_platform
from tests.server.clocks import FakeClock
from tests.server.wire import Wire


@pytest.fixture
def clock() -> FakeClock:
    """The platform's clock."""
    return FakeClock()


@pytest.fixture
async def platform(tmp_path: Path, clock: FakeClock) -> AsyncIterator[RunningPlatform]:
    """A running platform."""
    async with running_platform(tmp_path, clock=clock) as running:
        yield running


@pytest.fixture
async def wire(platform: RunningPlatform) -> AsyncIterator[Wire]:
    """HTTP to the platform with its first key."""
    async with Wire(platform.url) as session:
        yield session
