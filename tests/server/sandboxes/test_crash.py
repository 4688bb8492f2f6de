"""A platform that is killed with many sandboxes in it: all of them are there again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from prime_async.sandboxes import AsyncSandboxClient, CreateSandboxRequest
from tests.platform import KEY, ProcessPlatform
from tests.server.sandboxes.usable import needs_bubblewrap

pytestmark = needs_bubblewrap

REQUEST = CreateSandboxRequest(name="crash", docker_image="ubuntu:24.04", memory_gb=0.25)


COUNT = 50


@pytest.mark.slow
async def test_fifty_sandboxes_outlive_a_killed_platform(tmp_path: Path) -> None:
    """kill -9 and a start: all run, with their files, their environment and what runs in them."""
    script = 'echo "$MARK" > mark; setsid sleep 907 < /dev/null > /dev/null 2>&1 & echo $!'
    with ProcessPlatform(tmp_path) as platform:
        async with AsyncSandboxClient(api_key=KEY, base_url=platform.url) as client:
            made = await asyncio.gather(*(client.create(REQUEST) for _ in range(COUNT)))
            ids = [box.id for box in made]
            await client.bulk_wait_for_creation(ids)
            started = await asyncio.gather(
                *(client.execute_command(one, script, env={"MARK": one}) for one in ids)
            )
            await asyncio.gather(
                *(client.upload_bytes(one, "/app/data", one.encode() * 1000) for one in ids)
            )
            platform.kill()
            platform.start()
            statuses = await client.get_sandbox_statuses(ids)
            assert {one.status for one in statuses.statuses} == {"RUNNING"}
            again = await asyncio.gather(
                *(
                    client.execute_command(one, f"cat mark; kill -0 {run.stdout.strip()}")
                    for one, run in zip(ids, started, strict=True)
                )
            )
            assert [(run.stdout, run.exit_code) for run in again] == [
                (f"{one}\n", 0) for one in ids
            ]
            files = await asyncio.gather(*(client.read_file(one, "/app/data") for one in ids))
            assert [one.content for one in files] == [one * 1000 for one in ids]
