"""Field reports, groups B, E, F and G, for background jobs: how they are started and waited for."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from prime_async import (
    AsyncSandboxClient,
    BackgroundJobTimeoutError,
    SandboxNotRunningError,
    SandboxOOMError,
    partial_output,
)
from prime_async.sandboxes import coalescer
from prime_async.sandboxes.coalescer import Coalescer
from prime_async.sandboxes.wire import Ended, Output, Started
from tests.command_double import Running
from tests.job_double import JobDouble


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[JobDouble]:
    """A platform whose jobs are as they are told to be."""
    folder = tmp_path / "told"
    folder.mkdir()
    async with JobDouble(folder) as running:
        yield running


@pytest.fixture
async def waiting(told: JobDouble) -> AsyncIterator[AsyncSandboxClient]:
    """A client of it."""
    async with AsyncSandboxClient(api_key="k", base_url=told.url) as made:
        yield made


async def test_FR08_a_few_requests_per_round(told: JobDouble, waiting: AsyncSandboxClient) -> None:
    """250 waiting jobs are three requests per polling round."""
    jobs = [told.job(f"sbx{n}") for n in range(250)]
    tasks = [asyncio.create_task(waiting.wait_background_jobs([job])) for job in jobs]
    async with asyncio.timeout(20):
        while len(told.batches) < 9:
            await asyncio.sleep(0.01)
    looks = Counter(key for batch in told.batches for key in batch)
    assert len(told.batches) <= 3 * max(looks.values())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_FR09_the_end_of_a_short_job_is_seen_soon(
    told: JobDouble, waiting: AsyncSandboxClient
) -> None:
    """A job that ends after a quarter of a second is seen to have ended by 0.7 s."""
    job = told.job()
    ends = time.monotonic() + 0.25
    asyncio.get_running_loop().call_later(0.25, told.finish, job)
    await waiting.wait_background_jobs([job], output=False)
    # By the arrival of the look that saw it, not by the clock of a busy test machine.
    assert told.requests("POST", "status:batchGet")[-1].time - ends < 0.45


class _Clock:
    """A job that ends after so many beats, and the beats on which it is looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.beat = 0.002  # in place of a tenth of a second
        monkeypatch.setattr(coalescer, "_BEAT", self.beat)
        self.looks: list[float] = []

    async def wait(self, seconds: float, least: float = 0.0) -> list[float]:
        """Wait for its end; return the pauses between the looks, in seconds of its own."""
        loop = asyncio.get_running_loop()
        scale = self.beat / 0.1
        ends = loop.time() + seconds * scale

        async def fetch(keys: list[str]) -> Mapping[str, bool]:
            self.looks.append(loop.time())
            return dict.fromkeys(keys, loop.time() >= ends)

        looks: Coalescer[str, bool] = Coalescer(fetch)
        await looks.watch("job", bool, least=least * scale)
        pairs = zip(self.looks, self.looks[1:], strict=False)
        return [(later - before) / scale for before, later in pairs]


async def test_FR09_a_minute_of_a_job_takes_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 seconds of running: 30 looks at most."""
    clock = _Clock(monkeypatch)
    await clock.wait(60)
    assert 5 < len(clock.looks) <= 30


async def test_FR09_the_interval_of_a_job_is_never_shortened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``poll_interval=45``: no gap under 45 seconds, the beat it begins on apart."""
    pauses = await _Clock(monkeypatch).wait(200, least=45)
    assert len(pauses) >= 4
    assert min(pauses) > 44.8


