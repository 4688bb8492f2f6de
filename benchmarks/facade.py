"""The bridge of the sync facade: what a call costs, and what an item of an iterator costs.

The peer hands every call, and every item, to a loop thread with ``run_coroutine_threadsafe``; the
floor runs a loop in the calling thread, which no client that works in the background can do.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from benchmarks.harness import Contender, Figures, case, race
from prime_sync._bridge import BRIDGE

__all__ = ["run"]

CALLS = 2_000
ITEMS = 2_000
_REPEATS = 5
_ROUNDS = 3


def run() -> dict[str, Any]:
    """Measure calls of an empty coroutine, and items of an async generator."""
    return {
        "name": "facade",
        "cases": {"call": _measure("call", CALLS), "iterate": _measure("iterate", ITEMS)},
    }


def _measure(kind: str, count: int) -> dict[str, Any]:
    roles = ("ours", "peer", "floor")
    contenders = [
        Contender(role, f"benchmarks.facade:{kind}_{role}", {"count": count}) for role in roles
    ]
    raced = race(contenders, rounds=_ROUNDS)
    each = {f"{role}_us_each": raced[role]["wall_s"] / count * 1e6 for role in roles}
    return case(raced, {"count": count, **each})


async def _empty() -> None:
    return


async def _numbers(count: int) -> AsyncIterator[int]:
    for number in range(count):
        yield number


def call_ours(count: int) -> Figures:
    """Contender: calls through the bridge."""
    return _best(lambda: [BRIDGE.call(_empty()) for _ in range(count)])


def call_peer(count: int) -> Figures:
    """Contender: calls through the standard library, to a loop in a thread."""
    loop = _loop_thread()
    submit = asyncio.run_coroutine_threadsafe
    return _best(lambda: [submit(_empty(), loop).result() for _ in range(count)])


def call_floor(count: int) -> Figures:
    """Contender: calls on a loop of the calling thread."""
    with asyncio.Runner() as runner:
        complete = runner.get_loop().run_until_complete
        return _best(lambda: [complete(_empty()) for _ in range(count)])


def iterate_ours(count: int) -> Figures:
    """Contender: an iterator of the bridge."""
    return _best(lambda: list(BRIDGE.iterate(_numbers(count))))


def iterate_peer(count: int) -> Figures:
    """Contender: one hop per item."""
    loop = _loop_thread()

    def items() -> None:
        source = _numbers(count)
        for _ in range(count):
            asyncio.run_coroutine_threadsafe(_next(source), loop).result()

    return _best(items)


def iterate_floor(count: int) -> Figures:
    """Contender: the generator itself, on a loop of the calling thread."""

    async def items() -> None:
        async for _ in _numbers(count):
            pass

    with asyncio.Runner() as runner:
        return _best(lambda: runner.run(items()))


async def _next(source: AsyncIterator[int]) -> int:
    return await anext(source)


def _loop_thread() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def _best(work: Callable[[], object]) -> Figures:
    """Return the lowest figures of several repeats; the first one starts threads."""
    work()
    best = {"wall_s": float("inf"), "cpu_s": float("inf")}
    for _ in range(_REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        best["wall_s"] = min(best["wall_s"], time.perf_counter() - wall)
        best["cpu_s"] = min(best["cpu_s"], time.process_time() - cpu)
    return best
