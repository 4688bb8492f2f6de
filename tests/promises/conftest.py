"""The embedded platform, for promises shown through the public surface."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.platform import RunningPlatform, running_platform


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[RunningPlatform]:
    """An embedded platform in the loop of the test."""
    async with running_platform(tmp_path) as running:
        yield running
