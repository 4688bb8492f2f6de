"""kill -9 of the platform, of the pusher, of both: every sample is stored exactly once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from prime_async.api import AsyncAPIClient
from prime_async.errors import PartialPushError
from prime_async.evals import AsyncEvalsClient, interrupted_pushes
from prime_async.transport import RetryPolicy
from tests.evals.pushing import indexes
from tests.platform import KEY, ProcessPlatform

QUICK = RetryPolicy(tries=2, first_delay=0.01, max_delay=0.02)

SIZE = 8_000
USUAL, FULL = 3_000, 12_500
"""Samples of 8 KB: 24 MB as a rule, 100 MB when there is time."""


def _samples(count: int) -> list[dict[str, Any]]:
    text = random.Random(7).randbytes(SIZE // 2).hex()
    return [{"example_id": index, "answer": text} for index in range(count)]


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[ProcessPlatform]:
    """A platform in a process of its own."""
    running = ProcessPlatform(tmp_path)
    await asyncio.to_thread(running.start)
    try:
        yield running
    finally:
        await asyncio.to_thread(running.__exit__)


async def _create(platform: ProcessPlatform) -> str:
    async with AsyncEvalsClient(api_key=KEY, base_url=platform.url) as client:
        made = await client.create_evaluation("crash", run_id="r")
        assert made.evaluation_id is not None
        return made.evaluation_id


async def _check_stored(platform: ProcessPlatform, evaluation_id: str, count: int) -> None:
    """Every sample once, in order, whole."""
    async with AsyncEvalsClient(api_key=KEY, base_url=platform.url) as client:
        expected = 0
        answer = None
        async for sample in client.iter_samples(evaluation_id, page_size=500):
            assert sample["example_id"] == expected
            answer = answer or sample["answer"]
            assert sample["answer"] == answer
            expected += 1
        assert expected == count
        assert (await client.get_evaluation(evaluation_id)).total_samples == count


@pytest.mark.parametrize("count", [USUAL, pytest.param(FULL, marks=pytest.mark.slow)])
async def test_the_platform_is_killed_and_the_token_resumes(
    platform: ProcessPlatform, count: int
) -> None:
    """kill -9 of the platform in the middle of a push; restarted, the token brings the rest."""
    evaluation_id = await _create(platform)
    samples = _samples(count)
    seen = 0

    async def kill_in_the_middle(settled: int) -> None:
        nonlocal seen
        if seen < count // 3 <= seen + settled:
            await asyncio.to_thread(platform.kill)
        seen += settled

    async with (
        AsyncAPIClient(KEY, base_url=platform.url, retry=QUICK) as api,
        AsyncEvalsClient(api) as client,
    ):
        with pytest.raises(PartialPushError) as caught:
            await client.push_samples(evaluation_id, samples, progress_callback=kill_in_the_middle)
        receipt = caught.value.receipt
        assert 0 < receipt.samples_pushed < count
        left = len(indexes(receipt.undelivered)) + len(indexes(receipt.unknown))
        assert receipt.samples_pushed + left == count
        await asyncio.to_thread(platform.start)
        again = await client.push_samples(evaluation_id, samples, resume=receipt.resume_token)
    assert again.complete
    assert again.samples_pushed == count
    await _check_stored(platform, evaluation_id, count)


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.slow)])
async def test_the_platform_is_killed_and_comes_back_in_time(
    platform: ProcessPlatform, times: int
) -> None:
    """Killed and restarted while the client tries again: the push notices nothing but a delay."""
    evaluation_id = await _create(platform)
    kills = 0
    seen = 0

    async def kill_and_restart(settled: int) -> None:
        nonlocal kills, seen
        seen += settled
        if seen > (kills + 1) * USUAL // 5 and kills < times:
            kills += 1
            await asyncio.to_thread(platform.kill)
            await asyncio.to_thread(platform.start)

    patient = RetryPolicy(tries=200, first_delay=0.1, max_delay=0.3, jitter=0.5)
    async with (
        AsyncAPIClient(KEY, base_url=platform.url, retry=patient) as api,
        AsyncEvalsClient(api) as client,
    ):
        receipt = await client.push_samples(
            evaluation_id, _samples(USUAL), progress_callback=kill_and_restart
        )
    assert kills == times
    assert receipt.complete
    await _check_stored(platform, evaluation_id, USUAL)


_PUSH = """
import asyncio, sys
import prime_async

async def main():
    url, key, evaluation_id, path, *resume = sys.argv[1:]
    retry = prime_async.RetryPolicy(tries=2, first_delay=0.01)
    api = prime_async.AsyncAPIClient(key, base_url=url, retry=retry)
    async with api, prime_async.AsyncEvalsClient(api) as client:
        def say(count):
            print(count, flush=True)
        await client.push_samples(
            evaluation_id, path, progress_callback=say, resume=resume[0] if resume else None
        )

