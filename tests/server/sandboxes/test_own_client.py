"""Our own client against the platform, over a real runtime: what the official one cannot do."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from prime_async.errors import CommandTimeoutError, SandboxNotRunningError
from prime_async.sandboxes import AsyncSandboxClient, CreateSandboxRequest
from tests.platform import KEY, RunningPlatform, running_platform
from tests.server.sandboxes.usable import needs_bubblewrap
from tests.server.wire import Wire

pytestmark = needs_bubblewrap


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[RunningPlatform]:
    """A platform with its default runtime, whose sandboxes are gone in the end."""
    async with running_platform(tmp_path) as running:
        yield running
        async with Wire(running.url) as wire:
            assert (await wire.post("/local/end-all")).status == 200


@pytest.fixture
async def client(platform: RunningPlatform) -> AsyncIterator[AsyncSandboxClient]:
    """A client of it."""
    async with AsyncSandboxClient(api_key=KEY, base_url=platform.url) as made:
        yield made


def request(**fields: object) -> CreateSandboxRequest:
    return CreateSandboxRequest(**{"name": "own", "docker_image": "ubuntu:24.04", **fields})  # type: ignore[arg-type]  # any field of it


async def test_a_block_gives_a_sandbox_and_takes_it_back(client: AsyncSandboxClient) -> None:
    """Virtual machine and container alike."""
    for vm in (True, False):
        async with client.sandbox(request(vm=vm)) as box:
            assert box.vm is vm
            done = await client.execute_command(box.id, "echo hi; echo err >&2; exit 3")
            assert (done.stdout, done.stderr, done.exit_code) == ("hi\n", "err\n", 3)
        assert (await client.get(box.id)).status == "TERMINATED"


async def test_files_in_parts_with_digests_and_lists(
    client: AsyncSandboxClient, tmp_path: Path
) -> None:
    """A file large enough to be sent in parts, verified both ways; folders are listed."""
    local, back = tmp_path / "f.bin", tmp_path / "back.bin"
    local.write_bytes(os.urandom(1024 * 1024) * 20)
    async with client.sandbox(request()) as box:
        await client.upload_file(box.id, "/app/d/f.bin", local, verify=True)
        await client.download_file(box.id, "/app/d/f.bin", back, verify=True)
        found = await client.list_files(box.id, "/app", recursive=True)
        assert [(one.path, one.type) for one in found] == [
            ("/app/d", "directory"),
            ("/app/d/f.bin", "file"),
        ]
    same = {hashlib.sha256(file.read_bytes()).hexdigest() for file in (local, back)}
    assert len(same) == 1


async def test_a_process_on_a_terminal(client: AsyncSandboxClient) -> None:
    """Its size, its input, its end of input."""
    async with client.sandbox(request()) as box:
        process = await client.open_process(box.id, "stty size; cat", pty=(100, 40))
        await process.write_stdin(b"typed\n")
        seen = b""
        async for piece in process.stdout:
            seen += piece
            if seen.count(b"typed") >= 2:
                break
        assert b"40 100" in seen
        await process.kill()
        assert await process.wait() in (-signal.SIGKILL, 128 + signal.SIGKILL)
        await process.aclose()


async def test_a_process_whose_sandbox_is_deleted(client: AsyncSandboxClient) -> None:
    """Its wait, and what is started or asked for later, say that the sandbox ended."""
    async with client.sandbox(request()) as box:
        process = await client.open_process(box.id, "sleep 60")
        waiting = asyncio.create_task(process.wait())
        await client.delete(box.id)
        with pytest.raises(SandboxNotRunningError):
            await waiting
        with pytest.raises(SandboxNotRunningError):
            await client.open_process(box.id, "sleep 60")
        with pytest.raises(BrokenPipeError):
            await process.write_stdin(b"late")
        await process.aclose()


async def test_a_timeout_keeps_the_output_and_leaves_nothing(client: AsyncSandboxClient) -> None:
    """The error has what was written; the group is gone."""
    async with client.sandbox(request()) as box:
        with pytest.raises(CommandTimeoutError) as caught:
            await client.execute_command(box.id, "echo step 1; sleep 33 & sleep 33", timeout=1)
        assert caught.value.stdout == "step 1\n"
        done = await client.execute_command(box.id, "pgrep -c -f '[s]leep 33'")
        assert done.stdout == "0\n"


async def test_memory_beyond_the_limit_ends_the_sandbox_as_such(
    client: AsyncSandboxClient,
) -> None:
    """The command that did it learns why."""
    async with client.sandbox(request(memory_gb=0.1)) as box:
        hog = "python3 -c 'x = bytearray(400_000_000); print(len(x))'"
        with pytest.raises(SandboxNotRunningError) as caught:
            await client.execute_command(box.id, hog, timeout=60)
        assert caught.value.error_type == "OOM_KILLED"
        found = await client.get(box.id)
        assert (found.status, found.termination_reason) == ("ERROR", "OOM_KILLED")


_HELD = """
import asyncio, sys
from prime_async.sandboxes import AsyncSandboxClient, CreateSandboxRequest
async def main():
    async with AsyncSandboxClient() as client:
        request = CreateSandboxRequest(name="held", docker_image="ubuntu:1")
        async with client.sandbox(request) as box:
            print(box.id, flush=True)
            await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_client_that_is_told_to_end_takes_its_sandbox_along(
    platform: RunningPlatform, client: AsyncSandboxClient, number: signal.Signals
) -> None:
    """At once, not by the lease."""
    env = {**os.environ, "PRIME_API_KEY": KEY, "PRIME_API_BASE_URL": platform.url}
    process = await anyio.open_process(
        [sys.executable, "-c", _HELD], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        with anyio.fail_after(60):
            box = (await process.stdout.receive()).decode().strip()
            process.send_signal(number)
            await process.wait()
        assert (await client.get(box)).status == "TERMINATED"
    finally:
        if process.returncode is None:
            process.kill()
        await process.aclose()
