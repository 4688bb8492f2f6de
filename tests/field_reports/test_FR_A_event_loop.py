"""Field reports, group A: event loops and connections that outlive them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from prime_async.evals import AsyncEvalsClient
from tests.meters import open_descriptors, open_sockets
from tests.official_stub import EVALUATION, OfficialStub
from tests.stub import stub_in_thread


@pytest.fixture
def quick_collections() -> Iterator[None]:
    """Leave what the test run itself holds out of every collection: 400 full ones take a minute."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def platform() -> Iterator[OfficialStub]:
    """A platform in a thread of its own: these tests run loops of theirs."""
    server = OfficialStub()
    with stub_in_thread(server):
        yield server


@pytest.mark.usefixtures("quick_collections")
def test_FR02_a_client_shared_by_200_loops(platform: OfficialStub) -> None:
    """One client, 200 loops one after another: 200 successes, 200 requests, no socket left over."""
    client = AsyncEvalsClient("key", base_url=platform.url)
    before = open_sockets()
    for _ in range(200):
        evaluation = asyncio.run(client.get_evaluation(EVALUATION))
        assert evaluation.evaluation_id == EVALUATION
        gc.collect()
    assert len(platform.requests) == 200
    assert open_sockets() - before <= 2


@pytest.mark.usefixtures("quick_collections")
def test_FR02_a_client_per_loop(platform: OfficialStub) -> None:
    """A client per loop, closed by nothing but the end of the loop: the same."""

    async def one_call() -> None:
        client = AsyncEvalsClient("key", base_url=platform.url)
        assert (await client.get_evaluation(EVALUATION)).evaluation_id == EVALUATION

    before = open_sockets()
    for _ in range(200):
        asyncio.run(one_call())
        gc.collect()
    assert len(platform.requests) == 200
    assert open_sockets() - before <= 2


def test_FR03_create_in_two_loops(
    platform: OfficialStub, capfd: pytest.CaptureFixture[str]
) -> None:
    """The second loop's create is carried out once and succeeds; nothing complains on stderr."""
    client = AsyncEvalsClient("key", base_url=platform.url)
    for _ in range(2):
        created = asyncio.run(client.create_evaluation("e", run_id="r"))
        assert created.evaluation_id == EVALUATION
    gc.collect()
    assert [r.method for r in platform.requests] == ["POST", "POST"]
    assert capfd.readouterr().err == ""


async def test_FR07_300_clients_leave_no_descriptor(platform: OfficialStub) -> None:
    """Leaving the block closes the connections at once, without a warning (warnings are errors)."""
    before = open_descriptors()
    for _ in range(300):
        async with AsyncEvalsClient("key", base_url=platform.url) as client:
            await client.get_evaluation(EVALUATION)
    gc.collect()
    assert open_descriptors() - before <= 5
