"""Upload traces, look at them, and take them out again, on the embedded platform.

python examples/upload_traces.py
"""

import asyncio
import tempfile
import time
from typing import Any

import anyio

from prime_async.traces import AsyncTracesClient, partial_upload


def rollout(number: int, step: int) -> dict[str, Any]:
    """Make one trace, as a trainer has it."""
    start = time.time() - 60 + number / 100
    question = {"role": "user", "content": f"What is {number} + {step}?"}
    answer = {"role": "assistant", "content": str(number + step)}
    return {
        "id": f"rollout-{step}-{number}",
        "run": {"id": "sums", "type": "train", "work": {"type": "train", "step": step}},
        "nodes": [
            {"message": question, "sampled": False, "timestamp": start},
            {"parent": 0, "message": answer, "sampled": True, "timestamp": start + 1},
        ],
        "rewards": {"correct": {"score": float(number % 2), "weight": 1.0}},
        "ok": True,
        "timing": {"start": start, "scoring": {"start": start + 1, "end": start + 2}},
    }


async def main() -> None:
    async with AsyncTracesClient(context="local") as client:
        records = (rollout(number, step) for step in range(3) for number in range(20))
        try:
            receipts = await client.upload_records(records, target_batch_bytes=8_000)
        except Exception as error:
            print("stored so far:", partial_upload(error))
            raise
        print(len(receipts), "batches,", receipts[0].status)
        for group in (await client.aggregate("run_step", run_id="sums")).groups:
            print(f"step {group.key}: {group.trace_count} traces, reward {group.avg_reward}")
        async for match in client.iter_search("What is 7 +", run_id="sums"):
            print(match.trace_id, "says", match.excerpt)
        with tempfile.TemporaryDirectory() as folder:
            file = anyio.Path(folder, "sums.jsonl")
            await client.export(file, run_id="sums", reward_min=1.0)
            print(len((await file.read_text()).splitlines()), "of them were right")


asyncio.run(main())
