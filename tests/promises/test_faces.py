"""Promise K4: one product, used from async trainers, plain scripts and the command line.

The console, its fourth form, comes with step 9.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import prime_async
import prime_sync
from tests.cli.harness import run_command
from tests.evals.pushing import write_jsonl
from tests.platform import ThreadedPlatform

SAMPLES = [
    {
        "example_id": number,
        "reward": number / 7,
        "prompt": [{"role": "user", "content": f"What is {number} + {number}?"}],
        "completion": [{"role": "assistant", "content": f"{2 * number} ☕"}],
        "info": {"nested": [None, True, {"n": number}]},
    }
    for number in range(300)
]
METRICS = {"accuracy": 0.5}


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedPlatform]:
    """A platform that the environment names, for all faces alike."""
    with ThreadedPlatform(tmp_path) as running:
        monkeypatch.setenv("PRIME_API_BASE_URL", running.url)
        monkeypatch.setenv("PRIME_API_KEY", running.key)
        yield running


async def in_an_async_trainer() -> tuple[str, Any]:
    """With await."""
    async with prime_async.AsyncEvalsClient() as client:
        evaluation = await client.create_evaluation("run", dataset="gsm8k", model_name="m")
        evaluation_id = evaluation["evaluation_id"]
        receipt = await client.push_samples(evaluation_id, SAMPLES)
        await client.finalize_evaluation(evaluation_id, metrics=METRICS)
        return evaluation_id, receipt.to_dict()


def in_a_plain_script() -> tuple[str, Any]:
    """The same names, without await."""
    with prime_sync.EvalsClient() as client:
        evaluation = client.create_evaluation("run", dataset="gsm8k", model_name="m")
        evaluation_id = evaluation["evaluation_id"]
        receipt = client.push_samples(evaluation_id, SAMPLES)
        client.finalize_evaluation(evaluation_id, metrics=METRICS)
        return evaluation_id, receipt.to_dict()


def on_the_command_line(folder: Path) -> tuple[str, Any]:
    """The samples in a file; the command creates, pushes and finalizes."""
    path = str(write_jsonl(folder / "samples.jsonl", SAMPLES))
    about = ["--name", "run", "--env", "gsm8k", "--model", "m", "--metrics", json.dumps(METRICS)]
    ran = run_command("eval", "push", path, *about, "--output", "json")
    assert ran.code == 0, ran
    answer = json.loads(ran.out)
    return answer["evaluation_id"], answer["receipt"]


def seen_from_every_face(evaluation_id: str) -> list[tuple[Any, list[Any]]]:
    """The evaluation and its samples, as each face reads them."""

    async def read() -> tuple[Any, list[Any]]:
        async with prime_async.AsyncEvalsClient() as client:
            samples = [sample async for sample in client.iter_samples(evaluation_id)]
            return dict(await client.get_evaluation(evaluation_id)), samples

    with prime_sync.EvalsClient() as client:
        in_script = (
            dict(client.get_evaluation(evaluation_id)),
            [*client.iter_samples(evaluation_id)],
        )
    shown = run_command("eval", "get", evaluation_id, "--output", "json")
    lines = run_command("eval", "samples", evaluation_id, "--all").out.splitlines()
    return [
        asyncio.run(read()),
        in_script,
        (json.loads(shown.out), [json.loads(line) for line in lines]),
    ]


def test_K4_the_same_push_from_every_face(platform: ThreadedPlatform, tmp_path: Path) -> None:
    """Three faces push the same; each of them sees the same in what each of them has pushed."""
    pushed = {
        "async": asyncio.run(in_an_async_trainer()),
        "sync": in_a_plain_script(),
        "command": on_the_command_line(tmp_path),
    }
    for face, (evaluation_id, receipt) in pushed.items():
        assert receipt["samples_pushed"] == len(SAMPLES), face
        assert (receipt["samples_skipped"], receipt["resume_token"]) == (0, None)
        first, *others = seen_from_every_face(evaluation_id)
        assert all(other == first for other in others), f"pushed from {face}, seen differently"
        evaluation, samples = first
        assert samples == SAMPLES
        assert (evaluation["name"], evaluation["model_name"]) == ("run", "m")
        assert (evaluation["status"], evaluation["metrics"]) == ("COMPLETED", METRICS)
        assert [name.rpartition("/")[2] for name in evaluation["environment_names"]] == ["gsm8k"]


@pytest.mark.parametrize("name", ["APIClient", "EvalsClient"])
def test_K4_the_same_names_without_await(name: str) -> None:
    """Methods and arguments are called the same; closing is ``aclose`` and ``close``."""

    def methods(kind: type) -> dict[str, list[str]]:
        members = inspect.getmembers(kind, inspect.isfunction)
        public = [(each, member) for each, member in members if not each.startswith("_")]
        return {each: list(inspect.signature(member).parameters) for each, member in public}

    asynchronous = methods(getattr(prime_async, f"Async{name}"))
    asynchronous["close"] = asynchronous.pop("aclose")
    plain = methods(getattr(prime_sync, name))
    assert {each: plain[each] for each in asynchronous if each in plain} == {
        each: taken for each, taken in asynchronous.items() if each in plain
    }
    # The transport is for asynchronous code alone; everything else is there twice.
    assert set(asynchronous) - set(plain) <= {"connect"}
