"""Everything at once, against the embedded platform: 0 lost, 0 doubled, and the counts add up."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from prime_async.api import AsyncAPIClient
from prime_async.errors import APIError
from prime_async.transport import RetryPolicy
from tests.faults.plan import Break, FaultPlan, Moment, Status, on, posts
from tests.faults.proxy import FaultProxy
from tests.platform import KEY, ProcessPlatform, running_platform
from tests.runs.opening import OpenRun, trace

QUICK = RetryPolicy(tries=2, first_delay=0.001, max_delay=0.002)


async def stored(url: str, run_id: str) -> Counter[str]:
    """How often the platform has each trace of a run."""
    found: Counter[str] = Counter()
    async with AsyncAPIClient(KEY, base_url=url) as api:
        cursor = None
        while True:
            page = await api.get("/traces", {"run_id": run_id, "limit": 100, "cursor": cursor})
            found.update(item["trace_id"] for item in page["items"])
            cursor = page["next_cursor"]
            if cursor is None:
                return found


def faults(seed: int, number: int) -> list[Any]:
    """Faults in an order of their own, each for some upload."""
    dice = random.Random(seed)
    kinds = [
        lambda: Status(503),
        lambda: Status(429),
        lambda: Status(502, executed=True),
        lambda: Break("reset", Moment.REQUEST_BODY, after=100),
        lambda: Break("reset", Moment.EXECUTED),
        lambda: Break("cut", Moment.RESPONSE_HEAD, after=5),
    ]
    return [on(dice.choice(kinds)(), when=_uploads) for _ in range(number)]


def _uploads(head: Any) -> bool:
    return posts(head) and head.target == "/api/v1/traces"


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.slow
async def test_a_stormy_life(tmp_path: Path, seed: int) -> None:
    """Refusals, resets before and after the platform had a batch, then the sync."""
    async with running_platform(tmp_path) as platform:
        plan = FaultPlan(faults(seed, 12))
        async with FaultProxy(("127.0.0.1", platform.port), plan) as proxy:
            opener = OpenRun(proxy.url, tmp_path / "spool")
            run = await opener("train", durable=seed == 2, retry=QUICK)
            for number in range(20):
                run.log_traces(trace(f"{run.id}-{number}-{n}", text="x" * 500) for n in range(10))
                run.log_metrics({"n": number}, step=number)
                await run.flush(5)
            await run.finish()
            assert run.receipt is not None
            counts = run.receipt.counts
            assert counts.logged == 220
            assert counts.logged == counts.delivered + counts.spooled
            for _ in range(3):
                await opener.sync()
            assert opener.left() == []
        found = await stored(platform.url, run.id)
        assert len(found) == 200
        assert set(found.values()) == {1}


@pytest.mark.slow
async def test_the_platform_is_killed_again_and_again(tmp_path: Path) -> None:
    """Four producers log all the while; the platform comes back each time on the same data."""
    with ProcessPlatform(tmp_path) as platform:
        opener = OpenRun(platform.url, tmp_path / "spool")
        run = await opener("train", retry=QUICK, durable=True)
        going = True

        async def produce(part: int) -> int:
            number = 0
            while going:
                run.log_trace(trace(f"{run.id}-{part}-{number}", text="x" * 2000))
                number += 1
                await asyncio.sleep(0.001)
            return number

        producers = [asyncio.create_task(produce(part)) for part in range(4)]
        for _ in range(4):
            await asyncio.sleep(1.5)
            await asyncio.to_thread(platform.kill)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(platform.start)
        going = False
        logged = sum([await producer for producer in producers])
        await run.finish()
        assert run.receipt is not None
        counts = run.receipt.counts
        assert counts.logged == logged == counts.delivered + counts.spooled, run.receipt
        await opener.sync()
        assert opener.left() == []
        found = await stored(platform.url, run.id)
        assert len(found) == logged
        assert set(found.values()) == {1}


async def test_records_that_lie_on_a_disk_that_is_synced_twice_at_once(tmp_path: Path) -> None:
    """Two processes' worth of syncs at the same time: each entry has one owner."""
    async with running_platform(tmp_path) as platform:
        opener = OpenRun(platform.url, tmp_path / "spool")
        run = await opener()
        run.log_traces(trace(f"{run.id}-{n}") for n in range(50))
        run.log_metrics({"n": 1}, step=1)
        await run.finish(timeout=0)
        results = await asyncio.gather(*(opener.sync() for _ in range(4)))
        delivered = sum(one.delivered for result in results for one in result)
        assert run.receipt is not None
        assert delivered == run.receipt.counts.spooled
        assert opener.left() == []
        found = await stored(platform.url, run.id)
        assert len(found) == 50
        assert set(found.values()) == {1}


async def test_the_end_of_a_run_is_told_after_its_records(tmp_path: Path) -> None:
    """The platform was away at the end: the sync brings the records, then the status."""
    async with running_platform(tmp_path) as platform:
        proxy = FaultProxy(("127.0.0.1", platform.port))
        await proxy.start()
        opener = OpenRun(proxy.url, tmp_path / "spool")
        run = await opener("train")
        await proxy.aclose()
        run.log_trace(trace(f"{run.id}-t"))
        receipt = await run.finish(status="failed", error="boom")
        assert not receipt.reported
        assert opener.left() == ["run.endings", "run.traces"]
        await proxy.start()
        assert [one.problem for one in await opener.sync()] == [None, None]
        await proxy.aclose()
        async with AsyncAPIClient(KEY, base_url=platform.url) as api:
            ended = (await api.get(f"/rft/external-runs/{run.id}"))["run"]
        assert (ended["status"], ended["errorMessage"]) == ("FAILED", "boom")
        assert opener.left() == []


async def test_what_was_going_elsewhere_is_left_alone(tmp_path: Path) -> None:
    """Records never go to a platform that the run did not choose."""
    async with running_platform(tmp_path) as platform:
        opener = OpenRun("http://127.0.0.1:9", tmp_path / "spool")
        run = await opener(id="ev-1")
        run.log_trace(trace("t"))
        await run.finish(timeout=2)
        opener.url = platform.url
        (synced,) = [one for one in await opener.sync() if one.kept.kind == "run.traces"]
        assert synced.delivered == 0
        assert "it was going to http://127.0.0.1:9" in str(synced.problem)
        with pytest.raises(APIError):
            async with AsyncAPIClient(KEY, base_url=platform.url) as api:
                await api.get("/traces/t")
