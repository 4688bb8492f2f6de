"""Distributions of both kinds of run."""

from __future__ import annotations

from typing import Any

import pytest

from prime_async.runs.wire import DistributionPage
from tests.server.runs.people import training_run
from tests.server.wire import Wire

Target = tuple[str, str, dict[str, str]]


@pytest.fixture(params=["eval", "train"])
async def target(request: pytest.FixtureRequest, wire: Wire) -> Target:
    """Where to write, where to read, and what the body names."""
    if request.param == "eval":
        path = f"/evaluations/{await wire.evaluation()}/distributions"
        return path, path, {}
    run_id = await training_run(wire)
    read = f"/rft/external-runs/{run_id}/distributions"
    return "/rft/distributions", read, {"run_id": run_id}


async def found(wire: Wire, path: str, **query: Any) -> list[tuple[int | None, str, Any]]:
    """All distributions, page by page."""
    items: list[tuple[int | None, str, Any]] = []
    cursor: str | None = None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        reply = await wire.get(path, params={**query, **more})
        assert reply.status == 200, reply
        page = DistributionPage.from_wire(reply.json)
        items += [(one.step, one.name, one.numbers) for one in page.distributions]
        cursor = page.next_cursor
        if cursor is None:
            return items


async def test_values_come_back_by_step_and_name(wire: Wire, target: Target) -> None:
    """Exactly the values that were sent, null among them; a name that is repeated gets new ones."""
    write, read, named = target
    sent = [
        (2, {"reward": [0.5, 1, -3e-7], "length": [10, 20]}),
        (1, {"reward": [0.25]}),
        (None, {"final": [1, None, 2]}),
        (1, {"advantage": []}),
    ]
    for step, values in sent:
        reply = await wire.post(write, {**named, "step": step, "distributions": values})
        assert reply.json == {"stored": len(values), "updated": 0}
    again = await wire.post(write, {**named, "step": 1, "distributions": {"reward": [7]}})
    assert again.json == {"stored": 0, "updated": 1}
    same = await wire.post(write, {**named, "distributions": {"final": [1, None, 2]}})
    assert same.json == {"stored": 0, "updated": 0}
    expected = [
        (None, "final", [1, None, 2]),
        (1, "advantage", []),
        (1, "reward", [7]),
        (2, "length", [10, 20]),
        (2, "reward", [0.5, 1, -3e-7]),
    ]
    assert await found(wire, read) == expected
    assert await found(wire, read, limit=1) == expected
    assert await found(wire, read, name="reward") == [expected[2], expected[4]]
    assert await found(wire, read, step=2, limit=1) == expected[3:]


async def test_what_is_no_distribution_is_refused(wire: Wire, target: Target) -> None:
    """By its place, before anything is stored."""
    write, read, named = target
    for values, place in (
        ({}, "distributions"),
        ({"a": 1}, "distributions"),
        ({"a": ["x"]}, "distributions"),
        ({"": [1]}, "distributions"),
    ):
        refused = await wire.post(write, {**named, "step": 1, "distributions": values})
        assert refused.status == 422, values
        assert refused.json["detail"][0]["loc"][:2] == ["body", place]
    for step in ("1", 1.5, 2**60):
        body = {**named, "step": step, "distributions": {"a": [1]}}
        assert (await wire.post(write, body)).status == 422, step
    assert await found(wire, read) == []
