"""One scenario each, through the async client and the sync one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from prime_async import CommandTimeoutError, CreateSandboxRequest, OutputLine, UsageError
from tests.faces import Face, both_faces
from tests.sandbox_double import SandboxDouble

REQUEST = CreateSandboxRequest(name="x", docker_image="python:3.11")


@both_faces
async def test_a_sandbox_from_start_to_end(
    face: Face, double: SandboxDouble, tmp_path: Path
) -> None:
    """Make, wait, run, move files, list, end."""
    async with face.AsyncSandboxClient("key", base_url=double.url) as client:
        async with client.sandbox(REQUEST) as box:
            result = await client.execute_command(box.id, "echo out; echo err >&2; exit 2")
            assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 2)
            (tmp_path / "f").write_bytes(b"abc")
            await client.upload_file(box.id, str(double.folder / "f"), tmp_path / "f")
            await client.download_file(box.id, str(double.folder / "f"), tmp_path / "g")
            assert (tmp_path / "g").read_bytes() == b"abc"
            assert [entry.name for entry in await client.list_files(box.id, str(double.folder))]
            found = [one.id async for one in client.iter_sandboxes()]
            assert found == [box.id]
        with pytest.raises(UsageError):
            await client.bulk_delete()
    assert double.live == []


@both_faces
async def test_lines_come_while_the_command_runs(face: Face, double: SandboxDouble) -> None:
    """In a block, and through a callback."""
    async with face.AsyncSandboxClient("key", base_url=double.url) as client:
        box = await client.create(REQUEST)
        async with client.stream_command(box.id, "for i in 1 2 3; do echo $i; done; exit 4") as run:
            assert [line.text async for line in run] == ["1", "2", "3"]
            assert run.result.exit_code == 4
        heard: list[OutputLine] = []
        await client.execute_command(box.id, "printf 'a\\nb'; printf c >&2", output=heard.append)
        assert {(line.stream, line.text, line.complete) for line in heard} == {
            ("stdout", "a", True),
            ("stdout", "b", False),
            ("stderr", "c", False),
        }


@both_faces
async def test_leaving_the_block_ends_the_command(face: Face, double: SandboxDouble) -> None:
    """With everything it started."""
    async with face.AsyncSandboxClient("key", base_url=double.url) as client:
        box = await client.create(REQUEST)
        async with client.stream_command(box.id, "while :; do echo x; sleep 0.01; done") as run:
            async for _ in run:
                break
        async with asyncio.timeout(5):
            while [running.over for running in double.running.values()] == [None]:
                await asyncio.sleep(0.01)


@both_faces
async def test_processes_on_both_faces(face: Face, double: SandboxDouble) -> None:
    """Input, output, signals, re-attaching: the sync face has them too."""
    async with face.AsyncSandboxClient("key", base_url=double.url) as client:
        box = await client.create(REQUEST)
        async with await client.open_process(box.id, "cat; exit 5") as process:
            await process.write_stdin(b"hello")
            await process.close_stdin()
            assert [piece async for piece in process.stdout] == [b"hello"]
            assert await process.wait() == process.returncode == 5
        async with await client.open_process(box.id, "sleep 60") as process:
            again = await client.attach_process(box.id, process.session_id)
            await again.terminate()
            assert await again.wait(timeout=5) == -15


@both_faces
async def test_timeouts_carry_what_was_written(face: Face, double: SandboxDouble) -> None:
    """The error is the same object's on both faces."""
    async with face.AsyncSandboxClient("key", base_url=double.url) as client:
        box = await client.create(REQUEST)
        with pytest.raises(CommandTimeoutError) as caught:
            await client.execute_command(box.id, "echo so far; sleep 60", timeout=0.5)
        assert caught.value.stdout == "so far\n"


@both_faces
async def test_containers_work_without_being_told(face: Face, double: SandboxDouble) -> None:
    """A sandbox of another client that turns out to be a container: the other path is taken."""
    double.containers = True
    async with face.AsyncSandboxClient("key", base_url=double.url) as client:
        box = await client.create(REQUEST)
        assert box.vm is False
    async with face.AsyncSandboxClient("key", base_url=double.url) as client:
        result = await client.execute_command(box.id, "echo $A; exit 3", env={"A": "b"})
        assert (result.stdout, result.exit_code) == ("b\n", 3)
        async with client.stream_command(box.id, "echo one; echo two") as run:
            assert [line.text async for line in run] == ["one", "two"]
    assert len(double.requests("POST", "/Start")) == 1
