"""The runtime without isolation: the story of a training run is the same there."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_async.sandboxes import AsyncSandboxClient, CreateSandboxRequest
from tests.platform import KEY, running_platform

SCRIPT = b"""
import pathlib, sys
print("trained", sys.argv[1])
print("warned", file=sys.stderr)
pathlib.Path("model.pt").write_bytes(b"weights")
"""


@pytest.mark.parametrize("vm", [True, False])
async def test_a_training_run_from_upload_to_download(tmp_path: Path, vm: bool) -> None:
    """Machine and container alike; the files of jobs are the sandbox's, and go with it."""
    async with (
        running_platform(tmp_path, sandbox_runtime="process") as platform,
        AsyncSandboxClient(api_key=KEY, base_url=platform.url) as client,
        client.sandbox(CreateSandboxRequest(name="x", docker_image="python:3.11", vm=vm)) as box,
        client.sandbox(CreateSandboxRequest(name="y", docker_image="python:3.11", vm=vm)) as other,
    ):
        await client.upload_bytes(box.id, "/app/train.py", SCRIPT)
        job = await client.start_background_job(box.id, "python train.py well; exit 3")
        long = await client.start_background_job(box.id, "sleep 60")
        [status] = await client.wait_background_jobs([job], timeout=60)
        assert (status.exit_code, status.stdout, status.stderr) == (3, "trained well\n", "warned\n")
        assert (await client.get_background_job(box.id, job)).exit_code == 3
        await client.download_file(box.id, "/app/model.pt", tmp_path / "model.pt")
        assert (tmp_path / "model.pt").read_bytes() == b"weights"
        assert not (await client.get_background_job_status(box.id, long)).completed
        listed = {one.job_id for one in await client.list_background_jobs(box.id)}
        assert listed == {job.job_id, long.job_id}
        assert await client.list_background_jobs(other.id) == []
        assert (await client.cancel_background_job(long, grace=0)).completed
        assert not list(Path("/tmp").glob(f"job_{job.job_id}*"))  # the host's
