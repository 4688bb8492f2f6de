"""Jobs outlive the platform: killed and started again, it finds them all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from prime_async import AsyncSandboxClient, CreateSandboxRequest
from tests.platform import KEY, ProcessPlatform
from tests.server.sandboxes.usable import needs_bubblewrap

pytestmark = needs_bubblewrap


@pytest.mark.parametrize("count", [6, pytest.param(50, marks=pytest.mark.slow)])
async def test_a_killed_platform_loses_no_job(tmp_path: Path, count: int) -> None:
    """kill -9 while they run: none lost, none run twice, and the waits go on."""
    request = CreateSandboxRequest(name="x", docker_image="python:3.11", memory_gb=2)
    with ProcessPlatform(tmp_path) as platform:
        async with AsyncSandboxClient(api_key=KEY, base_url=platform.url) as client:
            boxes = [(await client.create(request)).id for _ in range(2)]
            await client.bulk_wait_for_creation(boxes)
            command = "while ! test -e /tmp/go; do sleep 0.2; done; echo ran $0; exit {code}"
            jobs = [
                await client.start_background_job(boxes[n % 2], command.format(code=n))
                for n in range(count)
            ]
            waiting = asyncio.create_task(client.wait_background_jobs(jobs, timeout=120))
            async with asyncio.timeout(20):
                while not client.stats().batches:
                    await asyncio.sleep(0.02)
            await asyncio.to_thread(platform.kill)
            await asyncio.to_thread(platform.start)
            for box in boxes:
                await client.upload_bytes(box, "/tmp/go", b"")
            found = await waiting
            assert [status.exit_code for status in found] == list(range(count))
            assert [status.stdout.count("ran") for status in found if status.stdout] == [1] * count
            await client.bulk_delete(boxes)
