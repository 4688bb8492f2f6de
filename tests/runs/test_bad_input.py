"""Bad input to a run: the record at fault is refused by name, the others arrive."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_async.api import AsyncAPIClient
from prime_async.runs import ConfigurationError, RunFinishedError, init
from tests.platform import running_platform
from tests.runs.opening import KEY, OpenRun, trace
from tests.runs.platform_double import PlatformDouble


@pytest.fixture
async def opener(tmp_path: Path) -> AsyncIterator[OpenRun]:
    """Opens runs on an embedded platform."""
    async with running_platform(tmp_path) as platform:
        made = OpenRun(platform.url, tmp_path / "spool")
        yield made
        await made.aclose()


async def test_a_clock_that_is_wrong_costs_its_records(opener: OpenRun) -> None:
    """Begins of tomorrow and of two years ago are refused by the platform, each by number."""
    run = await opener("train")
    for number, skew in enumerate((0, 86_400, 0, -2 * 366 * 86_400, 0)):
        run.log_trace(trace(f"{run.id}-{number}", timing={"start": time.time() + skew}))
    receipt = await run.finish()
    assert (receipt.counts.delivered, receipt.counts.refused) == (3, 2)
    assert {(one.index, one.status) for one in receipt.refused} == {(1, 400), (3, 400)}
    assert run.failed_records == {"traces": 2}
    async with AsyncAPIClient(KEY, base_url=opener.url) as api:
        page = await api.get("/traces", {"run_id": run.id})
    assert {item["trace_id"] for item in page["items"]} == {f"{run.id}-{n}" for n in (0, 2, 4)}


async def test_a_line_beyond_the_limit_is_refused_where_it_is_logged(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """65 MB: nothing of it is queued or sent."""
    run = await open_run()
    run.log_traces([trace("a"), trace("b", text="x" * 68_000_000), trace("c")])
    assert run.stats().queue_peak_bytes < 2**20
    receipt = await run.finish()
    assert double.ids == ["a", "c"]
    assert (receipt.counts.delivered, receipt.counts.refused) == (2, 1)
    assert "traces[1] has 68,000," in receipt.refused[0].reason


async def test_a_kind_that_does_not_exist() -> None:
    """Refused before anything is sent, with the nearest right one."""
    with pytest.raises(ConfigurationError, match="kind is 'evla'") as caught:
        await init(kind="evla", model="m", environments=["math"], api_key=KEY)  # type: ignore[arg-type]
    assert caught.value.field == "kind"
    assert caught.value.hint == "did you mean 'eval'?"


async def test_the_first_end_counts(open_run: OpenRun, double: PlatformDouble) -> None:
    """A second finish returns the receipt of the first; nothing is logged any more."""
    run = await open_run()
    run.log_trace(trace("a"))
    receipt = await run.finish()
    assert await run.finish(status="failed", error="too late") is receipt
    with pytest.raises(RunFinishedError, match=r"completed.*takes nothing more"):
        run.log_trace(trace("b"))
    assert double.ids == ["a"]
    assert receipt.counts.logged == run.stats().counts.logged == 1
