"""Runs from ``init`` to their end: what the platform is told, and by whom."""

from __future__ import annotations

import asyncio
import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest

from prime_async.api import AsyncAPIClient
from prime_async.runs import (
    ConfigSource,
    ConfigurationError,
    EnvironmentRef,
    EnvironmentResolutionError,
    RunStatus,
    TrainingSpec,
    watch_runs,
)
from prime_async.traces import PrimeTracesError
from prime_async.transport import RetryPolicy
from tests.faces import Face
from tests.platform import RunningPlatform, running_platform
from tests.runs.opening import OpenRun, trace
from tests.runs.platform_double import PlatformDouble
from tests.stub import Answer


async def test_an_evaluation_is_made(open_run: OpenRun, double: PlatformDouble) -> None:
    """Every form of environment; a name of its own making; a lease."""
    run = await open_run(
        environments=["owner/name", "bare", {"name": "x", "version_id": "v"}, EnvironmentRef("y")],
        framework="f",
        description="d",
        tags=["a"],
        project="p",
        config={"lr": 1e-4, "bad": math.nan},
    )
    body = double.created[0]
    assert [one["id"] for one in body["environments"]] == ["env-2", "env-1", "env-1", "env-1"]
    assert body["environments"][2]["version_id"] == "v"
    assert body["name"].startswith("p-name-")
    assert (body["framework"], body["description"], body["tags"]) == ("f", "d", ["a"])
    assert body["metadata"] == run.config == {"lr": 1e-4, "bad": None}
    assert double.leases == ["120"]
    assert run.url == f"{open_run.url}/dashboard/evaluations/ev-1"


async def test_a_training_run_is_made(open_run: OpenRun, double: PlatformDouble) -> None:
    """With what the spec says; the file of its configuration goes along word for word."""
    source = ConfigSource("toml", "lr = 1\n", "rl.toml")
    spec = TrainingSpec(max_steps=10, batch_size=4, seq_len=128, wandb_project="w")
    run = await open_run("train", name="n", training=spec, config=source)
    assert double.created[0] == {
        "base_model": "m",
        "max_steps": 10,
        "batch_size": 4,
        "seq_len": 128,
        "wandb_project": "w",
        "name": "n",
        "environments": [{"id": "math"}],
        "run_config": {
            "config_source": {"format": "toml", "text": "lr = 1\n", "filename": "rl.toml"}
        },
    }
    assert run.config_source == double.created[0]["run_config"]["config_source"]


async def test_files_of_configurations(open_run: OpenRun, tmp_path: Path) -> None:
    """By suffix; too large, unreadable or of another type is refused before any request."""
    file = tmp_path / "conf.yaml"
    file.write_text("a: 1\n")
    run = await open_run(config=file)
    assert run.config_source == {"format": "yaml", "text": "a: 1\n", "filename": "conf.yaml"}
    file.write_text("x" * (256 * 1024 + 1))
    for config in (file, tmp_path / "none.toml", 3, {"x": object()}):
        with pytest.raises(ConfigurationError):
            await open_run(config=config)


