"""The byte budget: never exceeded, first come first served, nothing lost by cancelling."""

from __future__ import annotations

import asyncio
import random

from prime_async.server.budget import ByteBudget


async def holder(budget: ByteBudget, size: int, release: asyncio.Event, log: list[int]) -> None:
    async with budget.hold(size):
        log.append(size)
        await release.wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_does_not_fit_waits_in_line() -> None:
    """A small request does not overtake a large one that came before it."""
    budget, log = ByteBudget(100), list[int]()
    releases = [asyncio.Event() for _ in range(3)]
    sizes = (80, 50, 10)
    tasks = [
        asyncio.ensure_future(holder(budget, size, release, log))
        for size, release in zip(sizes, releases, strict=True)
    ]
    await settle()
    assert log == [80]
    releases[0].set()
    await settle()
    assert log == [80, 50, 10]
    assert budget.used == 60
    for release in releases:
        release.set()
    await asyncio.gather(*tasks)
    assert budget.used == 0


async def test_more_than_everything_means_everything() -> None:
    """A body larger than the budget goes alone instead of waiting for ever."""
    budget = ByteBudget(100)
    async with budget.hold(1000):
        assert budget.used == 100
    assert budget.used == 0


async def test_cancelling_gives_everything_back() -> None:
    """Cancelled while waiting, while holding, or in the moment of the hand-over."""
    budget, log = ByteBudget(100), list[int]()
    release = asyncio.Event()

    async def first_then_cancel() -> None:
        async with budget.hold(100):
            await release.wait()
        # The second one has been handed its bytes in this very step and has not run since.
        second.cancel()

    first = asyncio.ensure_future(first_then_cancel())
    await settle()
    second = asyncio.ensure_future(holder(budget, 60, asyncio.Event(), log))
    third = asyncio.ensure_future(holder(budget, 30, asyncio.Event(), log))
    fourth = asyncio.ensure_future(holder(budget, 90, asyncio.Event(), log))
    await settle()
    release.set()
    await first
    await settle()
    assert (second.cancelled(), log, budget.used) == (True, [30], 30)
    fourth.cancel()
    third.cancel()
    await asyncio.gather(second, third, fourth, return_exceptions=True)
    assert budget.used == 0


async def test_a_crowd_never_exceeds_the_budget() -> None:
    """Random sizes and random cancels: the sum stays within bounds and ends at zero."""
    chance = random.Random(3)
    budget, highest = ByteBudget(1000), 0

    async def one() -> None:
        nonlocal highest
        async with budget.hold(chance.randint(1, 600)):
            highest = max(highest, budget.used)
            await asyncio.sleep(chance.random() / 500)

    tasks = [asyncio.ensure_future(one()) for _ in range(300)]
    await settle()
    for task in chance.sample(tasks, 60):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert 0 < highest <= 1000
    assert budget.used == 0


async def test_a_cancelled_request_at_the_head_of_the_line_is_passed_over() -> None:
    """Bytes that come free in the moment it is cancelled go to the next in line."""
    budget, log = ByteBudget(100), list[int]()
    release = asyncio.Event()

    async def first_cancels_second() -> None:
        async with budget.hold(100):
            await release.wait()
            second.cancel()

    first = asyncio.ensure_future(first_cancels_second())
    await settle()
    second = asyncio.ensure_future(holder(budget, 60, asyncio.Event(), log))
    third = asyncio.ensure_future(holder(budget, 100, release, log))
    await settle()
    release.set()
    await asyncio.gather(first, third)
    await settle()
    assert (second.cancelled(), log, budget.used) == (True, [100], 0)
