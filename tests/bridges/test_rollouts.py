"""`stream_results` and `RolloutLogger`: results of verifiers, without verifiers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import prime_async.bridges
import prime_async.runs
from prime_async.bridges import RolloutLogger
from prime_async.errors import InvalidEvaluationError
from prime_async.runs import ConfigurationError, RunFinishedError
from prime_sync.bridges import stream_results
from tests.bridges.reading import Place
from tests.bridges.results import LEGACY, rollout, trace, v1_run


def test_a_result_folder(place: Place) -> None:
    """Its rows are samples, its scores the summary."""
    with place.open() as run:
        streamed = stream_results(run, LEGACY)
    assert (streamed.records, streamed.refused) == (2, ())
    assert streamed.metrics == {"reward": 1.0, "format_reward": 1.0, "correctness": 1.0}
    samples = place.samples(run.id)
    assert [sample["example_id"] for sample in samples] == [0, 1]
    assert samples[0]["answer"]
    assert place.get(f"/evaluations/{run.id}")["metrics"] == streamed.metrics


async def test_a_run_of_v1(place: Place, tmp_path: Path) -> None:
    """Its episodes and traces are logged as such, from async code; by file or folder."""
    folder = v1_run(tmp_path / "run")
    options: dict[str, Any] = {"model": "m", "environments": ["math"], **place.account}
    async with await prime_async.runs.init(**options) as run:
        streamed = await prime_async.bridges.stream_results(run, folder / "traces.jsonl")
        again = await prime_async.bridges.stream_results(run, str(folder))
    assert streamed == again
    assert streamed.records == 4
    assert streamed.metrics == {
        "solved": 0.75,
        "speed": 0.4,
        "turns": 2.0,
        "reward": 0.64,
        "error": 0.25,
    }
    assert run.summary == streamed.metrics
    assert run.receipt is not None
    assert run.receipt.complete
    traces = place.traces(run.id)
    assert len(traces) == 6
    assert {one["run"]["id"] for one in traces} == {run.id}
    assert len(place.get(f"/episodes?run_id={run.id}")["items"]) == 3


def columns() -> dict[str, Any]:
    """Results of verifiers 0.1, column by column."""
    rows = [rollout(number) for number in range(2)]
    made: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    return {**made, "metrics": {"exact": [1.0, 1.0]}, "state": [{}, {}]}


def state(number: int) -> dict[str, Any]:
    """A rollout before it is made into a result: its input apart, a client within."""
    row = rollout(number)
    given = {name: row.pop(name) for name in ("example_id", "prompt")}
    return {"input": given, "client": object(), "trajectory": [object()], **row}


METADATA = {"env_id": "math", "avg_reward": 0.5, "avg_metrics": {"exact": 0.25}}


def lazily() -> Iterator[dict[str, Any]]:
    yield from (rollout(number) for number in range(2))


@pytest.mark.parametrize(
    "source",
    [
        {"outputs": [rollout(0), rollout(1)], "metadata": METADATA},
        {"rollouts": [rollout(0), rollout(1)], "metadata": METADATA},
        {"states": [state(0), state(1)], "metadata": METADATA},
        {**columns(), "metadata": METADATA},
        SimpleNamespace(**columns(), metadata=METADATA),
    ],
    ids=["outputs", "rollouts", "states", "columns", "object"],
)
def test_what_evaluate_returns(place: Place, source: Any) -> None:
    """Every version's way of handing results out gives the same samples and scores."""
    with place.open() as run:
        streamed = stream_results(run, source)
    assert streamed.metrics == {"exact": 0.25, "reward": 0.5}
    assert run.summary == streamed.metrics
    samples = place.samples(run.id)
    told = [{name: sample[name] for name in rollout(0)} for sample in samples]
    assert told == [rollout(0), rollout(1)]
    assert not {"client", "input", "trajectory"} & set(samples[0])


