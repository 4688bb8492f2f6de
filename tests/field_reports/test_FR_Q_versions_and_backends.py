"""Field reports, group Q: platforms of other versions, and other async backends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from prime_async.errors import PrimeError
from prime_async.evals import AsyncEvalsClient
from tests.cli.conftest import inside
from tests.evals.pushing import numbered, write_jsonl
from tests.official_stub import EVALUATION, OfficialStub
from tests.rules.conftest import official, surface
from tests.rules.surfaces import Surface
from tests.rules.table import FACES
from tests.stub import Answer

__all__ = ["inside", "official", "surface"]

NEW: dict[str, Any] = {
    "new_field": {"deep": [1, {"x": None}]},
    "newList": [],
    "status": "SUPERSEDED_BY_V9",
    "eval_type": "something-new",
    "name": None,
    "tags": None,
    "metadata": None,
    "total_samples": 3,
}
EVALUATIONS = {
    "adds": {"evaluation_id": EVALUATION, **NEW},
    "leaves out": {"evaluation_id": EVALUATION},
    "renames": {"id": EVALUATION, "totalSamples": 3},
}


def _speaks(platform: OfficialStub, dialect: str) -> None:
    evaluation = EVALUATIONS[dialect]
    page: dict[str, Any] = {"samples": [{"example_id": 1}]}
    listed: dict[str, Any] = {"evaluations": [evaluation]}
    pushed: dict[str, Any] = {}
    if dialect == "adds":
        page |= {"total": 1, "hasMore": False, "cursor": "c"}
        listed |= {"total": 1, "skip": 0, "limit": 50, "cursor": "c"}
        pushed |= {"stored": 3, "queue": "q", "refused": None}
    platform.route("*", "/api/v1/evaluations/[^/]+(/finalize)?", Answer(json=evaluation))
    platform.route("POST", "/api/v1/evaluations/", Answer(json=evaluation))
    platform.route("GET", "/api/v1/evaluations/", Answer(json=listed))
    platform.route("GET", ".*/samples", Answer(json=page))
    platform.route("POST", ".*/samples", Answer(json=pushed))


@pytest.mark.parametrize("dialect", EVALUATIONS)
@pytest.mark.parametrize("surface", FACES, indirect=True)
async def test_FR59_other_fields_and_words(
    surface: Surface, official: OfficialStub, dialect: str
) -> None:
    """Fields and statuses from the future, optional ones left out: every call works."""
    _speaks(official, dialect)
    for name, call in surface.calls().items():
        outcome = await call()
        assert outcome.ok, f"{name}: {outcome.said}"
    found = (await surface.get(EVALUATION)).value
    if dialect == "adds":
        assert found["new_field"] == NEW["new_field"]
        assert found["status"] == "SUPERSEDED_BY_V9"


@pytest.mark.parametrize("surface", FACES, indirect=True)
async def test_FR59_another_shape_is_one_line(surface: Surface, official: OfficialStub) -> None:
    """What cannot be understood is an error that names the field, never a validation traceback."""
    official.route("GET", ".*/evaluations/[^/]*", Answer(json={"evaluation_id": ["list"]}))
    official.route("GET", ".*/samples", Answer(json={"samples": {"a": 1}}))
    for outcome in (await surface.get(EVALUATION), await surface.page(EVALUATION)):
        assert outcome.kind == "ProtocolError"
        assert "samples" in outcome.said or "evaluation_id" in outcome.said
        assert EVALUATION in outcome.said


def test_FR60_trio_is_refused_at_once() -> None:
    """One clear error that names asyncio; nothing hangs, and closing is harmless."""
    calls: list[Callable[[AsyncEvalsClient], Awaitable[Any]]] = [
        lambda client: client.get_evaluation(EVALUATION),
        lambda client: client.create_evaluation("n", dataset="d"),
        lambda client: client.push_samples(EVALUATION, numbered(3)),
        lambda client: client.push_samples(EVALUATION, iter(numbered(3))),
        lambda client: client.wait_for_evaluation(EVALUATION),
    ]

    async def main() -> None:
        async with AsyncEvalsClient("key", base_url="http://127.0.0.1:1") as client:
            for call in calls:
                with pytest.raises(PrimeError, match="needs a running asyncio event loop"):
                    await call(client)

    began = time.monotonic()
    anyio.run(main, backend="trio")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("kind", ["plain call", "list", "iterable", "file"])
def test_FR60_a_scope_ends_a_call(kind: str, tmp_path: Any) -> None:
    """``move_on_after`` in a task group: it ends in time, cleans up, and no scope complains."""
    sources: dict[str, Any] = {
        "list": numbered(50),
        "iterable": iter(numbered(50)),
        "file": write_jsonl(tmp_path / "rows.jsonl", numbered(50)),
    }
    silent = Answer(status=0, end="silent")
    left: list[str] = []

    async def work(client: AsyncEvalsClient) -> None:
        with anyio.move_on_after(0.3) as scope:
            try:
                if kind == "plain call":
                    await client.get_evaluation(EVALUATION, timeout=10)
                else:
                    await client.push_samples(EVALUATION, sources[kind], timeout=10)
            finally:
                left.append("cleaned up")
        assert scope.cancelled_caught

    async def main() -> None:
        async with OfficialStub() as platform:
            platform.route("*", ".*", silent)
            async with AsyncEvalsClient("key", base_url=platform.url) as client:
                before = asyncio.all_tasks()
                async with anyio.create_task_group() as group:
                    for _ in range(1 if kind == "iterable" else 3):
                        group.start_soon(work, client)
                assert asyncio.all_tasks() - before <= set(platform._tasks)
                platform.route("*", ".*", Answer(json={"evaluation_id": EVALUATION}))
                assert (await client.get_evaluation(EVALUATION)).evaluation_id == EVALUATION

    began = time.monotonic()
    anyio.run(main, backend="asyncio")
    assert time.monotonic() - began < 8
    assert set(left) == {"cleaned up"}
