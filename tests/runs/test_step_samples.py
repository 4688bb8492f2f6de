"""Training runs without the traces service: their samples go as files of Parquet, step by step."""

from __future__ import annotations

import io
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from prime_async.api import AsyncAPIClient
from prime_async.runs import ConfigurationError, sync_runs
from tests.platform import running_platform
from tests.runs.opening import ONCE, OpenRun, episode, trace
from tests.runs.platform_double import BATCHING, SIGNATURE, PlatformDouble
from tests.stub import Answer, Request

NODES = [
    {"parent": None, "message": {"role": "user", "content": "2+2?"}, "sampled": False},
    {"parent": 0, "message": {"role": "assistant", "content": "4"}, "sampled": True},
]
PRESIGN, PUT, CONFIRM = (
    ("POST", "/api/v1/rft/samples/presign"),
    ("PUT", "/store/.*"),
    ("POST", "/api/v1/rft/samples/confirm"),
)
BUSY = Answer(503, json={"error": {"code": "unavailable", "message": "busy"}})


def work(name: str, step: int, **more: Any) -> dict[str, Any]:
    """An episode of one trace that a trainer got at a step."""
    run = {"work": {"type": "train", "step": step}}
    return episode(name, trace(f"{name}-t", nodes=NODES)) | {"run": run} | more


def rows_of(data: bytes) -> list[dict[str, Any]]:
    """What is in a file."""
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()
    return rows


@pytest.fixture
def _no_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)


async def test_the_way_of_the_service(open_run: OpenRun, double: PlatformDouble) -> None:
    """Every tenth step is a file of its own at an address that gets no key; the rest is counted."""
    run = await open_run("train", traces_opt_out=True)
    run.log_episodes([work("a", 10), work("b", 10), work("c", 13), work("d", 20)])
    run.log_trace(trace("bare", nodes=NODES, run={"work": {"type": "train", "step": 0}}))
    run.log_trace(trace("idle", nodes=NODES))
    run.log_episode(work("judged", 10, run={"work": {"type": "eval", "step": 10}}))
    run.log_episode(work("empty", 10, traces=[]))
    receipt = await run.finish()
    assert receipt.complete
    assert (receipt.counts.delivered, receipt.counts.left_out) == (4, 4)
    assert str(receipt) == "4 of 8 records delivered, 4 left out"
    assert receipt.by_sink.keys() == {"rft_samples"}
    assert double.posts == 0
    stored = {step: rows_of(double.files[key]) for step, key in double.confirmed}
    assert {step: len(rows) for step, rows in stored.items()} == {0: 1, 10: 2, 20: 1}
    assert [row["sample_id"] for row in stored[10]] == [0, 1]
    assert {(row["run_id"], row["step"]) for row in stored[10]} == {("tr-1", 10)}
    assert json.loads(stored[20][0]["completion"]) == [{"role": "assistant", "content": "4"}]