asyncio.run(main())
"""


class Pusher:
    """A process that pushes a file, and is killed when it has reported enough."""

    def __init__(self, platform: ProcessPlatform, evaluation_id: str, path: Path) -> None:
        self._arguments = [platform.url, KEY, evaluation_id, str(path)]

    async def run_until(self, settled: int, *more: str) -> int:
        """Push; kill -9 after so many samples; return how many were reported."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _PUSH,
            *self._arguments,
            *more,
            stdout=asyncio.subprocess.PIPE,
            env=os.environ,
        )
        assert process.stdout is not None
        seen = 0
        while seen < settled and (line := await process.stdout.readline()):
            seen += int(line)
        if process.returncode is None:
            process.kill()
        await process.wait()
        return seen


def _write(path: Path, count: int) -> Path:
    with path.open("w") as file:
        for sample in _samples(count):
            file.write(f"{json.dumps(sample)}\n")
    return path


@pytest.mark.parametrize(
    ("way", "count"),
    [
        ("sync", USUAL),
        pytest.param("resume", USUAL, marks=pytest.mark.slow),
        pytest.param("sync", FULL, marks=pytest.mark.slow),
    ],
)
async def test_the_pusher_of_a_file_is_killed(
    platform: ProcessPlatform, tmp_path: Path, way: str, count: int
) -> None:
    """kill -9 of the client: its journal says how to go on, by a sync or by hand, elsewhere."""
    evaluation_id = await _create(platform)
    path = _write(tmp_path / "rows.jsonl", count)
    seen = await Pusher(platform, evaluation_id, path).run_until(count // 3)
    assert 0 < seen < count
    (push,) = await asyncio.to_thread(interrupted_pushes)
    assert (push.evaluation_id, push.file, push.running) == (evaluation_id, path, False)
    async with AsyncEvalsClient(api_key=KEY, base_url=platform.url) as client:
        if way == "sync":
            (result,) = await client.sync_pushes()
            assert result.problem is None
            receipt = result.receipt
        else:
            receipt = await client.push_samples(evaluation_id, path, resume=push.resume_token)
        assert receipt is not None
        assert receipt.samples_pushed == count
    await _check_stored(platform, evaluation_id, count)
    assert await asyncio.to_thread(interrupted_pushes) == []


@pytest.mark.slow
async def test_killed_again_and_again(platform: ProcessPlatform, tmp_path: Path) -> None:
    """Client and platform fall over in turns, at any moment; the end is as if nothing had."""
    evaluation_id = await _create(platform)
    path = _write(tmp_path / "rows.jsonl", 1500)
    pusher = Pusher(platform, evaluation_id, path)
    assert await pusher.run_until(100) >= 100
    await asyncio.to_thread(platform.kill)
    (push,) = await asyncio.to_thread(interrupted_pushes)
    assert await pusher.run_until(1, push.resume_token) == 0
    await asyncio.to_thread(platform.start)
    for _ in range(2):
        (push,) = await asyncio.to_thread(interrupted_pushes)
        assert await pusher.run_until(100, push.resume_token) >= 100
    async with AsyncEvalsClient(api_key=KEY, base_url=platform.url) as client:
        (result,) = await client.sync_pushes()
        assert result.problem is None
    await _check_stored(platform, evaluation_id, 1500)


_GENERATE = """
import asyncio, os, signal, sys
import prime_async

def source():
    for number in range(400):
        yield {"example_id": number, "answer": "x" * 1000}

async def main():
    url, key, evaluation_id = sys.argv[1:]
    api = prime_async.AsyncAPIClient(key, base_url=url, retry=prime_async.RetryPolicy(tries=1))
    async with api, prime_async.AsyncEvalsClient(api) as client:
        try:
            await client.push_samples(evaluation_id, source(), max_payload_bytes=20_000)
        except prime_async.PartialPushError as error:
            assert error.receipt.spooled == 400, error
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_killed_after_samples_were_kept(platform: ProcessPlatform) -> None:
    """What was put on disk outlives kill -9 of the process that put it there."""
    evaluation_id = await _create(platform)
    await asyncio.to_thread(platform.kill)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _GENERATE, platform.url, KEY, evaluation_id, env=os.environ
    )
    assert await asyncio.wait_for(process.wait(), 60) == -9
    await asyncio.to_thread(platform.start)
    async with AsyncEvalsClient(api_key=KEY, base_url=platform.url) as client:
        (result,) = await client.sync_pushes()
        assert result.problem is None
        found = client.iter_samples(evaluation_id, page_size=1000)
        assert [sample["example_id"] async for sample in found] == list(range(400))