async def test_an_environment_that_does_not_exist(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """Is an error of its own."""
    double.stub.route("GET", "/api/v1/environmentshub/.*", Answer(404, json={}))
    with pytest.raises(EnvironmentResolutionError, match="owner/none"):
        await open_run(environments=["owner/none"])


async def test_attaching_makes_nothing_and_fails_nothing(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """A run that exists is logged to; only a clean end is reported."""
    run = await open_run(id="ev-1", environments=None)
    assert run.attached
    assert double.stub.requests == []
    run.log_trace(trace("t"))
    receipt = await run.fail(ValueError("boom"))
    assert (receipt.status, receipt.error) == (RunStatus.FAILED, "ValueError: boom")
    assert double.endings == []
    assert double.ids == ["t"]
    other = await open_run(id="ev-1")
    await other.finish({"a": 1})
    assert double.endings == [("POST /api/v1/evaluations/ev-1/finalize", {"metrics": {"a": 1}})]


async def test_finishing_twice_and_at_the_same_time(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """The first counts, all get its receipt, the platform is told once."""
    run = await open_run("train")
    run.log_trace(trace("t"))
    run.update_summary({"a": 1, "bad": math.inf, "in": {"b": 2.0, "bad": math.nan}})
    first, second = await asyncio.gather(run.finish({"c": 3}), run.fail("late"))
    assert first is second is await run.finish()
    assert run.summary == {"a": 1, "in": {"b": 2.0}, "c": 3}
    assert double.endings == [
        (
            "POST /api/v1/rft/finalize",
            {"run_id": "tr-1", "exit_code": 0, "summary": {"a": 1, "in": {"b": 2.0}, "c": 3}},
        )
    ]
    with pytest.raises(ConfigurationError):
        await (await open_run()).finish(status="running")


async def test_an_end_that_is_known_already_is_no_error(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """409 means that somebody closed it before."""
    run = await open_run("train", on_error="raise")
    double.stub.route("POST", "/api/v1/rft/finalize", Answer(409, json={"detail": "closed"}))
    assert (await run.finish()).reported


async def test_finalizing_falls_back_to_the_status(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """As the official client does where the platform has no finalize."""
    run = await open_run("train")
    double.stub.route("POST", "/api/v1/rft/finalize", Answer(404, json={}))
    assert (await run.finish()).reported
    assert double.endings[-1][1] == {"status": "completed"}


async def test_a_cancelled_finish_goes_on(open_run: OpenRun, double: PlatformDouble) -> None:
    """Whoever waits may leave; the end is not undone."""
    run = await open_run()
    run.log_trace(trace("t"))
    waiting = asyncio.create_task(run.finish())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await run.finish()).complete
    assert len(double.endings) == 1


async def test_the_lease_is_renewed_while_the_run_lives(
    open_run: OpenRun, double: PlatformDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the platform has leases."""
    monkeypatch.setattr("prime_async.runs.serving.LEASE_SECONDS", 0.04)
    run = await open_run("train")
    async with asyncio.timeout(10):
        while len(double.leases) < 3:
            await asyncio.sleep(0.01)
    await run.finish()
    assert double.leases[1:3] == ["/api/v1/runs/train/tr-1/lease"] * 2


async def test_a_run_stays_in_its_process(open_run: OpenRun) -> None:
    """Pickling it says what to do in its place."""
    run = await open_run()
    with pytest.raises(PrimeTracesError, match=run.id):
        pickle.dumps(run)


@pytest.fixture
async def platform(tmp_path: Path) -> Any:
    """The embedded platform in the loop of the test."""
    async with running_platform(tmp_path) as running:
        yield running


@pytest.mark.parametrize("kind", ["eval", "train"])
@pytest.mark.parametrize("face", ["async", "sync"])
async def test_a_life_on_the_embedded_platform(
    platform: RunningPlatform, tmp_path: Path, face: str, kind: str
) -> None:
    """Both faces, both kinds: everything that was logged is read back."""
    opener = OpenRun(platform.url, tmp_path / "spool", platform.key)
    run: Any
    if face == "async":
        run = await opener(kind, name="n")
        _log_everything(run)
        receipt = await run.finish({"best": 0.5})
    else:
        receipt = await asyncio.to_thread(_sync_life, opener.options(kind, name="n"))
    assert receipt.complete, receipt
    assert receipt.reported
    async with Face("async").AsyncAPIClient(platform.key, base_url=platform.url) as api:
        base = f"/{'evaluations' if kind == 'eval' else 'rft/external-runs'}/{receipt.run_id}"
        whole = await api.get(base)
        rows = await api.get(f"{base}/{'metric-rows' if kind == 'eval' else 'metrics'}")
        shapes = await api.get(f"{base}/distributions")
        traces = await api.get("/traces", {"run_id": receipt.run_id})
        episodes = await api.get("/episodes", {"run_id": receipt.run_id})
    found = whole.get("run", whole)
    assert found["status"] == "COMPLETED"
    assert json.dumps(found).count('"best": 0.5') == 1
    assert [row["loss"] for row in rows["rows"]] == [1.0, 0.5]
    assert shapes["distributions"][0]["values"] == [0.0, 1.0]
    assert len(traces["items"]) == 2
    assert len(episodes["items"]) == 1


def _log_everything(run: Any) -> None:
    run.log_trace(trace(f"{run.id}-t"))
    member = trace(f"{run.id}-m")
    run.log_episode({"id": f"{run.id}-e", "env": {"id": "x"}, "ok": True, "traces": [member]})
    run.log_metrics({"loss": 1.0}, step=1)
    run.log_metrics({"loss": 0.5}, step=2)
    run.log_distributions({"reward": [0.0, 1.0]}, step=1)
    run.log_samples([{"example_id": 1, "reward": 1.0, "step": 1}])


def _sync_life(options: dict[str, Any]) -> Any:
    from prime_sync.runs import init

    with init(**options) as run:
        _log_everything(run)
        run.update_summary({"best": 0.5})
    assert run.receipt is not None
    return run.receipt


async def test_watching_says_once_that_the_platform_is_away(
    open_run: OpenRun, double: PlatformDouble, caplog: pytest.LogCaptureFixture
) -> None:
    """And once that it is back; what is kept is delivered then."""
    run = await open_run()
    double.down = True
    run.log_trace(trace("a"))
    assert not (await run.finish()).complete
    caplog.clear()
    hasty = RetryPolicy(first_delay=0)
    async with AsyncAPIClient(open_run.key, base_url=open_run.url, retry=hasty) as api:
        watched = watch_runs(api, spool_dir=open_run.spool, interval=0.01)
        posts, double.down = double.posts, False
        double.faults = [Answer(status=0, end="cut") for _ in range(15)]
        assert (await anext(watched)).delivered
        assert double.posts == posts + 16
        await watched.aclose()
    away, back = (one.getMessage() for one in caplog.records if one.name == "prime_async.runs")
    assert away.startswith("the platform does not answer: ")
    assert back == "the platform answers again; delivering goes on"
