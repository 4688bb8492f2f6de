"""verifiers 0.4 itself: its episodes while they complete, all of them, and the folder it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

import prime_async.bridges
import prime_async.runs
from prime_async.bridges import RolloutLogger
from prime_async.runs import AsyncRun
from tests.bridges.reading import Place
from tests.bridges.real.model import Model
from tests.meters import PeakRss
from tests.platform import KEY
from tests.rules.steps import measured_steps

vf = pytest.importorskip("verifiers.v1", reason="verifiers 0.4 is not here: make test-bridges")

from verifiers.v1.cli.eval.runner import run_eval  # noqa: E402
from verifiers.v1.clients import ModelContext  # noqa: E402
from verifiers.v1.configs.cli.eval import EvalConfig  # noqa: E402
from verifiers.v1.utils.loaders import load_environment  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

Hook = Callable[[Any], Awaitable[None]]
RIGHT, FAILED = 4, 2
"""Three sums, two rollouts each; the model refuses the third."""


@pytest.fixture(autouse=True)
def _here(environments: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is found, and its model has a key."""
    monkeypatch.setenv("TINY_KEY", "sk-tiny")


def asked(model: Model, **changes: Any) -> Any:
    """An evaluation of the sums."""
    told: dict[str, Any] = {
        "model": "tiny",
        "env": {"taskset": {"id": "real-sums"}, "agent": {"runtime": {"type": "subprocess"}}},
        "client": {"base_url": model.url, "api_key_var": "TINY_KEY"},
        "sampling": {"temperature": 0.5},
        "num_rollouts": 2,
        "push": False,
        "rich": None,
        **changes,
    }
    return EvalConfig.model_validate(told)


async def evaluated(config: Any, hook: Hook) -> list[Any]:
    """Run the rollouts as `run_eval` does, one after the other, with a hook of ours."""
    env = load_environment(config.env)
    context = ModelContext(client=config.client, model=config.model, sampling=config.sampling)
    slots = [slot for task in env.taskset for slot in env.slots(task, config.num_rollouts)]
    async with env.serving():
        return [await env.run_slot(slot, context, None, hook) for slot in slots]


def opened(place: Place, **options: Any) -> Awaitable[AsyncRun]:
    """A run there."""
    told: dict[str, Any] = {"model": "tiny", "environments": ["real-sums"], **place.account}
    return prime_async.runs.init(**{**told, **options})


def stored(place: Place, run_id: str) -> dict[str, Any]:
    """The traces of a run as they are stored, by id."""
    return {trace["id"]: trace for trace in place.traces(run_id)}


def recorded(episodes: list[Any], run_id: str) -> dict[str, Any]:
    """What they should be: all that verifiers says, stamped with the run."""
    stamp = {"run": {"id": run_id, "type": "eval"}}
    traces = (trace for episode in episodes for trace in episode.to_record()["traces"])
    return {trace["id"]: {**trace, **stamp} for trace in traces}


async def test_episodes_arrive_while_others_go_on(place: Place, model: Model) -> None:
    """Every field of every trace is there, in its episode; the scores are the run's summary."""
    seen: list[int] = []
    async with await opened(place) as run:
        log = RolloutLogger(run)

        async def hook(episode: Any) -> None:
            await log.on_complete(episode)
            assert await run.flush()
            seen.append(len(await anyio.to_thread.run_sync(stored, place, run.id)))

        episodes = await evaluated(asked(model), hook)
    assert seen == [1, 2, 3, 4, 5, 6]
    assert run.receipt is not None
    assert run.receipt.complete
    assert stored(place, run.id) == recorded(episodes, run.id)
    listed = place.get(f"/episodes?run_id={run.id}&limit=100")["items"]
    assert {one["episode_id"] for one in listed} == {episode.id for episode in episodes}
    assert {one["environment_id"] for one in listed} == {"real-sums"}
    assert run.summary == {
        "right": 1.0,
        "short": 1.0,
        "turns": 1.5,  # where there was an answer: one turn, or two with a tool
        "reward": 1.25 * RIGHT / (RIGHT + FAILED),
        "error": FAILED / (RIGHT + FAILED),
    }


async def test_what_the_platform_reads_out_of_them(place: Place, model: Model) -> None:
    """Turns, tools and errors, as lists and searches show them."""
    async with await opened(place) as run:
        await evaluated(asked(model), RolloutLogger(run).on_complete)
    listed = place.get(f"/traces?run_id={run.id}&limit=100")["items"]
    told = {
        (one["task_id"], one["score"]["reward"], one["execution"]["has_error"]) for one in listed
    }
    assert told == {("sum-1-2", 1.25, False), ("sum-30-12", 1.25, False), ("sum--1-0", None, True)}
    tooled = next(one for one in listed if one["task_id"] == "sum-30-12")
    assert tooled["model"]["id"] == "tiny"
    assert tooled["score"]["outcome"] == "agent_completed"
    assert tooled["activity"]["tool_calls"] == 1
    nodes = place.get(f"/traces/{tooled['trace_id']}/nodes")["items"]
    roles = [node["message"]["role"] for node in nodes]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert nodes[2]["message"]["tool_calls"][0]["name"] == "add"
    assert nodes[2]["message"]["reasoning_content"] == "añadir"
    calls = place.get(f"/traces/{tooled['trace_id']}/calls")["items"]
    assert [call["finish_reason"] for call in calls] == ["tool_calls", "stop"]
    failed = next(one for one in listed if one["execution"]["has_error"])
    assert failed["task_id"] == "sum--1-0"


