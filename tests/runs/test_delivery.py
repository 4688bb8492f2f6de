"""Deliveries: batches, refusals one by one, failures, recovery."""

from __future__ import annotations

import math
from typing import Any

import pytest

from prime_async.runs import ConfigurationError
from tests.runs.opening import OpenRun, episode, trace
from tests.runs.platform_double import PlatformDouble
from tests.stub import Answer

BUSY = Answer(503, json={"error": {"code": "ingest_unavailable", "message": "busy"}})


async def test_records_of_many_calls_travel_together(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """A hundred calls are one or two requests, stamped, with the context of the run."""
    run = await open_run(framework="f", project="p")
    for number in range(100):
        run.log_trace(trace(f"t{number}", run={"name": "kept", "id": "not ours"}))
    assert await run.flush()
    assert double.posts <= 2
    assert sorted(double.ids) == sorted(f"t{number}" for number in range(100))
    assert double.records[0]["run"] == {"name": "kept", "id": run.id, "type": "eval"}
    context = next(iter(double.uploads.values())).context
    assert context == {
        "source": "prime-async",
        "run_type": "eval",
        "framework": "f",
        "model": "m",
        "project": "p",
    }


async def test_traces_and_episodes_never_share_a_batch(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """By what a record is, not by which call logged it; members are stamped as well."""
    run = await open_run("train")
    run.log_episodes([episode("e1", trace("m1"), trace("m2", run={"work": {"step": 3}}))])
    run.log_traces([trace("t1"), episode("e2", trace("m3"))])
    assert await run.flush()
    formats = {
        upload.line_format: [line["id"] for line in upload.lines]
        for upload in double.uploads.values()
    }
    assert formats == {"episode": ["e1", "e2"], "trace": ["t1"]}
    members = next(line["traces"] for line in double.records if line["id"] == "e1")
    assert members[1]["run"] == {"work": {"step": 3}, "id": "tr-1", "type": "train"}


async def test_a_record_is_what_it_was_when_it_was_logged(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """Changing it afterwards changes nothing that is sent."""
    run = await open_run()
    record = trace("t", info={"a": 1})
    run.log_trace(record)
    record["info"]["a"] = 2
    assert await run.flush()
    assert double.records[0]["info"] == {"a": 1}


async def test_values_that_cannot_be_written_cost_their_record_only(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """The path is named, the others go on, the counts add up."""
    run = await open_run()
    run.log_traces([trace("a"), trace("b", info={"x": object()}), "text", trace("c", n=math.nan)])
    assert await run.flush()
    assert double.ids == ["a", "c"]
    assert double.records[1]["n"] is None
    receipt = await run.finish()
    assert receipt.counts.refused == 2
    assert "traces[1].info.x" in receipt.refused[0].reason
    assert run.failed_records == {"traces": 2}


async def test_poison_is_found_and_the_rest_delivered(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """A refused batch is cut until the records at fault stand alone; they are kept and named."""
    double.poison = {"t3", "t60"}
    run = await open_run()
    run.log_traces(trace(f"t{number}") for number in range(64))
    assert await run.flush()
    assert sorted(double.ids) == sorted(f"t{n}" for n in range(64) if n not in (3, 60))
    receipt = await run.finish()
    assert (receipt.counts.delivered, receipt.counts.refused) == (62, 2)
    assert {one.index for one in receipt.refused} == {3, 60}
    assert receipt.refused[0].status == 400
    assert receipt.refused_path is not None
    kept = b"".join(path.read_bytes() for path in receipt.refused_path.glob("*.seg"))
    assert b'"id":"t3"' in kept
    assert open_run.left() == ["run.refused"]


async def test_a_failed_batch_is_kept_and_delivered_later_by_the_run(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """With the same bytes under the same key, so that it cannot arrive twice."""
    double.faults = [BUSY]
    run = await open_run()
    run.log_trace(trace("a"))
    assert not await run.flush()
    assert run.undelivered_records == 1
    run.log_trace(trace("b"))
    receipt = await run.finish()
    assert sorted(double.ids) == ["a", "b"]
    assert receipt.complete
    assert open_run.left() == []


async def test_an_answer_that_is_lost_is_no_second_copy(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """The connection breaks after the platform stored the batch."""
    run = await open_run()
    stored: list[Any] = []

    def store_and_cut(request: Any) -> Answer:
        stored.append(double._upload(request))
        return Answer(status=0, end="cut") if len(stored) == 1 else stored[-1]

    double.stub.route("POST", "/api/v1/traces", store_and_cut)
    run.log_traces([trace("a"), trace("b")])
    assert not await run.flush()
    receipt = await run.finish()
    assert double.ids == ["a", "b"]
    assert len(double.uploads) == 1
    assert receipt.complete


@pytest.mark.parametrize("policy", ["drop_new", "drop_old", "spool"])
async def test_policies_of_a_full_queue(
    open_run: OpenRun, double: PlatformDouble, policy: Any
) -> None:
    """The newest goes, the oldest goes, or it waits on disk; never is anything uncounted."""
    double.down = True
    run = await open_run(queue_bytes=5_000, queue_policy=policy, concurrency=1)
    for number in range(20):
        run.log_trace(trace(f"t{number}", text="x" * 500))
    counts = run.stats().counts
    assert counts.logged == 20
    assert run.stats().queue_peak_bytes <= 5_000
    double.down = False
    receipt = await run.finish()
    if policy == "spool":
        assert sorted(double.ids) == sorted(f"t{number}" for number in range(20))
        assert receipt.complete
        return
    assert receipt.counts.dropped == run.dropped_records > 10
    assert receipt.counts.delivered + receipt.counts.dropped == 20
    assert policy == "drop_old" or "t0" in double.ids


async def test_rows_of_metrics_outlast_a_queue_full_of_traces(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """With ``drop_old`` the traces give way that fill it; each is counted as what it is."""
    double.stub.route("POST", "/api/v1/.*(traces|metric-rows)", Answer(end="silent"))
    run = await open_run(queue_bytes=8_000, queue_policy="drop_old", concurrency=1)
    before = len(double.stub.requests)
    run.log_trace(trace("on its way"))
    await double.stub.wait_for(before + 1)  # nothing else is taken meanwhile
    run.log_traces(trace(f"t{number}", text="x" * 500) for number in range(20))
    for step in range(5):
        run.log_metrics({"loss": 1.0}, step=step)
    counts = run.stats().by_sink
    assert (counts["eval_metrics"].queued, counts["eval_metrics"].dropped) == (5, 0)
    assert counts["traces"].dropped == 21 - counts["traces"].queued > 5
    await run.finish(timeout=0)


async def test_waiting_for_room_loses_nothing(open_run: OpenRun, double: PlatformDouble) -> None:
    """``alog_traces`` is held back by a full queue, and the loop is not."""
    run = await open_run(queue_bytes=3_000)
    await run.alog_traces(trace(f"t{number}", text="x" * 500) for number in range(30))
    receipt = await run.finish()
    assert receipt.complete
    assert len(double.ids) == 30


async def test_metrics_keep_the_order_of_a_step(open_run: OpenRun, double: PlatformDouble) -> None:
    """Many rows per request where the platform takes that; NaN is left out and counted."""
    run = await open_run("train")
    for number in range(2500):
        run.log_metrics({"loss": 1.0 / (number + 1), "bad": math.nan}, step=number // 2)
    assert await run.flush()
    assert [row["step"] for row in double.rows] == [number // 2 for number in range(2500)]
    assert "bad" not in double.rows[0]
    assert run.stats().nonfinite == 2500
    assert len(double.stub.seen("POST", "/api/v1/rft/metrics")) <= 4


async def test_metrics_one_by_one_on_the_official_wire(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """One row per request, those of a step in order; evaluations have no place for them."""
    double.features = ""
    run = await open_run("train")
    for number in range(40):
        run.log_metrics({"n": number}, step=number % 4)
    assert await run.flush()
    assert len(double.stub.seen("POST", "/api/v1/rft/metrics")) == 40
    for step in range(4):
        numbers = [row["n"] for row in double.rows if row["step"] == step]
        assert numbers == sorted(numbers)
    other = await open_run("eval")
    other.log_metrics({"n": 1})
    await other.flush()
    assert other.failed_records == {"eval_metrics": 1}


async def test_samples_and_distributions(open_run: OpenRun, double: PlatformDouble) -> None:
    """Both arrive, for both kinds of run."""
    run = await open_run("eval")
    run.log_samples([{"example_id": 1, "reward": 1.0}])
    run.log_distributions({"reward": [0.0, 1.0]}, step=3)
    assert await run.flush()
    assert double.samples == [{"example_id": 1, "reward": 1.0}]
    assert double.distributions == [{"step": 3, "distributions": {"reward": [0.0, 1.0]}}]
    train = await open_run("train")
    train.log_samples([{"example_id": 2, "step": 7}])
    train.log_distributions({"reward": [0.5]}, step=4)
    assert await train.flush()
    request = double.stub.seen("POST", "/api/v1/rft/samples")[0].json()
    assert (request["step"], request["samples"]) == (7, [{"example_id": 2, "step": 7}])
    assert double.distributions[-1]["run_id"] == "tr-1"


async def test_redaction_happens_before_anything_else(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """What it removes is never seen; the key of the platform is removed without being asked."""

    def redact(record: Any) -> Any:
        if record.get("id") == "hidden":
            return None
        if record.get("id") == "broken":
            raise ValueError("no")
        return {**record, "secret": "gone"}

    run = await open_run(redact=redact, config={"key": open_run.key})
    run.log_traces([trace("a", secret="s3cret", header=open_run.key), trace("hidden")])
    run.log_trace(trace("broken"))
    assert await run.flush()
    assert [line["secret"] for line in double.records] == ["gone"]
    assert double.records[0]["header"] == "[redacted]"
    assert double.created[0]["metadata"] == {"key": "[redacted]"}
    assert run.stats().counts.logged == 2
    assert run.failed_records == {"traces": 1}


async def test_receipts_are_handed_over(open_run: OpenRun, double: PlatformDouble) -> None:
    """``on_batch`` is told of each batch; an error in it is contained."""
    receipts: list[Any] = []

    def note(receipt: Any) -> None:
        receipts.append(receipt)
        raise RuntimeError("the user's own")

    run = await open_run(on_batch=note)
    run.log_trace(trace("a"))
    assert await run.flush()
    assert (receipts[0].sink, receipts[0].records) == ("traces", 1)
    assert receipts[0].upload_id in double.uploads
    assert "the user's own" in run.errors[0]


async def test_a_full_disk_is_counted_and_contained(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """What can be neither delivered nor kept is lost, counted and said."""
    double.down = True
    run = await open_run(spool_bytes=2_000)
    run.log_traces(trace(f"t{number}", text="x" * 500) for number in range(10))
    receipt = await run.finish()
    assert receipt.counts.lost > 0
    assert receipt.counts.spooled + receipt.counts.lost == 10


NODES = [
    {"parent": None, "message": {"role": "user", "content": "2+2?"}, "sampled": False},
    {"parent": 0, "message": {"role": "assistant", "content": "4"}, "sampled": True},
]


@pytest.mark.parametrize("why", ["opt-out", "service off"])
async def test_accounts_without_the_traces_service_get_rows(
    open_run: OpenRun, double: PlatformDouble, why: str
) -> None:
    """Who opts out never contacts it; where it is off, the first batch goes to the rows as well."""
    off = {"error": {"code": "service_not_enabled", "message": "off"}}
    double.stub.route("POST", "/api/v1/traces", Answer(403, json=off))
    run = await open_run(traces_opt_out=why == "opt-out")
    solved = trace("a", nodes=NODES, rewards={"right": {"score": 1.0, "weight": 0.5}})
    run.log_episode(episode("e", solved, trace("b", nodes=NODES)))
    assert await run.flush()
    run.log_trace(trace("c", nodes=NODES))
    assert await run.flush()
    assert len(double.stub.seen("POST", "/api/v1/traces")) == (0 if why == "opt-out" else 2)
    rows = {row["sample_id"]: row for row in double.samples}
    assert set(rows) == {"a", "b", "c"}
    assert (rows["a"]["reward"], rows["a"]["right"]) == (0.5, 1.0)
    assert rows["a"]["completion"] == [{"role": "assistant", "content": "4"}]
    assert (await run.finish()).complete


async def test_another_refusal_of_the_account_retires_and_keeps(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """A key without the scope is no reason to send traces elsewhere."""
    double.stub.route("POST", "/api/v1/traces", Answer(403, json={"error": {"code": "forbidden"}}))
    run = await open_run()
    run.log_trace(trace("a"))
    assert not await run.flush()
    assert run.stats().sinks["traces"] == "retired"
    assert double.samples == []
    assert (await run.finish()).counts.spooled == 1


async def test_damage_on_disk_holds_nothing_up(open_run: OpenRun, double: PlatformDouble) -> None:
    """What cannot be read any more stays where it is, and the finish ends all the same."""
    double.faults = [BUSY]
    run = await open_run()
    run.log_trace(trace("broken"))
    assert not await run.flush()
    (segment,) = open_run.spool.glob("run.traces/*/*.seg")
    data = segment.read_bytes().replace(b'"id":"broken"', b'"id":"BROKEN"')
    segment.write_bytes(data)
    run.log_trace(trace("whole"))
    receipt = await run.finish()
    assert double.ids == ["whole"]
    assert (receipt.counts.delivered, receipt.counts.spooled) == (1, 1)
    (synced,) = await open_run.sync()
    assert "cannot be read" in str(synced.problem)


@pytest.mark.parametrize("level", [0, 9])
async def test_the_level_of_gzip(open_run: OpenRun, double: PlatformDouble, level: int) -> None:
    """Is the one that was asked for, even where the platform reads something faster."""
    double.features = "traces-zstd"
    run = await open_run(gzip_level=level)
    run.log_trace(trace("a", text="x" * 100_000))
    assert (await run.finish()).complete
    assert double.ids == ["a"]
    (request,) = double.stub.seen("POST", "/api/v1/traces")
    assert (len(request.body) > 100_000) == (level == 0)


@pytest.mark.parametrize("level", [-1, 10, True, "fast"])
async def test_levels_that_gzip_has_not(
    open_run: OpenRun, double: PlatformDouble, level: Any
) -> None:
    """Refused before anything is made."""
    with pytest.raises(ConfigurationError, match=r"gzip_level is .* 0 to 9"):
        await open_run(gzip_level=level)
    assert double.created == []
