"""Log a training run: rollouts and metrics while it trains, at no cost to the trainer's loop.

python examples/run_from_trainer.py
"""

import asyncio
import time
from typing import Any

from prime_async import AsyncTracesClient
from prime_async.runs import AsyncRun, TrainingSpec, init

STEPS, ROLLOUTS = 3, 20


async def rollout(step: int, number: int) -> dict[str, Any]:
    """Stands for your environment: an episode of one trace."""
    await asyncio.sleep(0)  # here the model thinks
    question = {"role": "user", "content": f"What is {number} + {step}?"}
    answer = {"role": "assistant", "content": str(number + step)}
    trace = {
        "id": f"{step}-{number}",
        "nodes": [
            {"message": question, "sampled": False},
            {"parent": 0, "message": answer, "sampled": True},
        ],
        "rewards": {"correct": {"score": float(number % (step + 2) > 0)}},
        "timing": {"start": time.time()},
    }
    work = {"work": {"type": "train", "step": step}}
    return {"id": f"e-{step}-{number}", "env": {"id": "sums"}, "run": work, "traces": [trace]}


async def train(run: AsyncRun) -> None:
    for step in range(STEPS):
        episodes = await asyncio.gather(*(rollout(step, number) for number in range(ROLLOUTS)))
        rewards = [one["traces"][0]["rewards"]["correct"]["score"] for one in episodes]
        run.log_episodes(episodes)  # plain calls: they never wait
        run.log_metrics({"reward": sum(rewards) / ROLLOUTS, "loss": 1 / (step + 1)}, step=step)
        run.log_distributions({"reward": rewards}, step=step)


async def main() -> None:
    spec = TrainingSpec(max_steps=STEPS)
    run = await init(kind="train", model="tiny", training=spec, context="local")
    async with run:  # completed, failed or cancelled, as the block ends
        await train(run)
        run.update_summary({"steps": STEPS})
    print(f"{run.status}: {run.receipt}")
    async with AsyncTracesClient(context="local") as client:
        for group in (await client.aggregate("run_step", run_id=run.id)).groups:
            print(f"step {group.key}: {group.trace_count} traces, reward {group.avg_reward}")


asyncio.run(main())
