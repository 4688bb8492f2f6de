"""Bridges into runs on the embedded platform, which runs beside the test: callbacks may block."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bridges.reading import Place
from tests.platform import ThreadedPlatform


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedPlatform]:
    """One platform for the tests of a module."""
    with ThreadedPlatform(tmp_path_factory.mktemp("platform")) as running:
        yield running


@pytest.fixture
def place(platform: ThreadedPlatform) -> Place:
    """Where runs are opened, and read back."""
    return Place(platform.url)