async def test_FR15_what_a_late_job_had_written_is_kept(
    told: JobDouble, waiting: AsyncSandboxClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the time-out, and on the cancellation of the caller."""
    monkeypatch.setattr(told, "_launch", _starts(told, b"step 1\n"))
    told.job()  # makes the sandbox
    with pytest.raises(BackgroundJobTimeoutError) as caught:
        await waiting.run_background_job("sbx0", "x", timeout=0.5)
    assert caught.value.stdout == "step 1\n"
    assert caught.value.elapsed >= 0.5
    task = asyncio.create_task(waiting.run_background_job("sbx0", "y"))
    batches = len(told.batches)
    async with asyncio.timeout(20):
        while len(told.batches) == batches:
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await task
    output = partial_output(cancelled.value)
    assert output is not None
    assert output.stdout == "step 1\n"


def _starts(told: JobDouble, stdout: bytes = b"") -> object:
    """Let the launch of a job make one that runs until it is told to end."""

    async def launch(running: Running) -> None:
        script = running.request.command.args[-1]
        job_id = script.partition("/tmp/job_")[2][:8]
        if "PRIME_JOB_COMMAND" in running.request.command.envs:
            job = told.job("sbx0", stdout=stdout)
            known = told.jobs.pop(("sbx0", job.job_id))
            files = {path.replace(job.job_id, job_id): text for path, text in known.files.items()}
            known.files = files
            told.jobs["sbx0", job_id] = known
        running.put(Started(1))
        if "tell TERM" in script:
            name = script.partition("\ni=")[2][:8]
            told.jobs["sbx0", name].code = 143
            running.put(Output("stdout", f"{name} 143\n".encode()))
        running.put(Ended(0, True, "exit status 0"))

    return launch


async def test_FR22_starting_a_job_returns_at_once(
    client: AsyncSandboxClient, box: str, tmp_path: Path
) -> None:
    """The job holds nothing of the shell that started it; it goes on when the client is gone."""
    gate, mark = tmp_path / "gate", tmp_path / "mark"
    command = f"while ! test -e {gate}; do sleep 0.05; done; echo done > {mark}"
    job = await client.start_background_job(box, command)
    assert not (await client.get_background_job_status(box, job)).completed
    await client.aclose()
    gate.touch()
    (found,) = await client.wait_background_jobs([job])
    assert (found.exit_code, mark.read_text()) == (0, "done\n")
    await client.execute_command(box, f"rm -rf /tmp/job_{job.job_id}.*")


async def test_FR26_a_job_whose_sandbox_ends_tells_why(
    told: JobDouble, waiting: AsyncSandboxClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statuses are 503, the sandbox is out of memory: that is the error, at the deadline too."""
    monkeypatch.setattr(told, "_launch", _starts(told))
    job = told.job()
    waiter = asyncio.create_task(waiting.wait_background_jobs([job], output=False))
    runner = asyncio.create_task(waiting.run_background_job("sbx0", "x", timeout=1))
    async with asyncio.timeout(20):
        while len(told.batches) < 2:
            await asyncio.sleep(0.01)
    told.batch_fault = 503
    told.end("sbx0", errorType="OOM_KILLED", errorMessage="2 GiB")
    with pytest.raises(SandboxOOMError, match="2 GiB"):
        await runner
    (found,) = await waiter
    assert found.error_code == "NOT_RUNNING"
    assert "ran out of memory" in (found.error or "")
    assert issubclass(SandboxOOMError, SandboxNotRunningError)


async def test_FR29_a_failed_poll_never_starts_the_job_again(
    told: JobDouble, waiting: AsyncSandboxClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polls are reset twice, then answered: one start, and the job's own result."""
    monkeypatch.setattr(told, "_launch", _starts(told, b"out"))
    told.job()
    told.fault("POST", "status:batchGet", does="cut", times=2)
    task = asyncio.create_task(waiting.run_background_job("sbx0", "train"))
    async with asyncio.timeout(20):
        while not told.batches:
            await asyncio.sleep(0.01)
    (made,) = [one for one in told.jobs.values() if one.files.get(_stdout_of(one)) == b"out"]
    made.code = 3
    found = await task
    assert (found.exit_code, found.stdout) == (3, "out")
    assert len(told.requests("POST", "/Start")) == 1


def _stdout_of(one: object) -> str:
    return next(path for path in getattr(one, "files", {}) if path.endswith("stdout.log"))
