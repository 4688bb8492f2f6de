"""The second part of the demo: a training run in a sandbox, as a background job."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prime_async_cli.failures import CommandError

if TYPE_CHECKING:
    from prime_async.sandboxes import AsyncSandboxClient, BackgroundJob, BackgroundJobStatus

__all__ = ["train_in_a_sandbox"]

Tell = Callable[..., None]

_COMMAND = "python train.py --epochs 100"
_PAUSE = 0.1
_UNAVAILABLE = "RUNTIME_UNAVAILABLE"


async def train_in_a_sandbox(tell: Tell) -> dict[str, Any]:
    """Make a sandbox, train in it, bring the model here; returns the facts.

    Where this machine refuses to isolate sandboxes, a platform of its own runs it as plain
    processes: the commands are the demo's, and it says so.

    Args:
        tell: tells a step that is done: its title, and facts about it.
    """
    from prime_async.errors import SandboxNotRunningError
    from prime_async.sandboxes import AsyncSandboxClient

    try:
        async with AsyncSandboxClient(context="local") as client:
            return await _train(client, tell, isolated=True)
    except SandboxNotRunningError as error:
        if error.error_type != _UNAVAILABLE:
            raise
        tell("This machine does not isolate sandboxes: the demo goes on without", str(error))
    async with _unisolated() as client:
        return await _train(client, tell, isolated=False)


async def _train(client: AsyncSandboxClient, tell: Tell, *, isolated: bool) -> dict[str, Any]:
    from prime_async.sandboxes import CreateSandboxRequest

    request = CreateSandboxRequest(name="demo", docker_image="python:3.11")
    async with client.sandbox(request) as box:
        how = "namespaces and limits of its own" if isolated else "plain processes, not isolated"
        tell("Created a sandbox and waited until it answers", f"{box.id}: {how}")
        with as_file(files("prime_async_cli") / "demo_sandbox" / "train.py") as script:
            await client.upload_file(box.id, "/app/train.py", script)
        job = await client.start_background_job(box.id, _COMMAND)
        tell("Uploaded train.py and started it as a background job", f"{job.job_id}: {_COMMAND}")
        status, looks = await _poll(client, job)
        tell(f"It ended with exit code {status.exit_code}", f"looked at {looks} times")
        model = await _model(client, box.id, status)
        fitted = f"slope {model['slope']:.3f}, offset {model['offset']:.3f}"
        tell("Downloaded /app/model.pt", f"{fitted}, loss {model['loss']:.4f}")
        return {"sandbox_id": box.id, "job_id": job.job_id, "isolated": isolated, "model": model}


async def _poll(client: AsyncSandboxClient, job: BackgroundJob) -> tuple[BackgroundJobStatus, int]:
    """Look until it has ended: what people write; `wait_background_jobs` does it for many."""
    import anyio

    looks = 1
    while not (status := await client.get_background_job(job.sandbox_id, job)).completed:
        await anyio.sleep(_PAUSE)
        looks += 1
    return status, looks


async def _model(
    client: AsyncSandboxClient, sandbox_id: str, status: BackgroundJobStatus
) -> dict[str, Any]:
    if status.exit_code:
        raise CommandError(f"the training ended with {status.exit_code}\n{status.stderr or ''}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.pt")
        await client.download_file(sandbox_id, "/app/model.pt", path)
        return _read(path)


def _read(path: Path) -> dict[str, Any]:
    model: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return model


@asynccontextmanager
async def _unisolated() -> AsyncIterator[AsyncSandboxClient]:
    """A platform for this block whose sandboxes are plain processes, and a client of it."""
    import secrets

    from prime_async.sandboxes import AsyncSandboxClient
    from prime_async.server.config import ServerConfig
    from prime_async.server.serve import PlatformServer

    key = secrets.token_urlsafe(32)
    with tempfile.TemporaryDirectory(prefix="prime-async-demo-") as folder:
        server = PlatformServer(
            ServerConfig(data_dir=Path(folder, "data"), api_key=key, sandbox_runtime="process")
        )
        listening = await server.start()
        try:
            async with AsyncSandboxClient(api_key=key, base_url=listening.url) as client:
                yield client
        finally:
            await server.stop()
