"""Clients of the traces service, on a stub and on the embedded platform."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from prime_async.traces import AsyncTracesAPIClient, AsyncTracesClient
from prime_async.transport import RetryBudget, RetryPolicy
from tests.platform import ThreadedPlatform
from tests.stub import Stub
from tests.traces.receiver import Receiver

QUICK = RetryPolicy(first_delay=0.001, max_delay=0.002)


@pytest.fixture(autouse=True)
def _own_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test spends on repeats is not missing in the next."""
    monkeypatch.setattr("prime_async.transport.client.process_budget", RetryBudget())


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedPlatform]:
    """The embedded platform, shared by the tests of a file: each uses a run of its own."""
    with ThreadedPlatform(tmp_path_factory.mktemp("platform")) as running:
        yield running


@pytest.fixture
async def receiver(stub: Stub) -> Receiver:
    """A service that keeps what it is sent."""
    return Receiver(stub)


@pytest.fixture
async def client(stub: Stub) -> AsyncIterator[AsyncTracesClient]:
    """A client of the stub that repeats without waiting."""
    async with (
        AsyncTracesAPIClient("key", stub.url, retry=QUICK) as api,
        AsyncTracesClient(api) as made,
    ):
        yield made
