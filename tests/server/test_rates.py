"""The limit on what an account sends: said as the wire has it, kept by every client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import prime_traces
import pytest

from prime_async.errors import ConfigError
from prime_async.server.config import Limits, ServerConfig
from prime_async.traces import AsyncTracesClient
from tests.platform import KEY, RunningPlatform, ThreadedPlatform, running_platform
from tests.server.clocks import FakeClock
from tests.server.traces.uploads import ids, lines, send, trace
from tests.server.wire import Wire
from tests.traces.records import trace as fresh

OTHER = "pit_other_0123456789abcdef"


@pytest.fixture
async def platform(tmp_path: Path, clock: FakeClock) -> AsyncIterator[RunningPlatform]:
    """A platform that takes two requests in five seconds."""
    limits = {"ingest_per_second": 0.4}
    async with running_platform(tmp_path, clock=clock, limits=limits) as running:
        yield running


async def test_who_sends_too_much_is_asked_to_wait(
    wire: Wire, platform: RunningPlatform, clock: FakeClock
) -> None:
    """429 with whole seconds; after them the same upload is taken. Others, and reads, go on."""
    first, second = lines(trace("t1")), lines(trace("t2"))
    assert (await send(wire, first)).status == 201
    for _ in range(2):
        refused = await send(wire, second)
        assert (refused.status, refused.code) == (429, "rate_limited")
        assert refused.headers["Retry-After"] == "3"
    await platform.parts.keys.add_account("other", "Other", OTHER)
    async with Wire(platform.url, OTHER) as other:
        assert (await send(other, second)).status == 201
    assert await ids(wire) == ["t1"]
    clock.advance(3)
    assert (await send(wire, second)).status == 201


INGESTING = (
    ("//v1/traces", {"resourceSpans": []}),
    ("/rft/metrics", {"run_id": "r", "metrics": {"a": 1}}),
    ("/rft/distributions", {"run_id": "r", "distributions": {"a": [1]}}),
    ("/rft/samples", {"run_id": "r", "step": 1, "samples": []}),
    ("/evaluations/e/metric-rows", {"metrics": {"a": 1}}),
)


@pytest.mark.parametrize(("path", "body"), INGESTING)
async def test_everything_that_is_sent_counts(wire: Wire, path: str, body: object) -> None:
    """Spans and records of runs too; what is refused does not count again."""
    assert (await send(wire, lines(trace("t1")))).status == 201
    refused = await wire.send("POST", path, json=body)
    assert (refused.status, refused.code) == (429, "rate_limited")
    assert refused.headers["Retry-After"] == "3"
    if path == "//v1/traces":
        assert refused.json["code"] == 8


def test_a_limit_that_lets_nothing_through_is_refused(tmp_path: Path) -> None:
    """It would be an outage."""
    with pytest.raises(ConfigError, match="above 0"):
        ServerConfig(tmp_path, limits=Limits(ingest_per_second=0)).check()


@pytest.mark.slow
async def test_clients_keep_it(tmp_path: Path) -> None:
    """Ours and the official one: asked to wait, both deliver everything, and not too fast."""
    with ThreadedPlatform(tmp_path, limits={"ingest_per_second": 2}) as platform:
        began = time.monotonic()
        async with AsyncTracesClient(api_key=KEY, base_url=platform.url) as ours:
            receipt = await ours.upload_records(
                [fresh("ours-1"), fresh("ours-2"), fresh("ours-3"), fresh("ours-4")],
                target_batch_bytes=1,
                max_concurrent=1,
            )
            assert len(receipt) == 4
            assert time.monotonic() - began >= 1
            official = prime_traces.TracesClient(api_key=KEY, base_url=platform.url)
            receipts = await asyncio.to_thread(
                official.upload_records,
                [fresh("theirs-1"), fresh("theirs-2"), fresh("theirs-3")],
                target_batch_bytes=1,
            )
            assert len(receipts) == 3
            official.close()
            assert len((await ours.list()).items) == 7
