"""Promises B1 and B7: sandboxes are made, waited for and used; files go in and out."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faces import Face, both_faces
from tests.platform import RunningPlatform, running_platform
from tests.server.sandboxes.usable import needs_bubblewrap

pytestmark = [needs_bubblewrap, both_faces]


@pytest.fixture
async def platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningPlatform]:
    """An embedded platform that the environment points at."""
    async with running_platform(tmp_path) as running:
        monkeypatch.setenv("PRIME_API_KEY", running.key)
        monkeypatch.setenv("PRIME_API_BASE_URL", running.url)
        yield running


async def test_B1_a_large_sandbox_is_made_waited_for_and_used(
    face: Face, platform: RunningPlatform
) -> None:
    """24 hours, 4 CPUs, 16 GB: accepted everywhere, clipped to the host with a note."""
    from prime_async import CreateSandboxRequest

    request = CreateSandboxRequest(
        name="large",
        docker_image="python:3.11",
        timeout_minutes=1440,
        cpu_cores=4,
        memory_gb=16,
    )
    async with face.AsyncSandboxClient() as client:
        sandbox = await client.create(request)
        await client.wait_for_creation(sandbox.id)
        record = await client.get(sandbox.id)
        asked = (record.timeout_minutes, record.cpu_cores, record.memory_gb)
        assert (record.status, *asked) == ("RUNNING", 1440, 4, 16)
        assert record.vm is True
        if os.cpu_count() in (1, 2, 3):
            assert any("4" in note for note in record["notes"]), record["notes"]
        answer = await client.execute_command(sandbox.id, "echo $((6 * 7))")
        assert (answer.stdout, answer.exit_code) == ("42\n", 0)
        await client.delete(sandbox.id)
        request.timeout_minutes, request.cpu_cores, request.memory_gb = 50_000, 96, 1024
        huge = await client.create(request)
        assert huge.timeout_minutes == 50_000, "no cap in the client"
        await client.delete(huge.id)


async def test_B1_the_defaults_are_the_official_ones(face: Face, platform: RunningPlatform) -> None:
    """60 minutes, 1 CPU, 1 GB, a virtual machine; `vm=False` makes a container."""
    from prime_async import CreateSandboxRequest

    async with face.AsyncSandboxClient() as client:
        for vm in (True, False):
            request = CreateSandboxRequest(name="plain", docker_image="ubuntu:24.04")
            request.vm = vm
            async with client.sandbox(request) as box:
                size = (box.timeout_minutes, box.cpu_cores, box.memory_gb, box.vm)
                assert size == (60, 1, 1, vm)
                answer = await client.execute_command(box.id, "echo out; echo err >&2; exit 3")
                assert (answer.stdout, answer.stderr, answer.exit_code) == ("out\n", "err\n", 3)
        assert (await client.list(exclude_terminated=True)).sandboxes == []


async def test_B7_files_go_in_and_out(
    face: Face, platform: RunningPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files, bytes, windows, lists and folders, each equal to what was sent."""
    from prime_async import CreateSandboxRequest

    monkeypatch.chdir(tmp_path)
    weights = os.urandom(3 << 20)
    Path("weights.pt").write_bytes(weights)
    request = CreateSandboxRequest(name="files", docker_image="python:3.11")
    async with face.AsyncSandboxClient() as client, client.sandbox(request) as box:
        sent = await client.upload_file(box.id, "/app/model.pt", "weights.pt", verify=True)
        assert (sent.path, sent.size) == ("/app/model.pt", len(weights))
        await client.download_file(box.id, "/app/model.pt", "./model.pt", verify=True)
        assert Path("model.pt").read_bytes() == weights
        await client.upload_bytes(box.id, "/app/sub/note.txt", b"line 1\nline 2\n")
        tail = await client.read_file(box.id, "/app/sub/note.txt", offset=-7)
        assert tail.content == "line 2\n"
        listed = await client.list_files(box.id, "/app", recursive=True)
        names = ["/app/model.pt", "/app/sub", "/app/sub/note.txt"]
        assert [entry.path for entry in listed] == names
        await client.download_tree(box.id, "/app", "tree")
        assert Path("tree/sub/note.txt").read_bytes() == b"line 1\nline 2\n"
        await client.upload_tree(box.id, "/workspace/copy", "tree")
        same = await client.execute_command(box.id, "diff -r /app /workspace/copy && echo same")
        assert same.stdout == "same\n", same
