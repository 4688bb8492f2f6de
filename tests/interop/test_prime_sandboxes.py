"""The official ``prime-sandboxes``, unmodified, against the embedded platform: sync and async.

Needs a machine that lets sandboxes have namespaces of their own.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prime_sandboxes import (
    APIClient,
    APIError,
    AsyncSandboxClient,
    CommandTimeoutError,
    CreateSandboxRequest,
    SandboxClient,
    SandboxFileNotFoundError,
    SandboxImagePullError,
    SandboxNotRunningError,
)

from tests.platform import KEY, ProcessPlatform
from tests.server.sandboxes.usable import needs_bubblewrap

pytestmark = needs_bubblewrap


class Official:
    """Both official clients behind one calling convention."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._loop = asyncio.new_event_loop()
        self._client: Any = SandboxClient(APIClient()) if kind == "sync" else self.run(self._make)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return lambda *args, **kwargs: self.run(lambda: method(*args, **kwargs))

    async def _make(self) -> AsyncSandboxClient:
        return AsyncSandboxClient()

    def run(self, call: Any) -> Any:
        if self.kind == "sync":
            return call()

        async def main() -> Any:
            result = call()
            return await result if inspect.isawaitable(result) else result

        return self._loop.run_until_complete(main())

    def close(self) -> None:
        if self.kind == "async":
            self.run(self._client.aclose)
        else:
            # The official sync client has no close of its own.
            self._client.client.client.close()
        self._loop.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPlatform]:
    """A platform in a process of its own for all tests here; it leaves no sandbox behind."""
    with ProcessPlatform(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture
def platform(served: ProcessPlatform, monkeypatch: pytest.MonkeyPatch) -> ProcessPlatform:
    """The variables that point at it."""
    monkeypatch.setenv("PRIME_API_KEY", KEY)
    monkeypatch.setenv("PRIME_API_BASE_URL", served.url)
    return served


@pytest.fixture(scope="module")
def shared_box(served: ProcessPlatform) -> str:
    """A sandbox for tests that leave nothing running in it and ask for nothing of their own."""
    headers = {"headers": served.headers, "base_url": served.api}
    with httpx.Client(**headers, timeout=60) as client:
        body = {"name": "interop", "docker_image": "python:3.11", "vm": True}
        box: str = client.post("/sandbox", json=body).json()["id"]
        while client.get(f"/sandbox/{box}").json()["status"] != "RUNNING":
            time.sleep(0.05)
    return box


@pytest.fixture(params=["sync", "async"])
def official(request: pytest.FixtureRequest, platform: ProcessPlatform) -> Iterator[Official]:
    """The official client, once sync and once async."""
    client = Official(request.param)
    yield client
    client.close()


sync_by_default = pytest.mark.parametrize(
    "official", ["sync", pytest.param("async", marks=pytest.mark.slow)], indirect=True
)
"""For what is heavy, and the same to the server whichever client asks."""


def request(**fields: Any) -> CreateSandboxRequest:
    return CreateSandboxRequest(**{"name": "interop", "docker_image": "python:3.11", **fields})


def ready(official: Official, **fields: Any) -> str:
    made = official.create(request(**fields))
    official.wait_for_creation(made.id)
    sandbox_id: str = made.id
    return sandbox_id


def test_the_life_of_a_sandbox(official: Official) -> None:
    """Create, wait, find, statuses, logs, delete; the record echoes the request."""
    made = official.create(
        request(
            cpu_cores=4,
            memory_gb=16,
            timeout_minutes=1440,
            labels=["interop-life"],
            environment_vars={"A": "1"},
            secrets={"S": "hush"},
            network_allowlist=["pypi.org"],
        )
    )
    official.wait_for_creation(made.id)
    found = official.get(made.id)
    assert (found.status, found.vm, found.timeout_minutes) == ("RUNNING", True, 1440)
    assert (found.cpu_cores, found.memory_gb) == (4.0, 16.0)
    assert found.secrets == {"S": "***"}
    assert found.network_allowlist == ["pypi.org"]
    listed = official.list(labels=["interop-life"], exclude_terminated=True)
    assert [one.id for one in listed.sandboxes] == [made.id]
    statuses = official.get_sandbox_statuses([made.id, "nothing"])
    assert [one.status.value for one in statuses.statuses] == ["RUNNING"]
    assert [one.code for one in statuses.errors] == ["NOT_FOUND"]
    assert isinstance(official.get_logs(made.id), str)
    official.delete(made.id)
    assert official.get(made.id).status == "TERMINATED"
    with pytest.raises(SandboxNotRunningError):
        official.execute_command(made.id, "true")


def test_commands(official: Official) -> None:
    """Working directory, environment, exit codes, both outputs, pipes, secrets."""
    box = ready(official, environment_vars={"A": "from the box"}, secrets={"S": "hush"})
    done = official.execute_command(box, "pwd; echo $A $S; echo err >&2; exit 3")
    assert done.stdout == "/app\nfrom the box hush\n"
    assert (done.stderr, done.exit_code) == ("err\n", 3)
    there = official.execute_command(
        box, "pwd; echo $B", working_dir="/tmp", env={"B": "it's; $(x)"}
    )
    assert there.stdout == "/tmp\nit's; $(x)\n"
    assert official.execute_command(box, "nonsense-command").exit_code == 127
    assert official.execute_command(box, "seq 3 | wc -l").stdout.strip() == "3"
    assert official.execute_command(box, "python -c 'import ssl; print(1)'").stdout == "1\n"


@sync_by_default
def test_fifty_megabytes_of_output(official: Official, shared_box: str) -> None:
    """All of it, in order."""
    box = shared_box
    done = official.execute_command(box, "yes 0123456789abcde | head -c 50000000")
    assert len(done.stdout) == 50_000_000
    assert done.stdout == ("0123456789abcde\n" * 3_125_000)


def test_a_command_that_does_not_end_in_time(official: Official, shared_box: str) -> None:
    """A typed error within a second of its time, and nothing left in the sandbox."""
    box = shared_box
    began = time.monotonic()
    with pytest.raises(CommandTimeoutError, match="timed out"):
        official.execute_command(box, "sleep 31 & sleep 31; wait", timeout=1)
    assert time.monotonic() - began < 5
    deadline = time.monotonic() + 10
    while official.execute_command(box, "pgrep -c -f '[s]leep 31'").stdout.strip() != "0":
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_files(official: Official, shared_box: str, tmp_path: Path) -> None:
    """Text and bytes both ways; windows; what is missing."""
    box = shared_box
    local = tmp_path / "naïve é.bin"
    data = os.urandom(3_000_000)
    local.write_bytes(data)
    sent = official.upload_file(box, "/app/deep/naïve é.bin", str(local))
    assert (sent.success, sent.path, sent.size) == (True, "/app/deep/naïve é.bin", len(data))
    back = tmp_path / "back" / "f"
    official.download_file(box, "/app/deep/naïve é.bin", str(back))
    assert back.read_bytes() == data
    official.upload_bytes(box, "/tmp/x.json", json.dumps({"a": 1}).encode(), "x.json")
    assert official.execute_command(box, "cat /tmp/x.json").stdout == '{"a": 1}'
    window = official.read_file(box, "/tmp/x.json", offset=-3, length=2)
    assert (window.content, window.total_size, window.offset) == (" 1", 8, 5)
    with pytest.raises(SandboxFileNotFoundError):
        official.read_file(box, "/tmp/missing")
    with pytest.raises(APIError):
        official.download_file(box, "/tmp/missing", str(tmp_path / "m"))


def test_unknown_images(official: Official) -> None:
    """The wait ends with the official client's own error for it."""
    made = official.create(request(docker_image="acme/unknown:1"))
    with pytest.raises(SandboxImagePullError, match="catalogue"):
        official.wait_for_creation(made.id)


@sync_by_default
def test_many_at_once(official: Official) -> None:
    """Bulk wait and bulk delete, by ids and by labels."""
    made = [official.create(request(labels=["interop-bulk"])).id for _ in range(5)]
    assert set(official.bulk_wait_for_creation(made).values()) == {"RUNNING"}
    gone = official.bulk_delete(sandbox_ids=made[:2])
    assert sorted(gone.succeeded) == sorted(made[:2])
    gone = official.bulk_delete(labels=["interop-bulk"])
    assert sorted(gone.succeeded) == sorted(made[2:])


def test_background_jobs_go_on(official: Official, shared_box: str) -> None:
    """The launch returns at once; the job's end is found by its files."""
    box = shared_box
    began = time.monotonic()
    job = official.start_background_job(box, "sleep 1; echo done; exit 5")
    assert time.monotonic() - began < 5
    deadline = time.monotonic() + 20
    while not (status := official.get_background_job(box, job)).completed:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert (status.exit_code, status.stdout) == (5, "done\n")


def test_the_network_policy(official: Official) -> None:
    """Read, replaced, closed and opened."""
    box = ready(official)
    assert official.get_network(box).applied
    changed = official.set_network(box, deny=["*"])
    assert (changed.policy.allowlist, changed.generation, changed.applied) == ([], 1, True)
    assert official.set_network(box, allow=["*"]).policy.denylist == []


async def test_processes(platform: ProcessPlatform) -> None:
    """Input, output as it is written, signals, exit codes, many at once."""
    async with AsyncSandboxClient() as client:
        made = await client.create(request())
        await client.wait_for_creation(made.id)
        process = await client.open_process(made.id, "while read x; do echo got $x; done")
        for number in range(20):
            await process.write_stdin(f"{number}\n".encode())
        seen = b""
        async for chunk in process.stdout:
            seen += chunk
            if seen.endswith(b"got 19\n"):
                break
        assert seen.split(b"\n")[:-1] == [b"got %d" % number for number in range(20)]
        await process.terminate()
        assert await process.wait() == 128 + signal.SIGTERM
        killed = await client.open_process(made.id, "trap '' TERM; echo up; sleep 60")
        async for _ in killed.stdout:
            break
        await killed.kill()
        assert await killed.wait() == 128 + signal.SIGKILL
        ended = await client.open_process(made.id, "exit 9")
        assert await ended.wait() == 9
        for one in (process, killed, ended):
            await one.aclose()


def test_a_server_that_is_killed_finds_its_sandboxes_again(
    platform: ProcessPlatform,
) -> None:
    """kill -9 with live sandboxes, a restart: all adopted, files and secrets intact."""
    client = SandboxClient(APIClient())
    made = [client.create(request(secrets={"S": "hush"})).id for _ in range(3)]
    client.bulk_wait_for_creation(made)
    for box in made:
        client.upload_bytes(box, "/app/f", box.encode(), "f")
        client.execute_command(box, "mkdir d && echo kept > d/g; (sleep 300 &)")
    platform.kill()
    platform.start()
    statuses = client.get_sandbox_statuses(made).statuses
    assert {one.status.value for one in statuses} == {"RUNNING"}
    for box in made:
        assert client.read_file(box, "/app/f").content == box
        done = client.execute_command(box, "cat d/g; echo $S; pgrep -c -f '[s]leep 300'")
        assert done.stdout == "kept\nhush\n1\n"
    gone = client.bulk_delete(sandbox_ids=made)
    assert len(gone.succeeded) == 3
    assert not any((platform.data_dir / "sandboxes" / box).exists() for box in made)
    client.client.client.close()


_ABANDONED = """
import asyncio, os, sys
from prime_async import AsyncAPIClient
async def main():
    async with AsyncAPIClient() as api:
        made = await api.post("/sandbox", json={
            "name": "abandoned", "docker_image": "ubuntu:1", "vm": True, "lease_seconds": 2})
        print(made["id"], flush=True)
        while True:
            await asyncio.sleep(0.5)
            await api.post(f"/sandbox/{made['id']}/lease", json={"seconds": 2})
asyncio.run(main())
"""


def test_a_client_that_is_killed_leaves_no_sandbox(platform: ProcessPlatform) -> None:
    """kill -9 of the client: its lease ends, and the sandbox with it."""
    with subprocess.Popen(
        [sys.executable, "-c", _ABANDONED], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        box = process.stdout.readline().strip()
        client = SandboxClient(APIClient())
        client.wait_for_creation(box)
        began = time.monotonic()
        while time.monotonic() - began < 3:
            assert client.get(box).status == "RUNNING"
            time.sleep(0.2)
        process.kill()
    deadline = time.monotonic() + 20
    while client.get(box).status == "RUNNING":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert client.get(box).termination_reason == "ABANDONED"
    client.client.client.close()
