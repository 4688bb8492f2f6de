"""A face, and platforms that the environment points it at."""

from __future__ import annotations

import importlib
import types
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from prime_async.runs.core import RunCore
from prime_async.runs.finishing import REPORT_SECONDS
from prime_async.sandboxes import processes
from prime_async.transport import RetryBudget
from tests.cli.conftest import inside
from tests.cli.harness import CANARY, Ran
from tests.faces import Face
from tests.official_stub import OfficialStub
from tests.platform import RunningPlatform, running_platform
from tests.rules.surfaces import CommandSurface, PythonSurface, Surface

__all__ = ["inside"]


@pytest.fixture
def surface(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    inside: Callable[..., Ran],
) -> Surface:
    """The face that the row of the table asks for."""
    if request.param == "command":
        return CommandSurface(inside, tmp_path)
    return PythonSurface(Face(request.param), tmp_path)


@pytest.fixture(autouse=True)
def retry_budget(monkeypatch: pytest.MonkeyPatch) -> RetryBudget:
    """Repeats without a pause, and a budget of the test's own."""
    # The jitter draws from the whole of the delay: its luckiest draw is no delay at all.
    lucky = types.SimpleNamespace(random=lambda: 1.0)
    monkeypatch.setattr("prime_async.transport.policy.random", lucky)
    budget = RetryBudget(per_second=0.0)  # on a busy machine it would refill meanwhile
    monkeypatch.setattr("prime_async.transport.client.process_budget", budget)
    return budget


@pytest.fixture
async def official(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OfficialStub]:
    """A platform of the official wire: posts append, no keys."""
    async with OfficialStub() as stub:
        point_at(monkeypatch, stub.url)
        yield stub


@pytest.fixture
async def indexed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OfficialStub]:
    """A platform that knows keys and sample ranges, in a few lines that a test can bend."""
    async with OfficialStub(features=True) as stub:
        point_at(monkeypatch, stub.url)
        yield stub


@pytest.fixture
async def platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningPlatform]:
    """The embedded platform, with a key that must be seen nowhere."""
    async with running_platform(tmp_path, api_key=CANARY) as running:
        point_at(monkeypatch, running.url)
        yield running


_CLEANING = {
    "images.client._SETTLE_SECONDS": 10.0,
    "sandboxes.gateway._EXPLAIN_SECONDS": 4.0,
    "sandboxes.jobs.owned._END_SECONDS": 5.0,
    "sandboxes.jobs.owned._PARTIAL_SECONDS": 3.0,
    "sandboxes.killing.KILL_SECONDS": 3.0,
    "sandboxes.live.CLEANUP_SECONDS": 10.0,
    "sandboxes.networks._CLEANUP_SECONDS": 10.0,
    "sandboxes.once.SETTLE_SECONDS": 10.0,
    "sandboxes.trees._CLEANUP_SECONDS": 10.0,
}
"""Seconds that a call may take beyond its deadline, to end what it has started or learn of it."""


@pytest.fixture
def quick_cleaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against silence, cleaning up is over soon."""
    for name, seconds in _CLEANING.items():
        module, _, constant = f"prime_async.{name}".rpartition(".")
        assert getattr(importlib.import_module(module), constant) == seconds
        monkeypatch.setattr(f"{module}.{constant}", 0.05)


@pytest.fixture
def quick_ends(monkeypatch: pytest.MonkeyPatch, quick_cleaning: None) -> None:
    """Ends of runs, processes and commands have little time beside their own."""
    assert RunCore.begin_finish.__defaults__ == (REPORT_SECONDS,) == (30.0,)
    monkeypatch.setattr(RunCore.begin_finish, "__defaults__", (0.15,))
    for name, seconds in (("_CLOSE_SECONDS", 5.0), ("_CONTROL_SECONDS", 10.0)):
        assert getattr(processes, name) == seconds
        monkeypatch.setattr(processes, name, 0.15)


def point_at(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Let the environment name a platform."""
    monkeypatch.setenv("PRIME_API_BASE_URL", url)
    monkeypatch.setenv("PRIME_API_KEY", CANARY)