@pytest.mark.parametrize("source", [[rollout(0), rollout(1)], lazily()], ids=["list", "iterator"])
def test_any_iterable(place: Place, source: Any) -> None:
    """Records alone, without scores."""
    with place.open() as run:
        assert stream_results(run, source).metrics == {}
    assert [sample["example_id"] for sample in place.samples(run.id)] == [0, 1]


def test_bad_sources(place: Place, tmp_path: Path) -> None:
    """What holds no results is refused at once; a broken line is named, the others are logged."""
    with place.open() as run:
        with pytest.raises(ConfigurationError, match="a int holds no results"):
            stream_results(run, 3)  # type: ignore[arg-type]
        with pytest.raises(InvalidEvaluationError, match="not a result folder"):
            stream_results(run, tmp_path)
        with pytest.raises(FileNotFoundError):
            stream_results(run, tmp_path / "none.jsonl")
        file = tmp_path / "rows.jsonl"
        file.write_text('{"id": 7, "reward": 1.0}\n{"id": \n[]\n{"id": 8}\n')
        streamed = stream_results(run, file)
    assert [line.partition(": ")[0] for line in streamed.refused] == [f"{file}:2", f"{file}:3"]
    assert [sample["example_id"] for sample in place.samples(run.id)] == [7, 8]
    with pytest.raises(RunFinishedError):
        stream_results(run, [rollout(0)])


def test_a_full_queue_is_waited_for(place: Place) -> None:
    """Forty times what the queue holds goes through it, and nothing is dropped."""
    rows = [rollout(number, info={"text": "x" * 4096}) for number in range(400)]
    with place.open(queue_bytes=40_000) as run:
        stream_results(run, rows)
    assert run.receipt is not None
    assert (run.receipt.counts.delivered, run.dropped_records) == (400, 0)
    assert run.stats().queue_peak_bytes <= 40_000


class Recorded:
    """An object that describes itself, as traces of v1 do."""

    def to_record(self) -> dict[str, Any]:
        return trace("described")


@pytest.mark.parametrize("source", [trace("one"), Recorded()], ids=["mapping", "object"])
def test_a_single_trace(place: Place, source: Any) -> None:
    """Is one record, not what can be iterated out of it."""
    with place.open() as run:
        assert stream_results(run, source).records == 1
    assert len(place.traces(run.id)) == 1


async def test_as_episodes_complete(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """The hook of 0.4 is awaited, waits for room, and never fails the evaluation."""
    options: dict[str, Any] = {"model": "m", "environments": ["math"], **place.account}
    async with await prime_async.runs.init(queue_bytes=4000, **options) as run:
        log = RolloutLogger(run)
        for number in range(20):
            await log.on_complete({"id": f"e{number}", "ok": True, "traces": [trace(f"t{number}")]})
    assert run.receipt is not None
    assert (run.receipt.counts.delivered, run.dropped_records) == (20, 0)
    assert run.stats().queue_peak_bytes <= 4000
    assert run.summary == {"right": 1.0, "reward": 1.0, "error": 0.0}
    await log.on_complete(trace("late"))
    log.on_progress([], [rollout(1), rollout(2)], METADATA)
    assert log.missed == 3
    assert caplog.text.count("rollouts are not kept") == 1


def test_as_episodes_complete_into_a_blocking_run(place: Place) -> None:
    """The hook is the same there."""
    with place.open() as run:
        asyncio.run(RolloutLogger(run).on_complete(trace("blocking")))
    assert [one["id"] for one in place.traces(run.id)] == ["blocking"]


def test_one_by_one(place: Place) -> None:
    """Rollouts as they finish, and the callback that verifiers calls with the new ones."""
    with place.open() as run:
        log = RolloutLogger(run)
        log(rollout(0), trace("plain"), Recorded())
        log.on_progress([rollout(0), rollout(1)], [rollout(1)])
        log.on_progress([rollout(0), rollout(1), rollout(2)], [rollout(2)], METADATA)
    assert [sample["example_id"] for sample in place.samples(run.id)] == [0, 1, 2]
    assert {one["id"] for one in place.traces(run.id)} == {"plain", "described"}
    assert run.summary == {"exact": 0.25, "reward": 0.5}
