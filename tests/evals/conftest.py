"""A platform, a client of it, and an evaluation to push to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_async.api import AsyncAPIClient
from prime_async.evals import AsyncEvalsClient
from prime_async.transport import RetryBudget, RetryPolicy
from tests.evals.pushing import Target
from tests.official_stub import EVALUATION, OfficialStub
from tests.platform import KEY, running_platform

QUICK = RetryPolicy(first_delay=0.001, max_delay=0.002)


@pytest.fixture(autouse=True)
def _own_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test spends on repeats is not missing in the next."""
    monkeypatch.setattr("prime_async.transport.client.process_budget", RetryBudget())


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    """The embedded platform, with one evaluation."""
    async with (
        running_platform(tmp_path) as platform,
        AsyncAPIClient(KEY, base_url=platform.url, retry=QUICK) as api,
        AsyncEvalsClient(api) as client,
    ):
        made = await client.create_evaluation("pushed", run_id="run-1")
        assert made.evaluation_id is not None
        yield Target(client, made.evaluation_id, platform.url)


@pytest.fixture
async def official() -> AsyncIterator[OfficialStub]:
    """A platform that speaks the official wire: no ranges, posts append."""
    async with OfficialStub() as stub:
        yield stub


@pytest.fixture
async def official_target(official: OfficialStub) -> AsyncIterator[Target]:
    """A client of the official wire."""
    async with (
        AsyncAPIClient("key", base_url=official.url, retry=QUICK) as api,
        AsyncEvalsClient(api) as client,
    ):
        yield Target(client, EVALUATION, official.url)
