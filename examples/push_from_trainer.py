"""Push rollouts while they are made: an asynchronous trainer never waits for the platform."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from prime_async import AsyncEvalsClient


async def rollouts(count: int) -> AsyncIterator[dict[str, Any]]:
    """Stands for your trainer: gives each sample as soon as it is finished."""
    for number in range(count):
        await asyncio.sleep(0)  # here the model thinks
        yield {
            "example_id": number,
            "prompt": [{"role": "user", "content": f"How much is {number} + {number}?"}],
            "completion": [{"role": "assistant", "content": str(2 * number)}],
            "reward": float(number % 2),
        }


async def main() -> None:
    # Without context= the client uses what your environment and `prime-async config` say.
    async with AsyncEvalsClient(context="local") as client:
        evaluation = await client.create_evaluation(
            "sums", dataset="sums", model_name="tiny", metadata={"step": 100}
        )
        receipt = await client.push_samples(evaluation["evaluation_id"], rollouts(200))
        samples = client.iter_samples(evaluation["evaluation_id"])
        rewards = [sample["reward"] async for sample in samples]
        closed = await client.finalize_evaluation(
            evaluation["evaluation_id"], metrics={"reward": sum(rewards) / len(rewards)}
        )
        print(f"{receipt}; {closed.name} is {closed.status} with {closed.metrics}")


asyncio.run(main())
