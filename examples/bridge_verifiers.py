"""Stream the results of a verifiers evaluation into a run, while it goes on and at its end.

python examples/bridge_verifiers.py
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from prime_async.bridges import RolloutLogger, stream_results
from prime_async.runs import init


async def evaluate(on_progress: Callable[..., None] | None = None) -> dict[str, Any]:
    """Stands for ``await env.evaluate(client, model, on_progress=...)``."""
    outputs: list[dict[str, Any]] = []
    for number in range(20):
        await asyncio.sleep(0)  # here the model thinks
        prompt = [{"role": "user", "content": f"How much is {number} + {number}?"}]
        completion = [{"role": "assistant", "content": str(2 * number)}]
        rollout = {"example_id": number, "prompt": prompt, "completion": completion, "reward": 1.0}
        outputs.append(rollout)
        if on_progress is not None:
            on_progress(outputs, [rollout])
    return {"outputs": outputs, "metadata": {"env_id": "sums", "avg_reward": 1.0}}


async def main() -> str | int:
    options: dict[str, Any] = {"context": "local", "model": "tiny", "environments": ["sums"]}
    async with await init(name="as they finish", **options) as first:
        await evaluate(on_progress=RolloutLogger(first).on_progress)
    async with await init(name="all at the end", **options) as second:
        streamed = await stream_results(second, await evaluate())  # or a folder, or its file
    whole = all(run.receipt and run.receipt.counts.delivered == 20 for run in (first, second))
    return 0 if whole and streamed.metrics == {"reward": 1.0} else str(second.receipt)


sys.exit(asyncio.run(main()))
