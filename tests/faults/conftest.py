"""The two kinds of platform behind a fault proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from prime_async.api import AsyncAPIClient
from prime_async.evals import AsyncEvalsClient
from prime_async.transport import RetryBudget, RetryPolicy
from tests.faults.proxy import FaultProxy
from tests.official_stub import EVALUATION, OfficialStub
from tests.platform import KEY, ThreadedPlatform

QUICK = RetryPolicy(first_delay=0.001, max_delay=0.002)


@dataclass
class Setting:
    """A platform behind a fault proxy.

    Attributes:
        by_index: it stores samples by index and honours keys, as the embedded platform does.
        client: talks through the proxy and repeats quickly.
        direct: talks to the platform itself, to set things up and to ask for the truth.
    """

    by_index: bool
    proxy: FaultProxy
    stub: OfficialStub | None
    client: AsyncEvalsClient
    direct: AsyncEvalsClient

    async def create(self, name: str = "faults") -> str:
        """Make an evaluation, not through the proxy."""
        if self.stub is not None:
            return EVALUATION
        created = await self.direct.create_evaluation(name, run_id="run-1")
        assert created.evaluation_id is not None
        return created.evaluation_id

    async def stored(self, evaluation_id: str) -> list[int]:
        """Read which samples the platform holds, not through the proxy."""
        if self.stub is not None:
            return self.stub.ids
        samples = self.direct.iter_samples(evaluation_id, page_size=1000)
        return [sample["example_id"] async for sample in samples]


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedPlatform]:
    """One embedded platform for all tests: starting one takes longer than most of them."""
    with ThreadedPlatform(tmp_path_factory.mktemp("platform")) as platform:
        yield platform


@pytest.fixture(params=["embedded platform", "official wire"])
async def setting(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Setting]:
    """Both kinds of platform; the retry budget is the test's own."""
    monkeypatch.setattr("prime_async.transport.client.process_budget", RetryBudget())
    stub = OfficialStub() if request.param == "official wire" else None
    async with AsyncExitStack() as stack:
        server: OfficialStub | ThreadedPlatform
        if stub is not None:
            server = await stack.enter_async_context(stub)
        else:
            server = request.getfixturevalue("embedded")
        proxy = await stack.enter_async_context(FaultProxy(("127.0.0.1", server.port)))
        connections = [
            await stack.enter_async_context(AsyncAPIClient(KEY, base_url=url, retry=QUICK))
            for url in (proxy.url, server.url)
        ]
        yield Setting(stub is None, proxy, stub, *map(AsyncEvalsClient, connections))
