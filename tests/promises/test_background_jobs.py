"""Promises B2 to B6 and B8: jobs that go on, asked for together, read within limits."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prime_async import (
    AsyncSandboxClient,
    BackgroundJob,
    BatchStatusUnsupportedError,
    CreateSandboxRequest,
    UsageError,
)
from prime_sync import SandboxClient
from tests.faces import Face, both_faces
from tests.job_double import JobDouble
from tests.platform import ProcessPlatform
from tests.server.sandboxes.usable import needs_bubblewrap

ROOT = Path(__file__).parents[2]
MIB = 2**20


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPlatform]:
    """An embedded platform in a process of its own."""
    with ProcessPlatform(tmp_path_factory.mktemp("platform")) as running:
        yield running


@pytest.fixture
def env(platform: ProcessPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment points at it."""
    monkeypatch.setenv("PRIME_API_KEY", platform.key)
    monkeypatch.setenv("PRIME_API_BASE_URL", platform.url)


@pytest.fixture
async def double(tmp_path: Path) -> AsyncIterator[JobDouble]:
    """A platform with jobs by the thousand, which counts what is asked for at a time."""
    async with JobDouble(tmp_path) as running:
        yield running


def request(vm: bool = True) -> CreateSandboxRequest:
    """A sandbox."""
    made = CreateSandboxRequest(name="jobs", docker_image="python:3.11")
    made.vm = vm
    return made


