"""`RunMonitor` and `AsyncRunMonitor`: what the trainers of prime-rl call."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import prime_async.runs
from prime_async.bridges import AsyncRunMonitor, RunMonitor
from prime_async.errors import PrimeTracesError
from tests.bridges.reading import Place
from tests.bridges.results import rollout, trace

RUN_CONFIG = SimpleNamespace(
    model=SimpleNamespace(name="qwen"),
    max_steps=20,
    batch_size=8,
    group_size=4,
    seq_len=2048,
    train=SimpleNamespace(env=[SimpleNamespace(id="math")]),
    model_dump=lambda **_: {"seed": 7},
)


@pytest.fixture(autouse=True)
def _environment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What launches a training says where it reports to."""
    for name in ("RANK", "DP_RANK", "RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PRIME_API_BASE", f"{place.url}/api/v1/rft")
    monkeypatch.setenv("PRIME_API_KEY", place.account["api_key"])


def ended(monitor: RunMonitor) -> Any:
    """The run, once it is delivered."""
    run: Any = monitor.run
    run._core.begin_finish("completed", None, {}, 30.0).result(30)
    return run


def test_the_life_of_a_training(place: Place, tmp_path: Path) -> None:
    """Opened from the trainer's configuration, completed with its last row."""
    monitor = RunMonitor({"run_name": "nightly"}, output_dir=tmp_path, run_config=RUN_CONFIG)
    monitor.log({"loss": 2.0, "bad": float("nan")}, step=1)
    monitor.log({"loss": 1.0}, step=2)
    monitor.log_samples([trace("of-step-2"), rollout(0)], step=2)
    monitor.log_eval_samples([trace("of-eval")], "math", step=2)
    monitor.log_distributions({"reward": [0.0, 1.0]}, step=2)
    monitor.log_final_samples()
    monitor.save_final_summary()
    monitor.close()
    run = ended(monitor)
    assert run.receipt.complete, run.errors
    told = place.get(f"/rft/external-runs/{run.id}")["run"]
    assert (told["status"], told["name"], told["baseModel"]) == ("COMPLETED", "nightly", "qwen")
    assert (told["maxSteps"], told["rolloutsPerExample"]) == (20, 4)
    assert told["runConfig"] == {"seed": 7}
    assert told["summary"] == {"loss": 1.0}
    assert place.rows(run) == [{"loss": 2.0, "step": 1}, {"loss": 1.0, "step": 2}]
    work = {one["id"]: one["run"]["work"] for one in place.traces(run.id)}
    assert work == {
        "of-step-2": {"type": "train", "step": 2},
        "of-eval": {"type": "eval", "step": 2},
    }
    found = place.get(f"/rft/external-runs/{run.id}/distributions")["distributions"]
    assert [(one["name"], one["step"]) for one in found] == [("reward", 2)]
    assert json.loads((tmp_path / "final_summary.json").read_text()) == {"loss": 1.0}
    assert monitor.history == [{"loss": 1.0}]


def test_closed_without_a_summary(place: Place) -> None:
    """The training did not come to its end: the run has failed."""
    monitor = RunMonitor(run_config=RUN_CONFIG)
    monitor.close()
    run = ended(monitor)
    told = place.get(f"/rft/external-runs/{run.id}")["run"]
    assert told["status"] == "FAILED"
    assert "before its final summary" in told["errorMessage"]


def test_the_run_of_the_environment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN_ID is the run to log to; only the first rank does."""
    with place.open("train") as run:
        monkeypatch.setenv("RUN_ID", run.id)
        monkeypatch.setenv("RANK", "1")
        silent = RunMonitor()
        silent.log({"loss": 9.0}, step=1)
        silent.save_final_summary()
        silent.close()
        assert not silent.enabled
        monkeypatch.setenv("RANK", "0")
        monitor = RunMonitor()
        monitor.log({"loss": 1.0}, step=1)
        ended(monitor)
        assert place.rows(run) == [{"loss": 1.0, "step": 1}]


def test_extras_say_which_steps(place: Place) -> None:
    """Samples of every second step; the last one's are kept for the end."""
    config = {"log_extras": {"samples": True, "distributions": False, "interval": 2}}
    with place.open("train") as run:
        monitor = RunMonitor(config, run=run, keep_full_history=True)
        for step in range(4):
            monitor.log({"step_of": step}, step=step)
            monitor.log_samples([trace(f"step-{step}")], step=step)
            monitor.log_distributions({"reward": [1.0]}, step=step)
        monitor.log_final_samples()
        monitor.log_final_samples()
        monitor.close()  # the run is ours
        assert not run.finished
    assert [one["id"] for one in place.traces(run.id)] == ["step-0", "step-2", "step-3"]
    assert place.get(f"/rft/external-runs/{run.id}/distributions")["distributions"] == []
    assert len(monitor.history) == 4


