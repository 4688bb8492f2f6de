"""Promises E1 to E5: the life of an evaluation, as users write it, in both faces."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from prime_async.errors import EvaluationNotFoundError
from tests.faces import Face, both_faces
from tests.platform import KEY, RunningPlatform, ThreadedPlatform

PROMPT = [{"role": "user", "content": "What is 2 + 2?"}]
SAMPLES = [
    {
        "example_id": 0,
        "reward": 1.0,
        "correct": True,
        "answer": "4",
        "prompt": PROMPT,
        "completion": [{"role": "assistant", "content": "4"}],
        "latency_ms": 12.5,
    },
    {
        "example_id": 1,
        "reward": 0.0,
        "correct": False,
        "answer": "4",
        "prompt": PROMPT,
        "completion": [{"role": "assistant", "content": "fünf ☕"}],
    },
]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, platform: RunningPlatform) -> None:
    """The platform is named by the environment, as a training job's is."""
    monkeypatch.setenv("PRIME_API_BASE_URL", platform.url)
    monkeypatch.setenv("PRIME_API_KEY", platform.key)


def test_E1_the_four_steps_in_a_plain_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code of the promise, word for word: create, push, finalize, read back."""
    from prime_sync import APIClient, EvalsClient

    with ThreadedPlatform(tmp_path) as platform:
        monkeypatch.setenv("PRIME_API_BASE_URL", platform.url)
        api_client = APIClient(api_key=KEY)
        client = EvalsClient(api_client)
        evaluation = client.create_evaluation(
            name="math", model_name="m", dataset="gsm8k", framework="verifiers", metadata={"v": 1}
        )
        evaluation_id = evaluation["evaluation_id"]
        client.push_samples(evaluation_id, SAMPLES)
        client.finalize_evaluation(evaluation_id, metrics={"accuracy": 0.5})
        assert client.get_evaluation(evaluation_id)["metrics"] == {"accuracy": 0.5}
        assert client.get_samples(evaluation_id)["samples"] == SAMPLES
        client.close()
        api_client.close()


@pytest.mark.usefixtures("environment")
async def test_E1_the_four_steps_in_an_async_trainer() -> None:
    """The same with await."""
    from prime_async import AsyncAPIClient, AsyncEvalsClient

    async with AsyncAPIClient(api_key=KEY) as api_client:
        client = AsyncEvalsClient(api_client)
        evaluation = await client.create_evaluation(name="math", dataset="gsm8k")
        evaluation_id = evaluation["evaluation_id"]
        await client.push_samples(evaluation_id, SAMPLES)
        await client.finalize_evaluation(evaluation_id, metrics={"accuracy": 0.5})
        assert (await client.get_evaluation(evaluation_id))["metrics"] == {"accuracy": 0.5}
        assert (await client.get_samples(evaluation_id))["samples"] == SAMPLES


@both_faces
@pytest.mark.usefixtures("environment")
async def test_E1_while_others_do_the_same(face: Face) -> None:
    """Ten evaluations through one client at a time do not mix."""
    async with face.AsyncEvalsClient() as client:

        async def live(number: int) -> None:
            made = await client.create_evaluation(f"life {number}", dataset="d")
            mine = [{"example_id": index, "owner": number} for index in range(30)]
            await client.push_samples(made["evaluation_id"], mine)
            await client.finalize_evaluation(made["evaluation_id"], metrics={"n": number})
            assert (await client.get_samples(made["evaluation_id"])).samples == mine

        async with asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task(live(number))


@both_faces
@pytest.mark.usefixtures("environment")
async def test_E2_create_returns_a_mapping_with_the_id(face: Face) -> None:
    """The call of the promise works as written; what was given is read back; fields are typed."""
    metadata = {"temperature": 0.7, "nested": {"stop": ["a", None]}}
    async with face.AsyncEvalsClient() as client:
        evaluation = await client.create_evaluation(
            name="my eval",
            model_name="openai/gpt-4.1-mini",
            dataset="gsm8k",
            framework="verifiers",
            metadata=metadata,
        )
        assert isinstance(evaluation, Mapping)
        assert evaluation["evaluation_id"] == evaluation.evaluation_id
        stored = await client.get_evaluation(evaluation["evaluation_id"])
    assert stored.name == stored["name"] == "my eval"
    assert stored.model_name == "openai/gpt-4.1-mini"
    assert (stored.dataset, stored.framework) == ("gsm8k", "verifiers")
    assert stored.metadata == metadata
    assert stored.environment_names is not None
    assert [name.rpartition("/")[2] for name in stored.environment_names] == ["gsm8k"]
    assert json.loads(json.dumps(dict(stored)))["metadata"] == metadata


def _some_json(random_: random.Random, depth: int = 0) -> Any:
    """Any JSON value: every type, odd texts, numbers at the edges."""
    kind = random_.randrange(9 if depth < 5 else 6)
    if kind == 0:
        return random_.choice([None, True, False])
    if kind == 1:
        return random_.choice([0, -1, 2**53 + 1, -(2**63), 2**64 - 1, 10**30])
    if kind == 2:
        return random_.choice([0.1, -0.0, 1e-308, 1.7976931348623157e308, 5e-324, 2 / 3])
    if kind < 6:
        return "".join(random_.choices('aé☕👩‍👩‍👧\x00\x7f\u2028"\\/\n\t', k=random_.randrange(12)))
    if kind == 6:
        return [_some_json(random_, depth + 1) for _ in range(random_.randrange(4))]
    names = ["", "a", "id", "a.b", "☕", '"', "$ref", "__proto__", "example_id"]
    return {random_.choice(names): _some_json(random_, depth + 1) for _ in range(4)}


@both_faces
@pytest.mark.usefixtures("environment")
async def test_E3_what_is_pushed_is_read_back(face: Face) -> None:
    """Known fields, chat messages, and any further field of any form: deeply equal, in order."""
    random_ = random.Random(3)
    odd = [
        {"example_id": index, "extra": _some_json(random_), **_a_dict(random_)}
        for index in range(400)
    ]
    pushed = [*SAMPLES, {}, *odd]
    async with face.AsyncEvalsClient() as client:
        evaluation = await client.create_evaluation("odd", dataset="d")
        receipt = await client.push_samples(evaluation["evaluation_id"], pushed)
        assert (receipt["samples_pushed"], receipt["samples_skipped"]) == (len(pushed), 0)
        read = [sample async for sample in client.iter_samples(evaluation["evaluation_id"])]
    assert len(read) == len(pushed)
    for got, given in zip(read, pushed, strict=True):
        assert _same(got, given), f"{got!r} is not {given!r}"


def _a_dict(random_: random.Random) -> dict[str, Any]:
    value = _some_json(random_, 4)
    return value if isinstance(value, dict) else {}


def _same(got: Any, given: Any) -> bool:
    """Deeply equal, types included: 1, 1.0 and True differ, -0.0 keeps its sign."""
    if isinstance(given, dict):
        return got.keys() == given.keys() and all(_same(got[k], given[k]) for k in given)
    if isinstance(given, list):
        return len(got) == len(given) and all(map(_same, got, given))
    return type(got) is type(given) and repr(got) == repr(given)


@both_faces
@pytest.mark.usefixtures("environment")
async def test_E4_finalize_closes_and_stores_the_metrics(face: Face) -> None:
    """The status is final, the metrics are there; repeated, the last metrics count."""
    async with face.AsyncEvalsClient() as client:
        evaluation_id = (await client.create_evaluation("e", dataset="d"))["evaluation_id"]
        await client.push_samples(evaluation_id, SAMPLES)
        done = await client.finalize_evaluation(evaluation_id, metrics={"acc": 0.1, "by": {"a": 1}})
        assert done["evaluation_id"] == evaluation_id
        stored = await client.get_evaluation(evaluation_id)
        assert stored.status == "COMPLETED"
        assert stored.metrics == {"acc": 0.1, "by": {"a": 1}}
        assert stored.finalized_at is not None
        assert stored.total_samples == len(SAMPLES)
        await client.finalize_evaluation(evaluation_id, metrics={"acc": 0.2})
        assert (await client.get_evaluation(evaluation_id)).metrics == {"acc": 0.2}


@both_faces
@pytest.mark.usefixtures("environment")
async def test_E4_metrics_from_numpy(face: Face) -> None:
    """Metrics come from numpy as a rule; NaN is null here as everywhere."""
    np = pytest.importorskip("numpy")
    async with face.AsyncEvalsClient() as client:
        evaluation_id = (await client.create_evaluation("e", dataset="d"))["evaluation_id"]
        metrics = {"mean": np.float32(0.5), "n": np.int64(7), "nan": np.float64("nan")}
        await client.finalize_evaluation(evaluation_id, metrics=metrics)
        stored = await client.get_evaluation(evaluation_id)
    assert stored.metrics == {"mean": 0.5, "n": 7, "nan": None}


@both_faces
@pytest.mark.usefixtures("environment")
async def test_E5_get_list_and_samples(face: Face) -> None:
    """One evaluation, a page of them, all of them, a page of samples, all of them."""
    async with face.AsyncEvalsClient() as client:
        made = [
            (await client.create_evaluation(f"e{number}", [f"env{number % 2}"]))["evaluation_id"]
            for number in range(5)
        ]
        page = await client.list_evaluations(skip=1, limit=2)
        assert (page.total, page.skip, page.limit) == (5, 1, 2)
        assert [one.evaluation_id for one in page.evaluations] == [made[3], made[2]]
        odd = await client.list_evaluations("env1")
        assert [one.evaluation_id for one in odd.evaluations] == [made[3], made[1]]
        found = [one.evaluation_id async for one in client.iter_evaluations(page_size=2)]
        assert found == made[::-1]

        samples = [{"example_id": index} for index in range(25)]
        await client.push_samples(made[0], samples)
        third = await client.get_samples(made[0], page=3, limit=10)
        assert third.samples == third["samples"] == samples[20:]
        assert (third.total, third.page, third.limit, third.has_more) == (25, 3, 10, False)
        assert [one async for one in client.iter_samples(made[0], page_size=7)] == samples
        with pytest.raises(EvaluationNotFoundError, match="nothing-here"):
            await client.get_evaluation("nothing-here")
