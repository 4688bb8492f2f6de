"""Bridges beside the real packages, which `make test-bridges` installs in a venv of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bridges.reading import Place
from tests.bridges.real.model import Model
from tests.platform import ThreadedPlatform

ENVIRONMENTS = Path(__file__).parent / "environments"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedPlatform]:
    """One platform for the tests of a module."""
    with ThreadedPlatform(tmp_path_factory.mktemp("platform")) as running:
        yield running


@pytest.fixture
def place(platform: ThreadedPlatform) -> Place:
    """Where runs are opened, and read back."""
    return Place(platform.url)


@pytest.fixture(scope="session")
def model() -> Iterator[Model]:
    """A model behind the API of OpenAI, on this machine."""
    with Model() as running:
        yield running


@pytest.fixture
def environments(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environments of these tests are found as installed ones are."""
    monkeypatch.syspath_prepend(str(ENVIRONMENTS))
