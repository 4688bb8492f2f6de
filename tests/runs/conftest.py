"""Runs against a platform that misbehaves as told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_async.transport import RetryBudget
from tests.runs.opening import OpenRun
from tests.runs.platform_double import PlatformDouble
from tests.stub import Stub


@pytest.fixture(autouse=True)
def _own_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test spends on repeats is not missing in the next."""
    monkeypatch.setattr("prime_async.transport.client.process_budget", RetryBudget())


@pytest.fixture
def double(stub: Stub) -> PlatformDouble:
    """The platform, in the loop of the test."""
    return PlatformDouble(stub)


@pytest.fixture
async def open_run(double: PlatformDouble, tmp_path: Path) -> AsyncIterator[OpenRun]:
    """Opens runs on it; they are finished with the test."""
    opener = OpenRun(double.stub.url, tmp_path / "spool")
    yield opener
    await opener.aclose()
