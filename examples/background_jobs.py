"""A sweep of training runs as background jobs: started by one client, collected by another.

Runs on the embedded platform, which it starts.
"""

import asyncio
import tempfile
from pathlib import Path

from prime_async import AsyncSandboxClient, BackgroundJob, CreateSandboxRequest

TRAIN = """
import sys
rate = float(sys.argv[1])
weight = 0.0
for epoch in range(5):
    weight += rate * (3.0 - weight)
    print(f"epoch {epoch}: loss {(3.0 - weight) ** 2:.4f}", flush=True)
open(f"/app/model-{rate}.pt", "w").write(f"{weight:.4f}")
"""
RATES = (0.1, 0.5, 0.9)


async def start(store: Path) -> None:
    """Start everything and leave: the handles are all that has to be kept."""
    async with AsyncSandboxClient(context="local") as client:
        request = CreateSandboxRequest(name="sweep", docker_image="python:3.11", memory_gb=2)
        box = await client.create(request)
        await client.wait_for_creation(box.id)
        await client.upload_bytes(box.id, "/app/train.py", TRAIN.encode())
        for rate in RATES:
            job = await client.start_background_job(box.id, f"python /app/train.py {rate}")
            (store / f"{rate}.json").write_text(job.to_json())


async def collect(store: Path) -> None:
    """Pick the jobs up again, in another process or on another day."""
    jobs = [BackgroundJob.from_json((store / f"{rate}.json").read_text()) for rate in RATES]
    async with AsyncSandboxClient(context="local") as client:
        async for chunk in client.follow_background_job(jobs[0]):
            print(chunk.text, end="")
        for rate, status in zip(RATES, await client.wait_background_jobs(jobs), strict=True):
            assert status.stdout, status
            path = f"/app/model-{rate}.pt"
            await client.download_file(jobs[0].sandbox_id, path, store / "model.pt")
            print(rate, (store / "model.pt").read_text(), status.stdout.splitlines()[-1])
        await client.delete(jobs[0].sandbox_id)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(start(Path(folder)))
        asyncio.run(collect(Path(folder)))
