"""Many waiters, few requests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from prime_async.sandboxes.coalescer import Coalescer


class _Source:
    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def fetch(self, keys: list[int]) -> Mapping[int, str | Exception]:
        self.batches.append(keys)
        await self.gate.wait()
        return {key: ValueError(key) if key < 0 else f"v{key}" for key in keys if key != 13}


async def test_250_keys_are_three_requests_at_a_time() -> None:
    """A hundred per request, none waiting for another."""
    source = _Source()
    source.gate.clear()
    coalescer = Coalescer(source.fetch)
    tasks = [asyncio.create_task(coalescer.get(key + 100)) for key in range(250)]
    async with asyncio.timeout(5):
        while len(source.batches) < 3:
            await asyncio.sleep(0.01)
    assert [len(batch) for batch in source.batches] == [100, 100, 50]
    source.gate.set()
    assert await asyncio.gather(*tasks) == [f"v{key + 100}" for key in range(250)]


async def test_one_key_is_fetched_once_for_all_its_waiters() -> None:
    """Waiters of one key share the answer; the next one asks anew."""
    source = _Source()
    coalescer = Coalescer(source.fetch)
    assert await asyncio.gather(*(coalescer.get(1) for _ in range(50))) == ["v1"] * 50
    assert await coalescer.get(1) == "v1"
    assert source.batches == [[1], [1]]


async def test_errors_belong_to_keys() -> None:
    """A key's error is its waiter's; a key that was left out is told."""
    coalescer = Coalescer(_Source().fetch)
    found = await asyncio.gather(*map(coalescer.get, (-1, 2, 13)), return_exceptions=True)
    assert isinstance(found[0], ValueError)
    assert found[1] == "v2"
    assert isinstance(found[2], LookupError)


async def test_a_failed_request_is_everybodys_error() -> None:
    """Everybody in the batch hears of it."""

    async def fail(keys: list[int]) -> Mapping[int, str | Exception]:
        raise RuntimeError("down")

    coalescer = Coalescer(fail)
    found = await asyncio.gather(*map(coalescer.get, range(3)), return_exceptions=True)
    assert [str(error) for error in found] == ["down"] * 3


@pytest.mark.parametrize("fetching", [False, True])
async def test_others_go_on_when_the_fetching_waiter_leaves(fetching: bool) -> None:
    """Cancelling whoever fetches, or collects, hands its work to the next waiter."""
    source = _Source()
    source.gate.clear()
    coalescer = Coalescer(source.fetch)
    first = asyncio.create_task(coalescer.get(1))
    others = [asyncio.create_task(coalescer.get(key)) for key in (1, 2, 3)]
    await asyncio.sleep(0)
    if fetching:
        async with asyncio.timeout(5):
            while not source.batches:
                await asyncio.sleep(0.01)
    first.cancel()
    source.gate.set()
    async with asyncio.timeout(5):
        assert await asyncio.gather(*others) == ["v1", "v2", "v3"]
    assert not coalescer._slots
