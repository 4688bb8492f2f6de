"""Stream the episodes of a verifiers evaluation into a run, while it goes on and at its end.

python examples/bridge_verifiers.py
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from prime_async.bridges import RolloutLogger, stream_results
from prime_async.runs import init


def episode(number: int) -> dict[str, Any]:
    """Stands for an episode of verifiers 0.4, of one trace."""
    start = time.time()
    said = [("user", f"How much is {number} + {number}?"), ("assistant", str(2 * number))]
    nodes = [
        {
            "parent": place - 1 if place else None,
            "message": {"role": role, "content": text},
            "sampled": role == "assistant",
            "timestamp": start,
        }
        for place, (role, text) in enumerate(said)
    ]
    rewards = {"right": {"score": 1.0, "weight": 1.0}}
    name = f"sum-{number}-{start}"
    trace = {"id": name, "nodes": nodes, "rewards": rewards, "ok": True, "timing": {"start": start}}
    return {"id": f"episode-{name}", "env": {"id": "sums"}, "ok": True, "traces": [trace]}


async def evaluate(on_complete: Callable[[Any], Awaitable[None]]) -> list[dict[str, Any]]:
    """Stands for ``await env.run_slot(slot, context, semaphore, on_complete)`` of every slot."""
    episodes = [episode(number) for number in range(20)]
    for one in episodes:
        await on_complete(one)
    return episodes


async def main() -> str | int:
    options: dict[str, Any] = {"context": "local", "model": "tiny", "environments": ["sums"]}
    async with await init(name="as they complete", **options) as first:
        await evaluate(RolloutLogger(first).on_complete)
    async with await init(name="all at the end", **options) as second:
        episodes = [episode(number) for number in range(20)]
        streamed = await stream_results(second, episodes)  # or a folder, or its file
    whole = all(run.receipt and run.receipt.counts.delivered == 20 for run in (first, second))
    scores = {"right": 1.0, "reward": 1.0, "error": 0.0}
    return 0 if whole and streamed.metrics == first.summary == scores else str(second.receipt)


sys.exit(asyncio.run(main()))
