"""Uploads of traces under every fault: the account is true, and sending them again settles it.

A batch is named by the digest of its bytes, so that whatever became of a try, another one stores it
once.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from prime_async.traces import AsyncTracesAPIClient, AsyncTracesClient, PrimeTracesError
from prime_async.transport import RetryBudget, RetryPolicy
from tests.faults.plan import Break, Delay, Fault, FaultPlan, Garbage, Moment, Status, on, path
from tests.faults.proxy import FaultProxy
from tests.platform import KEY, ThreadedPlatform
from tests.traces.records import fresh_run, line, trace

PATIENT, SHORT = 20.0, 0.6
_UPLOAD = path("/traces$", "POST")
_DELETE = path("/traces/", "DELETE")


@dataclass
class Setting:
    """The embedded platform behind a fault proxy, and past it."""

    proxy: FaultProxy
    client: AsyncTracesClient
    direct: AsyncTracesClient


@pytest.fixture
async def between(
    embedded: ThreadedPlatform, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Setting]:
    """A client whose requests go through the proxy, and one whose do not."""
    monkeypatch.setattr("prime_async.transport.client.process_budget", RetryBudget())
    retry = RetryPolicy(first_delay=0.001, max_delay=0.002)
    async with (
        FaultProxy(("127.0.0.1", embedded.port)) as proxy,
        AsyncTracesAPIClient(KEY, f"http://127.0.0.1:{proxy.port}", retry=retry) as api,
        AsyncTracesClient(api) as client,
        AsyncTracesClient(KEY, base_url=embedded.url) as direct,
    ):
        yield Setting(proxy, client, direct)


@dataclass(frozen=True)
class Row:
    """A fault of one batch, and whether one upload stands it."""

    name: str
    fault: Fault
    stood: bool = True
    timeout: float = PATIENT

    def __str__(self) -> str:
        return self.name


def _rows() -> list[Row]:
    rows = [
        Row("late", Delay(0.02)),
        Row("late answer", Delay(0.02, executed=True)),
        Row("no HTTP", Garbage()),
        Row("429, wait", Status(429, "0.01")),
        Row("500 after the work", Status(500, executed=True), stood=False),
    ]
    for status, executed in itertools.product((502, 503, 504), (False, True)):
        name = f"{status}{' after the work' if executed else ''}"
        rows.append(Row(name, Status(status, executed=executed)))
    for how, moment in itertools.product(("reset", "cut", "silence"), Moment):
        if moment is Moment.RESPONSE_END:
            continue
        silent = how == "silence"
        fault = Break(how, moment, after=1)  # type: ignore[arg-type]  # the literals above
        rows.append(
            Row(f"{how} at {moment.value}", fault, not silent, SHORT if silent else PATIENT)
        )
    return rows


@pytest.mark.parametrize("row", _rows(), ids=str)
async def test_an_upload_under_a_fault(between: Setting, row: Row) -> None:
    """Stood, or told; the same lines sent again are all there, each once."""
    run = fresh_run()
    lines = [line(trace(f"{run}-{number}", run=run)) for number in range(8)]
    between.proxy.plan = FaultPlan([on(row.fault, when=_UPLOAD, times=1)])
    failure = None
    try:
        receipts = await between.client.upload_lines(
            lines, target_batch_bytes=2_000, timeout=row.timeout
        )
    except PrimeTracesError as error:
        failure = error
    assert row.stood == (failure is None), failure
    if failure is not None:
        assert failure.upload is not None
        told = {receipt.upload_id for receipt in failure.receipts}
        failed = {batch.digest for batch in failure.upload.failed}
        assert failed
        assert told.isdisjoint(failed)
        for digest in told:
            assert (await between.direct.list(upload_id=digest)).items
        between.proxy.plan = FaultPlan([])
        receipts = await between.client.upload_lines(lines, target_batch_bytes=2_000)
        assert told < {receipt.upload_id for receipt in receipts}
    assert len(receipts) == 4
    stored = [item.trace_id async for item in between.direct.iter(run_id=run)]
    assert sorted(stored) == [f"{run}-{number}" for number in range(8)]


@pytest.mark.parametrize("executed", [False, True])
@pytest.mark.parametrize("status", [502, 504])
async def test_a_delete_under_a_fault(between: Setting, status: int, executed: bool) -> None:
    """What a gateway says tells nothing: the error says so, and the trace is there or not."""
    run = fresh_run()
    await between.direct.upload_records([trace(run, run=run)])
    between.proxy.plan = FaultPlan([on(Status(status, executed=executed), when=_DELETE, times=1)])
    with pytest.raises(PrimeTracesError) as caught:
        await between.client.delete(run)
    assert type(caught.value).__name__ == "AmbiguousDeleteError"
    assert len((await between.direct.list(run_id=run)).items) == (0 if executed else 1)
