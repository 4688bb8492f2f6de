"""kill -9 of the server: jobs and sandboxes go on, what was half made is cleaned up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.platform import ProcessPlatform
from tests.server.sandboxes.boxes import Boxes
from tests.server.sandboxes.test_checkpoints import settled
from tests.server.sandboxes.usable import needs_bubblewrap

pytestmark = needs_bubblewrap


@asynccontextmanager
async def killable(tmp_path: Path) -> AsyncIterator[tuple[ProcessPlatform, Boxes]]:
    """A platform in a process of its own; whatever happens to it, its sandboxes are ended."""
    platform = ProcessPlatform(tmp_path)
    with platform:
        async with Boxes(platform) as boxes:  # type: ignore[arg-type]  # its url is all that is used
            try:
                yield platform, boxes
            finally:
                if not platform.running:
                    platform.start()
                await boxes.end_all()


async def killed_and_started(platform: ProcessPlatform) -> None:
    """In threads, so that the loop sees the connections to the old server end."""
    await anyio.to_thread.run_sync(platform.kill)
    await anyio.to_thread.run_sync(platform.start)


@pytest.mark.parametrize("count", [4, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.slow
async def test_jobs_outlive_a_killed_server_and_none_runs_twice(tmp_path: Path, count: int) -> None:
    """All sandboxes are adopted, files intact, every job's result is collected, each ran once."""
    async with killable(tmp_path) as (platform, boxes):
        ids = [await boxes.create(memory_gb=0.25) for _ in range(count)]
        for box in ids:
            await boxes.until(box, "RUNNING")
        jobs = {box: f"{number:08x}" for number, box in enumerate(ids)}
        command = (
            "echo began >> /app/began; until test -e /app/go; do sleep 0.05; done; cat /app/own"
        )
        for number, (box, job) in enumerate(jobs.items()):
            await boxes.sh(box, f"echo {box} > /app/own")
            await boxes.launch(box, job, f"{command}; exit {number % 200}")
        keys = list(jobs.items())
        before = (await boxes.jobs(*keys)).json
        assert [one["completed"] for one in before["statuses"]] == [False] * count
        await killed_and_started(platform)
        after = (await boxes.jobs(*keys)).json
        assert after == before, "none lost, none ended"
        for box in ids:
            await boxes.reach(box)
            await boxes.sh(box, "touch /app/go")
        with anyio.fail_after(60):
            while True:
                told = (await boxes.jobs(*keys)).json
                assert told["errors"] == []
                if all(one["completed"] for one in told["statuses"]):
                    break
                await anyio.sleep(0.05)
        codes = [one["exit_code"] for one in told["statuses"]]
        assert codes == [number % 200 for number in range(count)]
        for box, job in keys:
            params = {"path": f"/tmp/job_{job}.stdout.log"}
            output = (await boxes.at("GET", box, "/read-file", params=params)).json["content"]
            assert output == f"{box}\n"
            assert await boxes.sh(box, "cat /app/began") == "began\n"


@pytest.mark.slow
async def test_a_server_killed_while_it_makes_a_checkpoint(tmp_path: Path) -> None:
    """The checkpoint has failed and says why, nothing of it is left, and the sandbox goes on."""
    async with killable(tmp_path) as (platform, boxes):
        folder = tmp_path / "platform" / "checkpoints"
        box = await boxes.running()
        whole = (await boxes.post(f"/sandbox/{box}/checkpoints")).json["id"]
        assert (await settled(boxes, whole))["state"] == "DURABLE"
        await boxes.launch(box, "0000000a", "while :; do date +%s%N > /app/tick; sleep 0.1; done")
        await boxes.sh(box, "head -c 200000000 /dev/zero > /app/large")
        half = (await boxes.post(f"/sandbox/{box}/checkpoints")).json["id"]
        with anyio.fail_after(20):
            while not (folder / f"{half}.part").exists():
                await anyio.sleep(0.005)
        await killed_and_started(platform)
        found = (await boxes.get(f"/sandbox/checkpoints/{half}")).json
        assert (found["state"], found["error"]) == (
            "FAILED",
            "the platform ended while it was made",
        )
        assert [one.name for one in folder.iterdir()] == [f"{whole}.tar"]
        await boxes.reach(box)
        seen = await boxes.sh(box, "cat /app/tick")
        with anyio.fail_after(20):
            while await boxes.sh(box, "cat /app/tick") == seen:
                await anyio.sleep(0.02)
        again = await _restored(boxes, whole)
        assert await boxes.sh(again, "ls /app") == ""


@pytest.mark.slow
async def test_volumes_and_their_mounts_outlive_a_killed_server(tmp_path: Path) -> None:
    """Mounted as before, in use as before, published as before."""
    async with killable(tmp_path) as (platform, boxes):
        await boxes.post("/sandbox/volumes", {"name": "v"})
        box = await boxes.running(volumes=[{"name": "v", "mount_path": "/data"}])
        await boxes.sh(box, "echo kept > /data/f")
        await killed_and_started(platform)
        await boxes.reach(box)
        assert await boxes.sh(box, "cat /data/f") == "kept\n"
        assert (await boxes.delete("/sandbox/volumes/v")).code == "volume_in_use"
        made = (await boxes.post(f"/sandbox/{box}/volumes/v/publish")).json["id"]
        assert (await settled(boxes, made))["state"] == "DURABLE"


async def _restored(boxes: Boxes, checkpoint_id: str) -> str:
    fields: dict[str, Any] = {"docker_image": None, "checkpoint_id": checkpoint_id}
    return await boxes.running(**fields)
