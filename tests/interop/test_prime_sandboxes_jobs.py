"""The official ``prime-sandboxes``, unmodified, against the embedded platform: background jobs,
checkpoints, volumes, egress; sync and async.

Needs a machine that lets sandboxes have namespaces of their own.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prime_sandboxes import (
    APIClient,
    APIError,
    AsyncSandboxClient,
    BatchStatusUnsupportedError,
    CommandTimeoutError,
    CreateSandboxRequest,
    SandboxClient,
    VolumeMount,
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

    def volume(self, name: str) -> Any:
        """A method of the client of volumes."""
        method = getattr(self._client.volumes, name)
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


@pytest.fixture(params=["sync", "async"])
def official(request: pytest.FixtureRequest, platform: ProcessPlatform) -> Iterator[Official]:
    """The official clients, once sync and once async."""
    client = Official(request.param)
    yield client
    client.close()


sync_by_default = pytest.mark.parametrize(
    "official", ["sync", pytest.param("async", marks=pytest.mark.slow)], indirect=True
)
"""For what is heavy, and the same to the server whichever client asks."""


def ready(official: Official, **fields: Any) -> str:
    """A sandbox that runs."""
    image = {} if "checkpoint_id" in fields else {"docker_image": "python:3.11"}
    request = CreateSandboxRequest(name="interop-jobs", **{**image, **fields})
    made = official.create(request)
    official.wait_for_creation(made.id)
    sandbox_id: str = made.id
    return sandbox_id


def until(condition: Any, seconds: float = 30) -> Any:
    """Ask until the answer is something."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def batches(platform: ProcessPlatform) -> int:
    """How many batch requests for jobs the platform has answered."""
    text = httpx.get(f"{platform.url}/metrics", headers=platform.headers).text
    lines = [one for one in text.splitlines() if "background-jobs/status:batchGet" in one]
    counts = [one for one in lines if one.startswith("prime_async_requests_total")]
    return sum(int(float(one.rpartition(" ")[2])) for one in counts)


@sync_by_default
def test_a_hundred_jobs_across_sandboxes_in_one_request(
    official: Official, platform: ProcessPlatform
) -> None:
    """All statuses in the order asked for, all outputs exact, one request for each poll."""
    boxes = [ready(official) for _ in range(4)]
    jobs = []
    for number in range(100):
        box = boxes[number % len(boxes)]
        command = f"echo out {number}; echo err {number} >&2; exit {number % 7}"
        jobs.append(official.start_background_job(box, command))
    before = batches(platform)
    polls = 1
    while not all(one.completed for one in official.get_background_job_statuses(jobs)):
        polls += 1
    assert batches(platform) == before + polls
    # The official sync client opens a connection for each output, which takes its time.
    step = 1 if official.kind == "async" else 10
    done = official.get_background_jobs(jobs[::step])
    numbers = range(0, 100, step)
    assert [one.job_id for one in done] == [jobs[number].job_id for number in numbers]
    assert [one.exit_code for one in done] == [number % 7 for number in numbers]
    assert [one.stdout for one in done] == [f"out {number}\n" for number in numbers]
    assert [one.stderr for one in done] == [f"err {number}\n" for number in numbers]
    assert not any(one.stdout_truncated for one in done)


def test_one_job_from_start_to_end(official: Official) -> None:
    """Run with an environment and a folder, time out, poll; one that is killed is lost."""
    box = ready(official)
    done = official.run_background_job(
        box, "echo $A; pwd; exit 3", env={"A": "it's $x"}, working_dir="/tmp"
    )
    assert (done.exit_code, done.stdout) == (3, "it's $x\n/tmp\n")
    with pytest.raises(CommandTimeoutError):
        official.run_background_job(box, "sleep 30", timeout=1, poll_interval=1)
    job = official.start_background_job(box, "sleep 60")
    assert not official.get_background_job_status(box, job).completed
    official.execute_command(box, f"kill -9 $(cat /tmp/job_{job.job_id}.launch/pid)")
    with pytest.raises(APIError, match="is lost"):
        until(lambda: official.get_background_job_statuses([job])[0].completed)


def test_jobs_that_the_batch_cannot_tell_of(official: Official) -> None:
    """A container's is refused for what it is; an ended sandbox's by its code."""
    box, gone = ready(official), ready(official)
    jobs = [official.start_background_job(one, "true") for one in (box, gone)]
    official.delete(gone)
    with pytest.raises(APIError, match="has ended"):
        official.get_background_job_statuses(jobs)
    # The official client of today makes no containers: this one is made by hand.
    api = APIClient()
    body = {"name": "c", "docker_image": "ubuntu:1", "vm": False}
    made = api.request("POST", "/sandbox", json=body)
    api.client.close()
    container = jobs[0].model_copy(update={"sandbox_id": made["id"]})
    with pytest.raises(BatchStatusUnsupportedError):
        official.get_background_job_statuses([jobs[0], container])


