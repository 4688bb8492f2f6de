"""One poller for all who wait."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from prime_async import (
    APIError,
    AsyncSandboxClient,
    BackgroundJob,
    BackgroundJobsTimeoutError,
    BatchStatusUnsupportedError,
    SandboxNotFoundError,
    SandboxNotRunningError,
    SandboxOOMError,
)
from tests.faces import Face, both_faces
from tests.job_double import JobDouble
from tests.sandboxes.jobs.polling import until


def rounds(told: JobDouble) -> int:
    """How often the job was asked for that was asked for most often."""
    return max(Counter(key for batch in told.batches for key in batch).values(), default=0)


@pytest.mark.parametrize("count", [250, 1000])
async def test_a_round_takes_as_few_requests_as_can_hold_the_jobs(
    told: JobDouble, jobs_client: AsyncSandboxClient, count: int
) -> None:
    """A task for each job; a request for each hundred."""
    jobs = [told.job(f"sbx{n % 7}") for n in range(count)]
    tasks = [
        asyncio.create_task(jobs_client.wait_background_jobs([job], output=False)) for job in jobs
    ]
    await until(lambda: rounds(told) >= 4)
    assert len(told.batches) <= rounds(told) * -(-count // 100)
    for job in jobs:
        told.finish(job, 7)
    found = await asyncio.gather(*tasks)
    assert {status.exit_code for (status,) in found} == {7}
    stats = jobs_client.stats()
    assert stats.max_keys_per_batch == 100
    assert stats.batches == len(told.batches) == stats.requests


async def test_waiting_for_many_at_once_is_the_same(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """In their order, whatever order they end in; nothing is read when nothing is asked for."""
    jobs = [told.job(f"sbx{n % 3}", code=n) for n in range(230)]
    found = await jobs_client.wait_background_jobs(jobs, output=False)
    assert [status.exit_code for status in found] == list(range(230))
    assert len(told.batches) == 3
    assert told.reads == []


async def test_a_slow_request_holds_up_nobody_else(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """Only the jobs in it wait for it."""
    jobs = [told.job(code=0) for _ in range(300)]
    told.slow_jobs = {(jobs[150].sandbox_id, jobs[150].job_id)}
    ended = []
    stream = jobs_client.as_completed(jobs, output=False)
    async for status in stream:
        ended.append(status.job_id)
        if len(ended) == 200:
            break
    assert jobs[150].job_id not in ended
    told.gate.set()
    await stream.aclose()  # type: ignore[attr-defined]
    assert len(await jobs_client.wait_background_jobs(jobs, output=False)) == 300


async def test_those_who_ask_for_one_job_share_the_looks(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """Fifty waiters are one key."""
    job = told.job()
    tasks = [asyncio.create_task(jobs_client.wait_background_jobs([job])) for _ in range(50)]
    await until(lambda: len(told.batches) >= 2)
    assert {len(batch) for batch in told.batches} == {1}
    told.finish(job)
    assert len(await asyncio.gather(*tasks)) == 50
    assert len(told.reads) == 2


async def test_a_bad_job_is_an_error_of_its_own(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """Lost, in a sandbox that ended, in none at all: the others are told."""
    good, lost = told.job(code=5, stdout=b"out"), told.job(error="RUNTIME_ERROR")
    ended = told.job("sbx9", code=1)
    told.end("sbx9", errorType="OOM_KILLED")
    nowhere = BackgroundJob.of("none", "00000abc")
    jobs = [lost, good, ended, nowhere]
    codes = ["RUNTIME_ERROR", None, "NOT_RUNNING", "NOT_FOUND"]
    for call in (jobs_client.get_background_jobs, jobs_client.wait_background_jobs):
        found = await call(jobs)  # type: ignore[operator]
        assert [status.error_code for status in found] == codes
        assert [status.completed for status in found] == [False, True, False, False]
        assert found[1].stdout == "out"
        assert "sbx9" in found[2].error
    statuses = await jobs_client.get_background_job_statuses(jobs)
    assert [status.error_code for status in statuses] == codes
    with pytest.raises(SandboxOOMError):
        await jobs_client.get_background_job("sbx9", ended)
    with pytest.raises(SandboxNotFoundError):
        await jobs_client.get_background_job_status("none", nowhere)
    with pytest.raises(APIError, match="RUNTIME_ERROR") as caught:
        await jobs_client.get_background_job("sbx0", lost)
    assert caught.value.code == "RUNTIME_ERROR"


@both_faces
async def test_containers_have_the_same_calls_but_the_batch(face: Face, told: JobDouble) -> None:
    """A container among many is an error of the call; waiting takes both kinds."""
    machine, container = told.job(code=1), told.job("box", code=2, stdout=b"c", vm=False)
    async with face.AsyncSandboxClient("key", base_url=told.url) as client:
        for call in (client.get_background_jobs, client.get_background_job_statuses):
            with pytest.raises(BatchStatusUnsupportedError, match="box, a container"):
                await call([machine, container])
        asked = len(told.batches)
        with pytest.raises(BatchStatusUnsupportedError):
            await client.get_background_jobs([machine, container])
        assert len(told.batches) == asked, "what is known is refused before anything is sent"
    told.containers = True
    async with face.AsyncSandboxClient("key", base_url=told.url) as client:
        found = await client.wait_background_jobs([container, machine])
        assert [(status.exit_code, status.stdout) for status in found] == [(2, "c"), (1, "")]
        one = await client.get_background_job("box", container)
        assert (one.completed, one.exit_code, one.stdout) == (True, 2, "c")


async def test_a_stray_refusal_disables_nothing(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """One by one for a while, then together again."""
    jobs = [told.job(f"sbx{n % 2}") for n in range(10)]
    told.batch_refusals = 1
    waiting = asyncio.create_task(jobs_client.wait_background_jobs(jobs, output=False))
    await until(lambda: len(told.probes) >= 4)
    assert {len(probe) for probe in told.probes} == {5}, "one command per sandbox"
    assert len(told.batches) == 1
    await until(lambda: len(told.batches) >= 3)
    for job in jobs:
        told.finish(job, 3)
    assert {status.exit_code for status in await waiting} == {3}


async def test_the_batch_calls_do_without_the_batch(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """A platform without the request: a command in each sandbox."""
    told.batch_refusals = 99
    jobs = [told.job("sbx0", code=1), told.job("sbx1", code=2), told.job("sbx1")]
    found = await jobs_client.get_background_job_statuses(jobs)
    assert [status.exit_code for status in found] == [1, 2, None]
    assert sorted(map(len, told.probes)) == [1, 2]


async def test_passing_faults_are_waited_out(
    told: JobDouble, jobs_client: AsyncSandboxClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A platform that restarts ends no wait, which is said once; a single look says what is
    wrong."""
    job = told.job()
    told.batch_fault = 500
    waiting = asyncio.create_task(jobs_client.wait_background_jobs([job], output=False))
    await until(lambda: len(told.batches) >= 3)
    with pytest.raises(APIError, match="500"):
        await jobs_client.get_background_job_status("sbx0", job)
    told.batch_fault = None
    told.finish(job, 6)
    assert (await waiting)[0].exit_code == 6
    away, back = (record.getMessage() for record in caplog.records)
    assert away.startswith("the platform does not answer: ")
    assert away.endswith("; waiting for jobs goes on")
    assert back == "the platform answers again; waiting for jobs goes on"