async def test_files_of_a_step_have_their_own_numbers(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """Counted by who made the run; by others from the upper half, below what JSON can say."""
    run = await open_run("train", traces_opt_out=True)
    for name in "ab":
        run.log_episode(work(name, 10))
        assert await run.flush()
    other = await open_run("train", traces_opt_out=True, id="tr-1")
    other.log_episode(work("c", 10))
    assert await other.flush()
    ids = [rows_of(double.files[key])[0]["sample_id"] for _, key in double.confirmed]
    assert ids[:2] == [0, 2**32]
    assert 2**52 <= ids[2] < 2**53


@pytest.mark.parametrize("durable", [True, False])
async def test_a_lost_answer_is_no_second_file(
    open_run: OpenRun, double: PlatformDouble, durable: bool
) -> None:
    """The confirmation arrived, its answer did not: whoever goes on confirms the same file."""
    run = await open_run("train", traces_opt_out=True, durable=durable)
    sent: list[Answer] = []

    def confirm_and_cut(request: Request) -> Answer:
        sent.append(double._confirm(request))
        return Answer(status=0, end="cut")

    double.stub.route(*CONFIRM, confirm_and_cut)
    run.log_episodes([work("a", 10), work("b", 11), work("c", 20)])
    receipt = await run.finish(timeout=2.0)
    assert len(sent) == 1
    assert receipt.counts.spooled == 3
    double.stub.route(*CONFIRM, double._confirm)
    (synced, *_) = await open_run.sync()
    assert (synced.delivered, synced.left_out, synced.problem) == (2, 1, None)
    assert [step for step, _ in double.confirmed] == [10, 20]
    assert len(double.files) == 2
    assert open_run.left() == []


async def test_kill_9_between_confirmation_and_answer(
    open_run: OpenRun, double: PlatformDouble, tmp_path: Path
) -> None:
    """What a killed process leaves on disk says already which file it was about to confirm."""
    run = await open_run("train", traces_opt_out=True, durable=True)
    seen: list[Path] = []

    def confirm(request: Request) -> Answer:
        copy = tmp_path / "as it was"
        if not seen:
            (entry,) = open_run.spool.glob("run.episodes/*")
            seen.append(copy)
            copy.mkdir()
            for file in entry.iterdir():
                if file.is_file():
                    (copy / file.name).write_bytes(file.read_bytes())
        return double._confirm(request)

    double.stub.route(*CONFIRM, confirm)
    run.log_episode(work("a", 10))
    assert (await run.finish()).complete
    async with AsyncAPIClient(open_run.key, base_url=open_run.url, retry=ONCE) as api:
        (synced,) = await sync_runs(api, seen[0], spool_dir=tmp_path / "elsewhere")
    assert (synced.delivered, synced.problem) == (1, None)
    assert len(double.confirmed) == len(double.files) == 1


async def test_a_file_that_was_forgotten_is_uploaded_again(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """Nobody confirmed it in time."""
    run = await open_run("train", traces_opt_out=True)
    double.stub.route(*CONFIRM, BUSY)
    run.log_episode(work("a", 10))
    assert not await run.flush()
    double.files.clear()
    double.stub.route(*CONFIRM, double._confirm)
    assert (await run.finish()).complete
    assert len(double.confirmed) == 1


@pytest.mark.parametrize("fault", [Answer(403), Answer(400), Answer(status=0, end="cut"), BUSY])
async def test_a_store_that_fails_costs_nothing(
    open_run: OpenRun, double: PlatformDouble, fault: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    """Tried three times where that may help, then kept for another address; none is ever shown."""
    caplog.set_level(logging.DEBUG)
    run = await open_run("train", traces_opt_out=True)
    double.stub.route(*PUT, fault)
    run.log_episode(work("a", 10))
    assert not await run.flush()
    assert run.stats().sinks["rft_samples"] == "working"
    passing = fault.status in (0, 503)
    assert len(double.stub.seen(*PUT)) == (3 if passing else 1)
    double.stub.route(*PUT, double._put)
    assert (await run.finish()).complete
    assert len(double.confirmed) == 1
    assert run.errors
    for text in (*run.errors, caplog.text):
        assert SIGNATURE[-6:] not in text
        assert "/store/" not in text


async def test_a_file_that_is_too_large_is_cut(open_run: OpenRun, double: PlatformDouble) -> None:
    """In halves, down to the record at fault."""

    def put(request: Request) -> Answer:
        return Answer(413) if len(rows_of(request.body)) > 1 else double._put(request)

    double.stub.route(*PUT, put)
    run = await open_run("train", traces_opt_out=True)
    run.log_episodes([work(name, 10) for name in "abc"])
    run.log_episode(work("pair", 20, traces=[trace(name, nodes=NODES) for name in "xy"]))
    receipt = await run.finish()
    assert (receipt.counts.delivered, receipt.counts.refused) == (3, 1)
    assert [len(rows_of(data)) for data in double.files.values()] == [1, 1, 1]


async def test_where_the_service_is_off(open_run: OpenRun, double: PlatformDouble) -> None:
    """The batch that finds out goes the same way, and what follows."""
    off = {"error": {"code": "service_not_enabled", "message": "off"}}
    double.stub.route("POST", "/api/v1/traces", Answer(403, json=off))
    run = await open_run("train")
    run.log_episodes([work("a", 10), work("b", 11)])
    assert await run.flush()
    double.stub.route(*CONFIRM, BUSY)
    run.log_episode(work("c", 10))
    assert not await run.flush()
    double.stub.route(*CONFIRM, double._confirm)
    receipt = await run.finish()
    assert (receipt.counts.delivered, receipt.counts.left_out) == (2, 1)
    assert [step for step, _ in double.confirmed] == [10, 10]
    assert len(double.files) == 2


@pytest.mark.usefixtures("_no_pyarrow")
async def test_without_pyarrow_nothing_begins(open_run: OpenRun, double: PlatformDouble) -> None:
    """Refused before a run is made; an evaluation, and a run with the service, do not need it."""
    with pytest.raises(ConfigurationError, match=r"needs pyarrow.*prime-async\[parquet\]"):
        await open_run("train", traces_opt_out=True)
    assert double.created == []
    await open_run("train")
    await open_run("eval", traces_opt_out=True)
    assert len(double.created) == 2


@pytest.mark.usefixtures("_no_pyarrow")
async def test_without_pyarrow_rows_inside_requests(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """On platforms that say they take them: the same records, and only once."""
    double.features = f"{BATCHING},run-samples-inline"
    double.stub.route("GET", "/api/v1/user/whoami", double._answer({}))
    run = await open_run("train", traces_opt_out=True)
    run.log_episodes([work("a", 10), work("b", 11), work("c", 20)])
    receipt = await run.finish()
    assert (receipt.counts.delivered, receipt.counts.left_out) == (2, 1)
    assert [(row["sample_id"], row["step"]) for row in double.samples] == [("a-t", 10), ("c-t", 20)]
    assert double.files == {}


@pytest.mark.usefixtures("_no_pyarrow")
async def test_without_pyarrow_where_the_service_is_off(
    open_run: OpenRun, double: PlatformDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no way then: records wait on disk for a process that has one."""
    off = {"error": {"code": "service_not_enabled", "message": "off"}}
    double.stub.route("POST", "/api/v1/traces", Answer(403, json=off))
    run = await open_run("train")
    run.log_episode(work("a", 10))
    receipt = await run.finish()
    assert receipt.counts.spooled == 1
    assert "need pyarrow" in receipt.errors[0]
    monkeypatch.undo()
    synced = await open_run.sync()
    assert sum(one.delivered for one in synced) >= 1
    assert len(double.confirmed) == 1


@pytest.mark.parametrize("parquet", [True, False])
async def test_on_the_embedded_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parquet: bool
) -> None:
    """Files of the step, as Parquet or as JSON, readable and whole."""
    if not parquet:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    async with running_platform(tmp_path) as platform:
        opener = OpenRun(platform.url, tmp_path / "spool", platform.key)
        run = await opener("train", traces_opt_out=True)
        run.log_episodes([work("a", 10), work("b", 10), work("c", 11)])
        receipt = await run.finish()
        assert receipt.complete, receipt
        async with AsyncAPIClient(platform.key, base_url=platform.url) as api:
            listed = await api.get(f"/rft/external-runs/{run.id}/samples")
            (found,) = listed["objects"]
            path = f"/rft/external-runs/{run.id}/samples/{found['key']}"
            transport = await api.connect()
            data = (await transport.request("GET", path)).body
            assert (await api.get("/traces", {"run_id": run.id}))["items"] == []
    assert (found["step"], found["format"]) == (10, "parquet" if parquet else "json")
    monkeypatch.undo()
    rows = rows_of(data) if parquet else json.loads(data)
    assert len(rows) == 2