async def test_all_at_the_end(place: Place, model: Model, tmp_path: Path) -> None:
    """What `run_eval` returns and the folder it writes; the averages are the official ones."""
    import prime_runs

    config = asked(model, output_dir=tmp_path)
    episodes = await run_eval(config)
    official = prime_runs.metrics.from_episodes(episodes)
    async with await opened(place) as first:
        streamed = await prime_async.bridges.stream_results(first, episodes)
    written = recorded(episodes, first.id)
    for trace in written.values():
        trace["run"]["name"] = config.run.name
    assert stored(place, first.id) == written
    async with await opened(place) as second:
        again = await prime_async.bridges.stream_results(second, tmp_path / config.run.dir)
    assert (streamed.records, streamed.refused) == (len(episodes), ())
    assert streamed == again
    assert streamed.metrics == {
        **official["avg_metrics"],
        "reward": official["avg_reward"],
        "error": official["avg_error"],
    }
    assert set(stored(place, second.id)) == set(written)


async def test_a_folder_is_pushed(place: Place, model: Model, tmp_path: Path) -> None:
    """`eval push` finds and understands it; its samples are what verifiers' own push makes."""
    from prime_runs.projection import build_samples

    config = asked(model, output_dir=tmp_path / "outputs")
    episodes = await run_eval(config)
    command = [sys.executable, "-m", "prime_async_cli", "eval", "push", "-o", "json"]
    account = {"PRIME_API_KEY": KEY, "PRIME_API_BASE_URL": place.url}
    done = await anyio.run_process(
        command, cwd=tmp_path, env={**os.environ, **account}, check=False, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout.decode()
    told = json.loads(done.stdout)
    evaluation = place.get(f"/evaluations/{told['evaluation_id']}")
    assert (evaluation["model_name"], evaluation["status"]) == ("tiny", "COMPLETED")
    assert evaluation["metadata"]["rollouts_per_example"] == 2
    assert evaluation["metadata"]["sampling_args"] == {"temperature": 0.5}
    ours = {one["sample_id"]: one for one in place.samples(told["evaluation_id"])}
    theirs = {one["episode_id"]: one for one in build_samples(episodes)}
    assert len(ours) == len(theirs) == len(episodes)
    assert sorted((one["example_id"], one["rollout_number"]) for one in ours.values()) == [
        (example, number) for example in range(3) for number in (1, 2)
    ]
    same = (
        *("example_id", "agent", "trainable", "task", "prompt", "answer", "timing"),
        *("completion", "trajectory", "is_completed", "is_truncated", "stop_condition"),
        *("token_usage", "right", "short"),
    )
    for sample in ours.values():
        official = theirs[sample["episode_id"]]
        for name in same:
            assert sample.get(name) == official.get(name), name
        assert (sample["reward"] or 0) == official["reward"]  # what was not scored is null here
        assert (sample["error"] or {}).get("type") == (official["error"] or {}).get("type")


async def test_verifiers_pushes_by_itself(
    place: Place, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own upload, which is on by default, works with the embedded platform."""
    monkeypatch.setenv("PRIME_API_KEY", KEY)
    monkeypatch.setenv("PRIME_API_BASE_URL", place.url)
    monkeypatch.setenv("PRIME_TRACES_URL", place.url)
    config = asked(model, output_dir=tmp_path, push=True)
    episodes = await run_eval(config)
    assert stored(place, config.run.id).keys() == recorded(episodes, config.run.id).keys()
    evaluation = place.get(f"/evaluations/{config.run.id}")
    assert evaluation["status"] == "COMPLETED"
    assert evaluation["metrics"]["avg_error"] == pytest.approx(1 / 3)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_five_hundred_large_rollouts(
    place: Place, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100 KB each: memory is bounded by the queue, no turn of the loop is long."""
    monkeypatch.setattr(model, "padding", "x" * 100_000)
    kept: list[Any] = []

    async def keep(episode: Any) -> None:
        kept.append(episode)

    await evaluated(asked(model, num_rollouts=1), keep)
    large = next(one for one in kept if one.ok)
    assert len(json.dumps(large.to_record())) > 100_000
    async with await opened(place, queue_bytes=8 * 2**20) as run:
        log = RolloutLogger(run)
        await log.on_complete(large)
        assert await run.flush()
        with PeakRss() as memory, measured_steps() as steps:
            for number in range(500):
                trace = large.traces[0].model_copy(update={"id": f"large-{number}"})
                episode = large.model_copy(update={"id": f"e{number}", "traces": [trace]})
                await log.on_complete(episode)
            assert await run.flush(60)
    assert run.receipt is not None
    assert (run.receipt.counts.delivered, run.dropped_records) == (501, 0)
    assert run.stats().queue_peak_bytes <= 8 * 2**20
    assert memory.growth < 64 * 2**20, memory.growth  # the platform's, in this process, included
    assert steps.longest["MainThread"] < 0.02, steps.what["MainThread"]
