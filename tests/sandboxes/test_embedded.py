"""The client against the embedded platform and real sandboxes, through both faces."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_async import (
    APIError,
    AsyncSandboxClient,
    CommandTimeoutError,
    CreateSandboxRequest,
    SandboxFileNotFoundError,
    SandboxImagePullError,
    partial_output,
)
from tests.faces import Face, both_faces
from tests.platform import KEY, ProcessPlatform
from tests.server.sandboxes.usable import needs_bubblewrap

pytestmark = needs_bubblewrap

REQUEST = CreateSandboxRequest(
    name="box", docker_image="python:3.11", cpu_cores=4, memory_gb=16, timeout_minutes=1440
)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPlatform]:
    """A platform in a process of its own, for all tests."""
    with ProcessPlatform(tmp_path_factory.mktemp("embedded")) as running:
        yield running


@both_faces
async def test_a_sandbox_from_start_to_end(
    face: Face, platform: ProcessPlatform, tmp_path: Path
) -> None:
    """Make, run, stream, move files and folders, read, list, end; as promised, 1440 minutes."""
    async with (
        face.AsyncSandboxClient(KEY, base_url=platform.url) as client,
        client.sandbox(REQUEST) as box,
    ):
        assert (box.status, box.timeout_minutes) == ("RUNNING", 1440)
        result = await client.execute_command(
            box.id, 'echo "$WHAT"; pwd; exit 3', working_dir="/tmp", env={"WHAT": "it's; $(x)"}
        )
        assert (result.stdout, result.exit_code) == ("it's; $(x)\n/tmp\n", 3)
        async with client.stream_command(box.id, "seq 3") as run:
            assert [line.text async for line in run] == ["1", "2", "3"]
        data = os.urandom(9 * 2**20)
        (tmp_path / "model.pt").write_bytes(data)
        await client.upload_file(box.id, "/app/mo del.pt", tmp_path / "model.pt", verify=True)
        await client.download_file(box.id, "/app/mo del.pt", tmp_path / "back", verify=True)
        assert (tmp_path / "back").read_bytes() == data
        await client.upload_bytes(box.id, "/app/text", b"hello world")
        assert (await client.read_file(box.id, "/app/text", offset=-5)).content == "world"
        names = [entry.name for entry in await client.list_files(box.id, "/app")]
        assert names == ["mo del.pt", "text"]
        await client.download_tree(box.id, "/app", tmp_path / "tree")
        sent = await client.upload_tree(box.id, "/app/again", tmp_path / "tree")
        assert (sent.files, sent.size) == (2, len(data) + 11)
        assert (await client.read_file(box.id, "/app/again/text")).content == "hello world"


@both_faces
async def test_processes_have_input_signals_and_terminals(
    face: Face, platform: ProcessPlatform
) -> None:
    """And can be left and found again."""
    async with (
        face.AsyncSandboxClient(KEY, base_url=platform.url) as client,
        client.sandbox(REQUEST) as box,
    ):
        async with await client.open_process(box.id, "wc -c; exit 5") as process:
            await process.write_stdin(b"x" * 300_000)
            await process.close_stdin()
            assert await process.wait(timeout=30) == 5
            assert await process.stdout.read() == b"300000\n"
        async with await client.open_process(box.id, "stty size; cat", pty=(80, 24)) as process:
            assert (await process.stdout.read()).strip() == b"24 80"
            await process.resize(100, 40)
            again = await client.attach_process(box.id, process.session_id)
            await again.terminate()
            assert await again.wait(timeout=30) in (143, -15)


@both_faces
async def test_wrong_uses_are_typed(face: Face, platform: ProcessPlatform, tmp_path: Path) -> None:
    """Missing files, folders in their place, unknown images, users and working folders."""
    async with (
        face.AsyncSandboxClient(KEY, base_url=platform.url) as client,
        client.sandbox(REQUEST) as box,
    ):
        with pytest.raises(SandboxFileNotFoundError):
            await client.read_file(box.id, "/app/nothing")
        with pytest.raises(SandboxFileNotFoundError):
            await client.list_files(box.id, "/nowhere")
        with pytest.raises(APIError, match="directory"):
            await client.download_file(box.id, "/app", tmp_path / "x")
        with pytest.raises(APIError, match="working_dir"):
            await client.execute_command(box.id, "true", working_dir="/nowhere")
        with pytest.raises(APIError, match="user"):
            await client.execute_command(box.id, "true", user="nobody-known")
        unknown = CreateSandboxRequest(name="x", docker_image="no/such:image")
        with pytest.raises(SandboxImagePullError):
            async with client.sandbox(unknown):
                pass
        assert [one.id async for one in client.iter_sandboxes(exclude_terminated=True)] == [box.id]


@both_faces
async def test_containers_take_the_other_path(face: Face, platform: ProcessPlatform) -> None:
    """`vm=False` is a container: commands over REST."""
    request = CreateSandboxRequest(name="c", docker_image="python:3.11", vm=False)
    async with (
        face.AsyncSandboxClient(KEY, base_url=platform.url) as client,
        client.sandbox(request) as box,
    ):
        assert box.vm is False
        result = await client.execute_command(box.id, "echo out; echo err >&2; exit 2")
        assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 2)


async def test_what_is_given_up_is_ended(platform: ProcessPlatform) -> None:
    """Out of time, or cancelled: the output is kept, and no process of the group is left."""
    async with (
        AsyncSandboxClient(KEY, base_url=platform.url) as client,
        client.sandbox(REQUEST) as box,
    ):
        command = "echo begun; sleep 1234 & sleep 1234; wait"
        with pytest.raises(CommandTimeoutError) as late:
            await client.execute_command(box.id, command, timeout=1)
        assert late.value.stdout == "begun\n"
        with pytest.raises(TimeoutError) as cancelled:
            async with asyncio.timeout(1):
                await client.execute_command(box.id, command)
        output = partial_output(cancelled.value)
        assert output is not None
        assert output.stdout == "begun\n"
        left = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep 123[4]' | wc -l"
        async with asyncio.timeout(10):
            while (await client.execute_command(box.id, left)).stdout.strip() != "0":
                await asyncio.sleep(0.1)


async def test_50_mb_of_output_stay_exact(platform: ProcessPlatform) -> None:
    """Whole by default, bounded where asked for."""
    async with (
        AsyncSandboxClient(KEY, base_url=platform.url) as client,
        client.sandbox(REQUEST) as box,
    ):
        command = "head -c 50000000 /dev/zero | tr '\\0' a"
        result = await client.execute_command(box.id, command)
        assert (len(result.stdout), result.truncated) == (50_000_000, False)
        result = await client.execute_command(box.id, command, max_output_bytes=1000)
        assert (result.stdout, result.stdout_size) == ("a" * 1000, 50_000_000)
