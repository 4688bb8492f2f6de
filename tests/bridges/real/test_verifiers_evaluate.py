"""verifiers before 0.4: rollouts of `env.evaluate` while they finish, its result and its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

import prime_async.bridges
import prime_async.runs
from prime_async.bridges import RolloutLogger
from tests.bridges.reading import Place
from tests.bridges.real.model import Model

vf = pytest.importorskip("verifiers", reason="verifiers 0.3 is not here: make test-bridges")
if not hasattr(vf, "ToolEnv"):
    pytest.skip("verifiers 0.4 has no env.evaluate any more", allow_module_level=True)
datasets = pytest.importorskip("datasets")
openai = pytest.importorskip("openai")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

ROWS = ((1, 2), (30, 12), (-1, 0))


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the one.
        b: the other.
    """
    return a + b


def environment() -> Any:
    """Three sums, with a tool; the model refuses the third."""
    rows = [
        {"question": f"How much is {a} + {b}? ¿Cuánto?", "answer": str(a + b), "info": {"a": a}}
        for a, b in ROWS
    ]

    def right(completion: Any, answer: str, **_: Any) -> float:
        return float(completion[-1]["content"] == answer)

    def turns(state: Any, **_: Any) -> float:
        return float(len(state["trajectory"]))

    rubric = vf.Rubric(funcs=[right, turns], weights=[1.0, 0.0])
    data = datasets.Dataset.from_list(rows)
    return vf.ToolEnv(dataset=data, tools=[add], rubric=rubric, max_turns=4)


def plain(outputs: Any) -> list[dict[str, Any]]:
    """Rollouts in an order of their own, without what is null: files hold no nulls."""
    told = [without_nulls(dict(one)) for one in outputs]
    return sorted(told, key=lambda one: (one["example_id"], one["timing"]["start_time"]))


def without_nulls(value: Any) -> Any:
    """What JSON says of a value, nulls left out."""
    value = value.model_dump() if hasattr(value, "model_dump") else value
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


async def test_rollouts(place: Place, model: Model, tmp_path: Path) -> None:
    """They arrive while others go on; the result and the folder hold the same."""
    options: dict[str, Any] = {"model": "tiny", "environments": ["sums"], **place.account}
    client = openai.AsyncOpenAI(base_url=model.url, api_key="k", max_retries=0)
    seen: list[int] = []
    async with await prime_async.runs.init(**options) as run:
        log = RolloutLogger(run)

        def on_progress(everything: Any, new: Any, metadata: Any) -> None:
            log.on_progress(everything, new, metadata)
            seen.append(run.stats().counts.logged)

        results = await environment().evaluate(
            vf.OpenAIChatCompletionsClient(client),
            "tiny",
            num_examples=-1,
            rollouts_per_example=2,
            save_results=True,
            results_path=tmp_path / "run",
            on_progress=on_progress,
        )
        assert await run.flush()
        arrived = await anyio.to_thread.run_sync(place.samples, run.id)
    assert seen == sorted(seen)
    assert 0 < seen[0] < len(results["outputs"]) == len(arrived)
    assert plain(arrived) == plain(results["outputs"])
    assert run.summary["reward"] == results["metadata"]["avg_reward"]
    for source in (results, tmp_path / "run"):
        async with await prime_async.runs.init(**options) as again:
            streamed = await prime_async.bridges.stream_results(again, source)
            assert await again.flush()
        assert (streamed.records, streamed.refused) == (len(arrived), ())
        assert streamed.metrics == run.summary
        assert plain(place.samples(again.id)) == plain(arrived)