async def test_a_wait_that_is_too_short_tells_what_it_knows(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """The statuses of those that have ended, the handles of the others."""
    done, running = told.job(code=0, stdout=b"yes"), told.job()
    with pytest.raises(BackgroundJobsTimeoutError, match="1 of 2 background jobs") as caught:
        await jobs_client.wait_background_jobs([running, done], timeout=0.5)
    assert [status.stdout for status in caught.value.statuses] == ["yes"]
    assert caught.value.pending == [running]
    assert isinstance(caught.value, TimeoutError)


@both_faces
async def test_as_completed_yields_what_ends_first(face: Face, told: JobDouble) -> None:
    """One by one, each with its output, until the time is over."""
    slow, fast = told.job(), told.job(code=1, stdout=b"fast")
    seen = []
    async with face.AsyncSandboxClient("key", base_url=told.url) as client:
        async for status in client.as_completed([slow, fast], timeout=20):
            seen.append((status.job_id, status.stdout))
            told.finish(slow, 0)
        with pytest.raises(BackgroundJobsTimeoutError) as caught:
            async for _ in client.as_completed([told.job()], timeout=0.3):
                pass
    assert seen == [(fast.job_id, "fast"), (slow.job_id, "")]
    assert len(caught.value.pending) == 1


async def test_nothing_is_polled_when_nobody_waits(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """Cancelled waiters leave nothing behind."""
    jobs = [told.job() for _ in range(20)]
    tasks = [asyncio.create_task(jobs_client.wait_background_jobs([job])) for job in jobs]
    await until(lambda: told.batches)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    looks = jobs_client._jobs.looks
    await until(lambda: not jobs_client._background._tasks)
    assert looks._slots == {}


async def test_closing_the_client_ends_the_waits(told: JobDouble) -> None:
    """With an error that says so."""
    client = AsyncSandboxClient(api_key="k", base_url=told.url)
    waiting = asyncio.create_task(client.get_background_job_status("sbx0", told.job()))
    told.slow_jobs = set(told.jobs)
    await until(lambda: told.batches)
    await client.aclose()
    with pytest.raises(APIError, match="closed"):
        await waiting


async def test_a_sandbox_that_ends_ends_the_wait(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """With the reason, for the job that is run."""
    job = told.job("sbx5")
    waiting = asyncio.create_task(jobs_client._jobs.until_completed(("sbx5", job.job_id)))
    await until(lambda: told.batches)
    told.end("sbx5", errorType="OOM_KILLED")
    with pytest.raises(SandboxNotRunningError):
        await waiting