@sync_by_default
def test_ten_mebibytes_of_output(official: Official) -> None:
    """The last 10 MiB of more, marked as cut; all of less."""
    box = ready(official)
    job = official.start_background_job(
        box, "yes 0123456789abcde | head -c 12000000; yes x | head -c 99 >&2"
    )
    done = until(lambda: (one := official.get_background_job(box, job)).completed and one)
    whole = "0123456789abcde\n" * 750_000
    assert (done.stdout, done.stdout_truncated) == (whole[-10 * 1024 * 1024 :], True)
    assert (len(done.stderr), done.stderr_truncated) == (99, False)


@sync_by_default
def test_checkpoints(official: Official) -> None:
    """Create, wait, list, get, restore, delete; what is in use stays."""
    box = ready(official, disk_size_gb=3.0)
    official.execute_command(box, "mkdir -p /app/d; echo one > /app/d/f; ln -s d/f /app/l")
    first = official.checkpoint(box)
    assert first.state == "PENDING"
    first = official.wait_for_checkpoint(first.id)
    assert (first.state, first.depth, first.disk_size_bytes) == ("DURABLE", 0, 3 * 1024**3)
    official.execute_command(box, "echo two > /app/d/f")
    second = official.wait_for_checkpoint(official.checkpoint(box).id)
    assert (second.parent_id, second.depth) == (first.id, 1)
    assert [one.id for one in official.list_checkpoints(box)] == [first.id, second.id]
    assert official.get_checkpoint(second.id) == second
    many = official.get_checkpoints([second.id, "nothing", first.id])
    assert [one.id for one in many.checkpoints] == [second.id, first.id]
    assert [one.code for one in many.errors] == ["NOT_FOUND"]
    again = ready(official, checkpoint_id=first.id)
    assert official.execute_command(again, "cat /app/l").stdout == "one\n"
    restored = official.get(again)
    assert (restored.docker_image, restored.disk_size_gb) == ("python:3.11", 3.0)
    with pytest.raises(APIError, match="409"):
        official.delete_checkpoint(first.id)
    official.delete(again)
    gone = official.delete_sandbox_checkpoints(box)
    assert gone.deleted == [first.id]
    assert [(one.checkpoint_id, one.code) for one in gone.errors] == [(second.id, "CONFLICT")]
    official.delete(box)
    official.delete_checkpoint(second.id)
    with pytest.raises(APIError, match="404"):
        official.get_checkpoint(second.id)


@sync_by_default
def test_volumes(official: Official) -> None:
    """Create, mount, write, publish, list, read elsewhere, delete."""
    name = f"data of {official.kind}"
    made = official.volume("create")(name)
    assert (made.name, made.head_checkpoint_id) == (name, None)
    box = ready(official, volumes=[VolumeMount(name=name, mount_path="/data")])
    official.execute_command(box, "head -c 100000 /dev/urandom > /data/f; echo hi > /data/g")
    version = official.volume("publish")(box, name)
    assert version.state == "DURABLE"
    found = official.volume("get")(name)
    assert found.head_checkpoint_id == version.id
    assert found.occupied_bytes == version.occupied_bytes >= 100_000
    assert found.account_storage_limit_gb == 50
    listed = official.volume("list")()
    assert name in [one.name for one in listed.volumes]
    reading = VolumeMount(name=name, mount_path="/in", read_only=True)
    reader = ready(official, volumes=[reading])
    assert official.execute_command(reader, "cat /in/g; touch /in/x").stdout == "hi\n"
    with pytest.raises(APIError, match="400"):
        official.volume("publish")(reader, name)
    with pytest.raises(APIError, match="409"):
        official.volume("delete")(name)
    official.bulk_delete(sandbox_ids=[box, reader])
    official.volume("delete")(name)
    with pytest.raises(APIError, match="404"):
        official.volume("get")(name)


def test_the_egress_policy(official: Official) -> None:
    """Lists, all and nothing; every change is counted and in force."""
    box = ready(official, network_denylist=["10.0.0.0/8"])
    assert official.get_network(box).policy.denylist == ["10.0.0.0/8"]
    for number, change in enumerate(
        [{"allow": ["pypi.org", "*.example.com:443"]}, {"deny": ["*"]}, {"allow": ["*"]}], 1
    ):
        changed = official.set_network(box, **change)
        assert (changed.generation, changed.applied_generation) == (number, number)
        assert changed == official.get_network(box)
    assert (changed.policy.allowlist, changed.policy.denylist) == (None, [])
