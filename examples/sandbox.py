"""A command in a sandbox, a file in, a file out; then many sandboxes at a time.

Runs on the embedded platform, which it starts.
"""

import asyncio
import tempfile
from pathlib import Path

from prime_async import AsyncSandboxClient, CreateSandboxRequest

TRAIN = """
import sys
for step in range(3):
    print("step", step, flush=True)
open("/app/model.pt", "w").write("weights after " + sys.argv[1])
"""


async def train(client: AsyncSandboxClient, folder: Path) -> None:
    """Send a script, read its output line by line while it runs, fetch what it made."""
    request = CreateSandboxRequest(name="train", docker_image="python:3.11", memory_gb=2)
    async with client.sandbox(request) as box:  # deleted at the end, whatever ends it
        await client.upload_bytes(box.id, "/app/train.py", TRAIN.encode())
        command = "python /app/train.py lr=0.1"
        async with client.stream_command(box.id, command, timeout=60) as lines:
            async for line in lines:
                print(f"{line.stream}: {line.text}")
        assert lines.result.exit_code == 0
        await client.download_file(box.id, "/app/model.pt", folder / "model.pt")
        print((folder / "model.pt").read_text())


async def score(client: AsyncSandboxClient, number: int) -> int:
    """Run one untrusted answer in a sandbox of its own."""
    request = CreateSandboxRequest(name=f"score-{number}", docker_image="python:3.11")
    async with client.sandbox(request) as box:
        answer = await client.execute_command(box.id, f"python -c 'print({number} ** 2)'")
        return int(answer.stdout)


async def main() -> None:
    """Train once, then score four answers side by side."""
    async with AsyncSandboxClient(context="local", max_live=4) as client:
        with tempfile.TemporaryDirectory() as folder:
            await train(client, Path(folder))
        print(await asyncio.gather(*(score(client, number) for number in range(4))))


if __name__ == "__main__":
    asyncio.run(main())
