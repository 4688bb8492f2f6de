"""Group K of the field reports, and what the others say of a sink that logs from a running loop."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import prime_sync.runs
from prime_async.errors import PrimeError
from prime_async.transport import RetryBudget, RetryPolicy
from tests.meters import PeakRss
from tests.platform import ThreadedPlatform
from tests.runs.opening import OpenRun, trace
from tests.runs.platform_double import PlatformDouble
from tests.stub import Answer, Stub


@pytest.fixture(autouse=True)
def _own_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test spends on repeats is not missing in the next."""
    monkeypatch.setattr("prime_async.transport.client.process_budget", RetryBudget())


@pytest.fixture
def double(stub: Stub) -> PlatformDouble:
    """A platform that misbehaves as told."""
    return PlatformDouble(stub)


@pytest.fixture
async def open_run(stub: Stub, tmp_path: Path) -> AsyncIterator[OpenRun]:
    """Opens runs on it."""
    opener = OpenRun(stub.url, tmp_path / "spool")
    yield opener
    await opener.aclose()


async def test_FR01_a_plain_run_inside_a_running_loop(tmp_path: Path) -> None:
    """The result, as in a notebook: the platform is not in this loop, which the calls block."""
    with ThreadedPlatform(tmp_path) as platform:
        opener = OpenRun(platform.url, tmp_path / "spool", platform.key)
        with pytest.warns(RuntimeWarning, match="init"):
            run = prime_sync.runs.init(**opener.options())
        run.log_trace(trace("t"))
        with pytest.warns(RuntimeWarning, match="finish"):
            receipt = run.finish()
        assert receipt.complete


async def test_FR10_a_pause_that_is_asked_for_is_kept(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """429 with ``Retry-After``: no request comes sooner, everything arrives, no strike."""
    wait = Answer(429, headers={"Retry-After": "0.3"}, json={"error": {"code": "rate_limited"}})
    double.faults = [wait, wait]
    run = await open_run(retry=RetryPolicy(first_delay=0.001, max_delay=0.002))
    run.log_traces(trace(f"t{number}") for number in range(5))
    assert await run.flush()
    times = [request.time for request in double.stub.seen("POST", "/api/v1/traces")]
    assert len(times) == 3
    assert all(later - sooner >= 0.29 for sooner, later in pairwise(times))
    assert run.failed_records == {}


async def test_FR32_one_nan_costs_no_batch(open_run: OpenRun, double: PlatformDouble) -> None:
    """It is null, in a scalar, a list and a mapping; the other 99 are unchanged; it is counted."""
    run = await open_run()
    odd = {"a": math.nan, "b": math.inf, "c": -math.inf, "s": [math.nan, 1.0]}
    run.log_traces(
        trace(f"t{number}", metrics=odd if number == 7 else {"a": 1.0}) for number in range(100)
    )
    assert await run.flush()
    stored = {line["id"]: line for line in double.records}
    assert len(stored) == 100
    assert stored["t7"]["metrics"] == {"a": None, "b": None, "c": None, "s": [None, 1.0]}
    assert run.stats().nonfinite >= 3


async def test_FR34_odd_keys_cost_no_batch(open_run: OpenRun, double: PlatformDouble) -> None:
    """Keys that can be text are; two of one text refuse their record, by path."""
    run = await open_run()
    run.log_traces(
        [
            trace("paths", info={Path("a"): 1, 1: 2, None: 3}),
            trace("collision", info={1: "a", "1": "b"}),
            trace("plain"),
        ]
    )
    assert await run.flush()
    assert sorted(double.ids) == ["paths", "plain"]
    assert "info" in run.errors[0]


async def test_FR35_cycles_and_depth_end_quickly(open_run: OpenRun, double: PlatformDouble) -> None:
    """The record is refused by path; the others go on."""
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    run = await open_run()
    run.log_traces([trace("cycle", info=cycle), trace("deep", info=deep), trace("plain")])
    assert await run.flush()
    assert double.ids == ["plain"]
    assert run.failed_records == {"traces": 2}


async def test_FR42_a_platform_that_is_down_does_not_fill_the_memory(
    open_run: OpenRun, double: PlatformDouble, caplog: pytest.LogCaptureFixture
) -> None:
    """The queue stays below its limit, the calls return, the loss is exact and said once."""
    double.down = True
    run = await open_run(queue_bytes=4 * 2**20, spool_bytes=2 * 2**20)
    text = "x" * 1000
    with PeakRss() as memory:
        for number in range(30_000):
            run.log_trace({"id": f"t{number}", "text": text})
            if number % 500 == 0:
                await asyncio.sleep(0)
        await run.finish(timeout=5)
    counts = run.stats().counts
    assert counts.logged == 30_000
    assert counts.queued == counts.delivered == 0
    assert counts.dropped > 0
    assert run.stats().queue_peak_bytes <= 4 * 2**20
    assert memory.growth < 4 * 2**20 + 32 * 2**20
    warnings = [record for record in caplog.records if "are dropped" in record.message]
    assert len(warnings) == 1


async def test_FR57_the_key_is_in_no_place_but_its_header(
    open_run: OpenRun, double: PlatformDouble, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in what is logged, kept, printed or stored as configuration."""
    caplog.set_level(logging.DEBUG)
    double.down = True
    open_run.key = "sk-CANARY-123456789012345"
    run = await open_run(durable=True, config={"headers": {"Authorization": open_run.key}})
    run.log_trace(trace("a", header=f"Bearer {open_run.key}"))
    await run.flush()
    receipt = await run.finish()
    shown = [repr(run), repr(receipt), repr(run.stats()), repr(run._core.opened), str(run.errors)]
    shown += [record.getMessage() for record in caplog.records]
    shown += [json.dumps(double.created), json.dumps(run.config)]
    shown += [path.read_bytes().decode("latin-1") for path in open_run.spool.rglob("*.seg")]
    assert not [text for text in shown if "CANARY" in text]
    assert all(path.stat().st_mode & 0o077 == 0 for path in open_run.spool.rglob("*"))


async def test_FR06_nothing_is_started_before_a_run_is_opened(open_run: OpenRun) -> None:
    """A disabled run starts no thread, sends nothing and takes every call."""
    run = await open_run(mode="disabled")
    run.log_trace(trace("a"))
    run.log_metrics({"x": 1})
    async with run:
        assert await run.flush()
    assert run.id.startswith("disabled-")
    assert run.url is None
    with pytest.raises(PrimeError):
        await open_run(mode="offline")
