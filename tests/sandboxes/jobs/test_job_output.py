"""What jobs wrote: exact, bounded, shared, and never a silent loss."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_async import AsyncSandboxClient, SandboxTimeoutError
from prime_async.sandboxes.jobs.cache import OutputCache
from prime_async.sandboxes.jobs.turns import Turns
from prime_async.sandboxes.jobs.windows import StreamText
from tests.job_double import JobDouble
from tests.sandboxes.jobs.polling import until

MIB = 2**20
EMOJI = "☕👩‍👩‍👧é".encode()


@pytest.mark.parametrize("shift", range(4))
async def test_characters_that_windows_cut_are_whole(
    told: JobDouble, jobs_client: AsyncSandboxClient, shift: int
) -> None:
    """Wherever the cuts fall: the text is that of the bytes."""
    text = b"x" * shift + EMOJI * (2 * MIB // len(EMOJI))
    broken = b"\xff" + text + b"\xe2"
    job = told.job(code=0, stdout=text, stderr=broken)
    found = await jobs_client.get_background_job("sbx0", job)
    assert found.stdout == text.decode()
    assert found.stderr == broken.decode("utf-8", "replace")
    assert len([read for read in told.reads if read[2] > 100]) == 2 * 3


async def test_the_end_of_a_long_output_is_read_and_marked(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """The last 10 MiB, in windows of 1 MiB; a character cut at the beginning is left out."""
    line = "é" * 15 + "\n"
    data = (line * (11 * MIB // len(line.encode()))).encode() + b"?"
    job = told.job(code=0, stdout=data, stderr=b"\xc3" * 9)
    found = await jobs_client.get_background_job("sbx0", job)
    assert found.stdout is not None
    assert (found.stdout_truncated, found.stderr_truncated) == (True, False)
    assert data.decode().endswith(found.stdout)
    assert len(found.stdout.encode()) in (10 * MIB, 10 * MIB - 1)
    assert max(length for _, _, length in told.reads) == MIB
    assert found.stderr == "\ufffd" * 9


@pytest.mark.parametrize("extra", [-1, 0, 1])
async def test_the_limit_is_exact(
    told: JobDouble, jobs_client: AsyncSandboxClient, extra: int
) -> None:
    """10 MiB are whole, one byte more is cut and says so."""
    job = told.job(code=0, stdout=b"a" + b"b" * (10 * MIB - 1 + extra))
    found = await jobs_client.get_background_job("sbx0", job)
    assert found.stdout is not None
    assert (found.stdout[0], found.stdout_truncated) == (("b", True) if extra > 0 else ("a", False))
    assert len(found.stdout) == min(10 * MIB, 10 * MIB + extra)


async def test_a_gateway_without_windows_will_do(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """It gives the whole file, or refuses a large one, which is then streamed."""
    told.windows = False
    small, large = b"small", b"0123456789" * MIB + b"end"
    job = told.job(code=0, stdout=small, stderr=large)
    told.read_faults[job.stderr_log_file] = 413
    found = await jobs_client.get_background_job("sbx0", job)
    assert (found.stdout, found.stdout_truncated) == ("small", False)
    assert found.stderr == large[-10 * MIB :].decode()
    assert found.stderr_truncated


async def test_errors_belong_to_their_stream(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """One refused, one deleted: the other one is there."""
    refused, deleted = told.job(code=1, stdout=b"a"), told.job(code=2, stderr=b"b")
    told.read_faults[refused.stderr_log_file] = 403
    told.read_faults[deleted.stdout_log_file] = 404
    found = await jobs_client.get_background_jobs([refused, deleted])
    assert (found[0].stdout, found[0].stdout_error, found[0].stderr) == ("a", None, None)
    assert found[0].stderr_error is not None
    assert found[0].stderr_error.startswith("ForbiddenError: ")
    assert (found[1].stdout, found[1].stderr, found[1].exit_code) == ("", "b", 2)
    assert found[1].stdout_error is not None
    assert "SandboxFileNotFoundError: there is no file" in found[1].stdout_error
    assert [status.error_code for status in found] == [None, None]


async def test_a_sandbox_that_goes_meanwhile_is_told(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """The exit code stays on the status; alone it is an exception with the reason."""
    here, gone = told.job("sbx0", code=1, stdout=b"a"), told.job("sbx1", code=2)
    told.contexts["sbx1"] = {"status": "TERMINATED", "errorType": "TIMEOUT"}
    for path in (gone.stdout_log_file, gone.stderr_log_file):
        told.read_faults[path] = 410
    for call in (jobs_client.get_background_jobs, jobs_client.wait_background_jobs):
        found = await call([here, gone])  # type: ignore[operator]
        assert (found[0].stdout, found[0].error_code) == ("a", None)
        assert (found[1].exit_code, found[1].error_code) == (2, "NOT_RUNNING")
    with pytest.raises(SandboxTimeoutError):
        await jobs_client.get_background_job("sbx1", gone)


async def test_closing_the_client_ends_the_readings(told: JobDouble) -> None:
    """With an error on each stream."""
    client = AsyncSandboxClient(api_key="k", base_url=told.url)
    told.read_gate.clear()
    waiting = asyncio.create_task(client.get_background_jobs([told.job(code=3)]))
    await until(lambda: told.reading)
    await client.aclose()
    (found,) = await waiting
    assert found.exit_code == 3
    assert "closed" in (found.error or "")


async def test_waiters_share_a_reading(told: JobDouble, jobs_client: AsyncSandboxClient) -> None:
    """Both streams at the same time, once for all; afterwards they are kept."""
    job = told.job(code=0, stdout=b"o", stderr=b"e")
    told.read_gate.clear()
    tasks = [asyncio.create_task(jobs_client.get_background_job("sbx0", job)) for _ in range(20)]
    await until(lambda: len(told.reading) == 2)
    told.read_gate.set()
    found = await asyncio.gather(*tasks)
    assert {(status.stdout, status.stderr) for status in found} == {("o", "e")}
    assert (await jobs_client.get_background_job("sbx0", job)).stdout == "o"
    assert len(told.reads) == 2
    stats = jobs_client.stats()
    assert (stats.cache_hits, stats.cache_misses) == (2, 2)
    assert stats.bytes_held == 2 * (1 + 128)


async def test_the_last_waiter_to_leave_ends_the_reading(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """What nobody waits for is not read."""
    job = told.job(code=0)
    told.read_gate.clear()
    tasks = [asyncio.create_task(jobs_client.get_background_job("sbx0", job)) for _ in range(3)]
    await until(lambda: len(told.reading) == 2)
    for task in tasks[:2]:
        task.cancel()
    await asyncio.gather(*tasks[:2], return_exceptions=True)
    assert "job output" in jobs_client._background._tasks
    tasks[2].cancel()
    await until(lambda: "job output" not in jobs_client._background._tasks)
    told.read_gate.set()
    assert (await jobs_client.get_background_job("sbx0", job)).stdout == ""


async def test_a_full_queue_waits_and_ends_with_the_time(told: JobDouble) -> None:
    """Callers wait before it; out of time they are told, and what was read is there."""
    jobs = [told.job(code=0, stdout=b"o") for _ in range(6)]
    told.read_gate.clear()
    async with AsyncSandboxClient(
        api_key="k",
        base_url=told.url,
        background_job_output_concurrency=2,
        background_job_output_queue_size=2,
    ) as client:
        found = await client.get_background_jobs(jobs, timeout=0.5)
        assert [status.exit_code for status in found] == [0] * 6
        assert {status.stdout for status in found} == {None}
        errors = {status.stdout_error for status in found}
        assert errors == {"APITimeoutError: there was no time to read it"}
        stats = client.stats()
        assert (stats.queue_high_water, stats.readers_high_water) == (2, 2)
        told.read_gate.set()
        assert {job.stdout for job in await client.get_background_jobs(jobs)} == {"o"}


async def test_what_was_read_in_time_is_kept(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """One stream arrives, the other one does not: half is better than nothing."""
    job = told.job(code=0, stdout=b"here")
    told.fault("GET", "read-file", delay=30.0, does="answer", times=1)
    told.read_faults = {}
    found = await jobs_client.get_background_job("sbx0", job, timeout=0.7)
    texts = {found.stdout, found.stderr}
    assert None in texts
    assert texts & {"here", ""}
    assert any(error and "no time" in error for error in (found.stdout_error, found.stderr_error))


async def test_sandboxes_take_turns(told: JobDouble) -> None:
    """One with many jobs does not keep the others waiting."""
    many = [told.job("sbx0", code=0) for _ in range(30)]
    one = told.job("sbx1", code=0)
    async with AsyncSandboxClient(
        api_key="k",
        base_url=told.url,
        background_job_output_concurrency=1,
        background_job_output_queue_size=2,
    ) as client:
        await client.get_background_jobs([*many, one])
    order = [path for path, _, _ in told.reads]
    assert order.index(one.stdout_log_file) < 12


async def test_nothing_is_kept_where_nothing_is_to_be_kept(told: JobDouble) -> None:
    """0 bytes: each reading is one."""
    job = told.job(code=0, stdout=b"o")
    async with AsyncSandboxClient(
        api_key="k", base_url=told.url, background_job_output_cache_bytes=0
    ) as client:
        for _ in range(2):
            assert (await client.get_background_job("sbx0", job)).stdout == "o"
        assert client.stats().bytes_held_high_water == 0
    assert len(told.reads) == 4


async def test_deleting_a_sandbox_forgets_its_outputs(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """They belong to what is gone."""
    await jobs_client.get_background_job("sbx0", told.job(code=0))
    assert jobs_client.stats().bytes_held > 0
    await jobs_client.delete("sbx0")
    assert jobs_client.stats().bytes_held == 0


async def test_outputs_are_read_a_few_jobs_ahead(told: JobDouble) -> None:
    """Whoever takes them slowly holds few of them."""
    jobs = [told.job(code=0) for _ in range(40)]
    async with AsyncSandboxClient(
        api_key="k", base_url=told.url, background_job_output_concurrency=4
    ) as client:
        stream: Any = client.as_completed(jobs)
        await anext(stream)
        await asyncio.sleep(0)
        await until(lambda: not told.reading)
        assert len({path.split(".")[0] for path, _, _ in told.reads}) <= 8
        await stream.aclose()


@settings(max_examples=50)
@given(steps=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60)), max_size=60))
def test_the_cache_never_holds_more(steps: list[tuple[int, int]]) -> None:
    """Its count is the sum of its entries, and within the limit."""
    cache = OutputCache(500)
    for name, size in steps:
        cache.put((("box", str(name)), "stdout"), StreamText("x" * size, size=size))
        assert cache.held == sum(one.size + 128 for one in cache._streams.values())
        assert cache.held <= cache.most_held <= 500
    cache.forget("box")
    assert cache.held == 0


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers()), unique=True, max_size=30))
def test_turns_are_fair_and_lose_nothing(items: list[tuple[str, int]]) -> None:
    """In order within a sandbox, and no sandbox twice while another one waits."""
    turns: Turns[tuple[str, int]] = Turns()
    for item in items:
        turns.put(item[0], item)
    assert len(turns) == len(items)
    taken = [turns.take() for _ in items]
    for name in "abc":
        assert [one for one in taken if one[0] == name] == [one for one in items if one[0] == name]
    for first, second in itertools.pairwise(taken):
        if first[0] == second[0]:
            rest = taken[taken.index(second) :]
            assert {one[0] for one in rest} == {second[0]}
    assert not turns.remove("a", ("a", 1))