_START = """
import asyncio, sys
from prime_async import AsyncSandboxClient, CreateSandboxRequest

async def main():
    client = AsyncSandboxClient()
    request = CreateSandboxRequest(name="jobs", docker_image="python:3.11")
    request.vm = sys.argv[1] == "True"
    box = await client.create(request)
    await client.wait_for_creation(box.id)
    command = (
        "for i in 1 2 3 4; do echo line $i; done; until [ -e /tmp/go ]; do sleep 0.05; done; "
        "echo done >&2; exit 7"
    )
    job = await client.start_background_job(box.id, command)
    print(job.to_json(), flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@needs_bubblewrap
@pytest.mark.parametrize("vm", [True, False])
async def test_B2_a_job_outlives_the_client_that_started_it(env: None, vm: bool) -> None:
    """kill -9 while it runs: another process, which has the stored handle, gets the output."""
    process = subprocess.Popen(
        [sys.executable, "-c", _START, str(vm)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    stored = await asyncio.to_thread(process.stdout.readline)
    process.send_signal(signal.SIGKILL)
    assert await asyncio.to_thread(process.wait) == -signal.SIGKILL
    process.stdout.close()
    job = BackgroundJob.from_json(stored)
    async with AsyncSandboxClient() as client:
        going_on = await client.get_background_job(job.sandbox_id, job)
        assert (going_on.completed, going_on.exit_code) == (False, None)
        await client.execute_command(job.sandbox_id, "touch /tmp/go")
        (found,) = await client.wait_background_jobs([job])
        assert (found.completed, found.exit_code) == (True, 7)
        assert found.stdout == "line 1\nline 2\nline 3\nline 4\n"
        assert found.stderr == "done\n"
        await client.delete(job.sandbox_id)


@needs_bubblewrap
@both_faces
async def test_B3_B4_B5_jobs_are_polled_alone_and_together(face: Face, env: None) -> None:
    """In a virtual machine and in a container; together only in machines, and not read twice."""
    async with (
        face.AsyncSandboxClient() as client,
        client.sandbox(request()) as machine,
        client.sandbox(request(vm=False)) as container,
    ):
        jobs = {}
        for box in (machine, container):
            job = await client.start_background_job(
                box.id, 'cd /tmp; echo "$WHO" > file; cat file; exit 3', env={"WHO": "it's me"}
            )
            while not (found := await client.get_background_job(box.id, job)).completed:
                assert found.exit_code is None
            assert (found.stdout, found.stderr, found.exit_code) == ("it's me\n", "", 3)
            jobs[box.id] = job
        second = await client.start_background_job(machine.id, "sleep 60")
        found = await client.get_background_jobs([second, jobs[machine.id]])
        assert [(one.completed, one.exit_code) for one in found] == [(False, None), (True, 3)]
        assert found[1].stdout == "it's me\n"
        for call in (client.get_background_jobs, client.get_background_job_statuses):
            with pytest.raises(BatchStatusUnsupportedError, match=container.id):
                await call(list(jobs.values()))
        ended = await client.cancel_background_job(second)
        assert (ended.completed, ended.exit_code) == (True, 143)


async def test_B4_a_hundred_jobs_are_one_request(double: JobDouble) -> None:
    """Across sandboxes, in order; 101 are refused before anything is sent."""
    jobs = [double.job(f"sbx{n % 9}", code=n, stdout=b"%d" % n) for n in range(101)]
    async with AsyncSandboxClient(api_key="k", base_url=double.url) as client:
        with pytest.raises(ValueError, match="101"):
            await client.get_background_jobs(jobs)
        assert double.seen == []
        found = await client.get_background_jobs(jobs[:100])
    assert [(one.exit_code, one.stdout) for one in found] == [(n, str(n)) for n in range(100)]
    assert [len(batch) for batch in double.batches] == [100]


async def test_B5_statuses_alone_read_no_output(double: JobDouble) -> None:
    """One request, nothing else."""
    jobs = [double.job(code=n) for n in range(50)]
    async with AsyncSandboxClient(api_key="k", base_url=double.url) as client:
        found = await client.get_background_job_statuses(jobs)
    assert [one.exit_code for one in found] == list(range(50))
    assert [seen.path.rpartition("/")[2] for seen in double.seen] == ["status:batchGet"]


@both_faces
@pytest.mark.parametrize("limit", ["concurrency", "queue_size", "cache_bytes"])
def test_B6_limits_are_checked_at_construction(face: Face, limit: str) -> None:
    """A limit that is none is refused by its name."""
    name = f"background_job_output_{limit}"
    for bad in (-1, True, 1.5, "3"):
        with pytest.raises(UsageError, match=name) as caught:
            face.AsyncSandboxClient("key", **{name: bad})
        assert caught.value.field == name


@both_faces
async def test_B6_the_limits_hold_under_load(face: Face, double: JobDouble) -> None:
    """500 finished jobs under 3, 5 and 1 MiB: counted by the platform and by the client."""
    jobs = [
        double.job(f"sbx{n % 11}", code=0, stdout=os.urandom(900).hex().encode() * 4)
        for n in range(500)
    ]
    async with face.AsyncSandboxClient(
        "key",
        base_url=double.url,
        background_job_output_concurrency=3,
        background_job_output_queue_size=5,
        background_job_output_cache_bytes=MIB,
    ) as client:
        groups = [jobs[start : start + 100] for start in range(0, 500, 100)]
        answers = await asyncio.gather(*map(client.get_background_jobs, groups))
        again = await client.get_background_jobs(jobs[400:])
        stats = client.stats() if face.name == "async" else await client.stats()
    for job, found in zip(jobs, [one for answer in answers for one in answer], strict=True):
        told = double.jobs[job.sandbox_id, job.job_id].files[job.stdout_log_file]
        assert found.stdout == told.decode()
    assert [one.stdout for one in again] == [one.stdout for one in answers[4]]
    assert double.jobs_reading_most <= 3
    assert double.reading_most <= 3
    assert stats.readers_high_water == 3
    assert stats.queue_high_water == 5
    assert MIB / 2 < stats.bytes_held_high_water <= MIB
    assert stats.cache_hits > 0


@needs_bubblewrap
async def test_B6_the_limits_hold_in_real_sandboxes(env: None) -> None:
    """Twenty real jobs, read two at a time."""
    async with (
        AsyncSandboxClient(
            background_job_output_concurrency=2,
            background_job_output_queue_size=3,
            background_job_output_cache_bytes=10_000,
        ) as client,
        client.sandbox(request()) as box,
    ):
        start = client.start_background_job
        jobs = [await start(box.id, f"seq {n} {n + 400}; exit {n}") for n in range(20)]
        found = await client.wait_background_jobs(jobs)
        stats = client.stats()
    for n, status in enumerate(found):
        assert status.exit_code == n
        assert status.stdout == "".join(f"{number}\n" for number in range(n, n + 401))
    assert (stats.readers_high_water, stats.queue_high_water <= 3) == (2, True)
    assert 0 < stats.bytes_held_high_water <= 10_000


async def test_B8_one_poller_serves_all_who_wait(double: JobDouble) -> None:
    """300 tasks, each with its job: three requests a round, and rounds that get rarer."""
    jobs = [double.job(f"sbx{n % 5}") for n in range(300)]
    async with AsyncSandboxClient(api_key="k", base_url=double.url) as client:
        tasks = [asyncio.create_task(client.wait_background_jobs([job])) for job in jobs]
        async with asyncio.timeout(30):
            while len(double.batches) < 15:
                await asyncio.sleep(0.01)
        looks = Counter(key for batch in double.batches for key in batch)
        assert len(double.batches) <= 3 * max(looks.values())
        for job in jobs:
            double.finish(job, 5)
        found = await asyncio.gather(*tasks)
    assert {status.exit_code for (status,) in found} == {5}
    times = [seen.time for seen in double.requests("POST", "status:batchGet")]
    assert times[14] - times[9] > times[5] - times[0]


async def test_B8_threads_share_the_poller_too(double: JobDouble) -> None:
    """30 threads of plain code, each with its job: one request a round."""
    jobs = [double.job(f"sbx{n % 5}") for n in range(30)]
    client = SandboxClient(api_key="k", base_url=double.url)
    with ThreadPoolExecutor(len(jobs)) as pool:
        waits = [pool.submit(client.wait_background_jobs, [job]) for job in jobs]
        looks: Counter[tuple[str, str]] = Counter()
        async with asyncio.timeout(30):
            while len(looks) < len(jobs) or len(double.batches) < 8:
                await asyncio.sleep(0.01)
                looks = Counter(key for batch in double.batches for key in batch)
        first_looks = len(jobs)  # a thread may come too late for the round of the others
        assert len(double.batches) <= first_looks + max(looks.values())
        assert max(len(batch) for batch in double.batches) > len(jobs) / 2
        for job in jobs:
            double.finish(job, 5)
        found = await asyncio.gather(*map(asyncio.wrap_future, waits))
    assert {status.exit_code for (status,) in found} == {5}
    await asyncio.to_thread(client.close)
