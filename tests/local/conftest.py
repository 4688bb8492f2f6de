"""A home of its own for each test, and no platform left running after it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_async import local


@pytest.fixture
async def platform_home(home: Path) -> AsyncIterator[Path]:
    """An empty home; whatever platform was started in it is ended."""
    yield home
    await local.stop(home=home)