def test_nothing_raises(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Rollouts of another shape, and a run that is finished, are told as warnings."""

    class Broken:
        def to_record(self) -> Any:
            raise ValueError("no record")

    run = place.open("train")
    monitor = RunMonitor(run=run)
    with caplog.at_level(logging.WARNING, "prime_async.bridges"):
        monitor.log_samples([Broken()], step=1)
        assert "no record" in caplog.text
        run.finish()
        monitor.log({"loss": 1.0}, step=2)
    assert "takes nothing more" in caplog.text


def test_a_run_that_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The training goes on unreported, unless that is an error."""
    monkeypatch.setenv("PRIME_API_KEY", "pit_wrong_0123456789abcdef")
    with caplog.at_level(logging.WARNING, "prime_async.bridges"):
        monitor = RunMonitor(run_config=RUN_CONFIG)
    assert not monitor.enabled
    assert "the training is not reported" in caplog.text
    monitor.log({"loss": 1.0}, step=1)
    monitor.close()
    with pytest.raises(PrimeTracesError):
        RunMonitor(run_config=RUN_CONFIG, on_error="raise")


def episode(name: str, **fields: Any) -> dict[str, Any]:
    """An episode of one trace."""
    return {"id": f"episode-{name}", "ok": True, "traces": [trace(name)], **fields}


async def test_the_life_of_an_awaited_training(place: Place) -> None:
    """Opened by `init`, completed by `finalize`; episodes with their step and kind, each once."""

    class Told:
        def to_record(self) -> Any:
            return episode("object")

    monitor = AsyncRunMonitor({"name": "nightly"})
    await monitor.init(config=RUN_CONFIG, output_dir=None)
    await monitor.log({"loss": 2.0, "bad": float("nan")}, step=1)
    await monitor.log({"requests": 7}, step=None)
    await monitor.log([episode("one"), Told()], step=2, kind="train", subset="effective")
    await monitor.log([episode("one"), episode("left out")], step=2, kind="train", subset="all")
    await monitor.log(episode("scored"), step=2, kind="eval", subset="effective")
    await monitor.log_eval_plan("math", 2, expected=8, group_size=4)
    await monitor.log_eval_epoch("math", 2, [episode("scored")])
    await monitor.log_annotations([{"id": "one"}])
    await monitor.log_live([{"done": "one"}])
    await monitor.finalize()
    run: Any = monitor.run
    assert run.receipt.complete, run.errors
    told = place.get(f"/rft/external-runs/{run.id}")["run"]
    assert (told["status"], told["name"], told["baseModel"]) == ("COMPLETED", "nightly", "qwen")
    assert told["runConfig"] == {"seed": 7}
    assert place.rows(run) == [{"requests": 7}, {"loss": 2.0, "step": 1}]
    work = {one["id"]: one["run"]["work"] for one in place.traces(run.id)}
    assert work == {
        "one": {"type": "train", "step": 2},
        "object": {"type": "train", "step": 2},
        "scored": {"type": "eval", "step": 2},
    }


async def test_an_awaited_monitor_never_raises(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a run, in another rank, with records of no shape, behind the end."""
    monkeypatch.setenv("RANK", "1")
    silent = AsyncRunMonitor()
    await silent.init(config=RUN_CONFIG)
    await silent.log({"loss": 1.0}, step=1)
    await silent.finalize()
    assert silent.run is None
    monkeypatch.setenv("RANK", "0")
    options: dict[str, Any] = {"kind": "train", "model": "m", **place.account}
    async with await prime_async.runs.init(**options) as run:
        given = AsyncRunMonitor(run=run, subset="all")
        await given.init(config=RUN_CONFIG)
        await given.log([object()], step=1, subset="all")
        await given.finalize()
        assert not run.finished
    await given.log({"loss": 1.0}, step=2)
    assert "takes nothing more" in caplog.text
    monkeypatch.setenv("PRIME_API_KEY", "pit_wrong_0123456789abcdef")
    lost = AsyncRunMonitor()
    await lost.init(config=RUN_CONFIG)
    assert "the training is not reported" in caplog.text
    with pytest.raises(PrimeTracesError):
        await AsyncRunMonitor(on_error="raise").init(config=RUN_CONFIG)
