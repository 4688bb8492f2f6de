"""Runs: their traces added up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platform import RunningPlatform
from tests.server.clocks import FakeClock
from tests.server.traces.uploads import NOW, episode, ids, store, trace
from tests.server.wire import Wire


def of(run: str, trace_id: str, step: int | None = None, **fields: Any) -> dict[str, Any]:
    """A trace of a run."""
    work = {} if step is None else {"work": {"step": step}}
    return trace(trace_id, run={"id": run, **work}, **fields)


def said(**context: str) -> dict[str, Any]:
    """Metadata with a context."""
    return {"schema_version": 1, "context": context}


async def runs(wire: Wire, **params: Any) -> list[str]:
    """The ids of a page of runs."""
    return await ids(wire, "/runs", "run_id", **params)


async def test_a_run_is_its_traces_added_up(wire: Wire, clock: FakeClock) -> None:
    """Times, counts, rewards of what was scored, names, the context of the newest trace."""
    member = of("r", "t1", 0, timing={"start": NOW - 90}, rewards={"a": {"score": 1}})
    await store(wire, episode("e1", [member]), episodes=True, metadata=said(run_type="eval"))
    clock.advance(5)
    await store(
        wire,
        of("r", "t2", 4, timing={"start": NOW - 80}, rewards={"a": {"score": 0.5}}, ok=False),
        of("r", "t3", 4, timing={"start": NOW - 70}, rewards={}, agent={"config": {"model": "z"}}),
        metadata=said(run_type="train", source="x"),
    )
    found = (await wire.get("/runs/r")).json
    user = found.pop("first_user_id")
    assert user == (await wire.get("/traces/t1")).json["user_id"]
    assert found == {
        "run_id": "r",
        "first_trace_created_at": "2027-01-15T07:58:30.000Z",
        "last_trace_created_at": "2027-01-15T07:58:50.000Z",
        "last_trace_ingested_at": "2027-01-15T08:00:05.000Z",
        "trace_count": 3,
        "episode_count": 1,
        "avg_reward": 0.75,
        "step_min": 0,
        "step_max": 4,
        "step_count": 2,
        "has_error": True,
        "environment_ids": ["env-1"],
        "model_ids": ["small", "z"],
        "context": {"run_type": "train", "source": "x"},
    }
    assert (await wire.get("/runs/r/steps")).json == {
        "step_min": 0,
        "step_max": 4,
        "step_count": 2,
        "items": [
            {"step": 0, "trace_count": 1, "episode_count": 1, "avg_reward": 1.0},
            {"step": 4, "trace_count": 2, "episode_count": 0, "avg_reward": 0.5},
        ],
    }


async def test_lists_of_runs(wire: Wire, clock: FakeClock) -> None:
    """Those first that got traces last; by type and time; page by page."""
    for name, context in (("a", {"run_type": "eval"}), ("b", {"run_type": "x"}), ("c", {})):
        await store(wire, of(name, name, timing={"start": NOW - 60}), metadata=said(**context))
        clock.advance(1)
    await store(wire, of("a", "more", timing={"start": NOW - 90}))
    assert await runs(wire) == ["a", "c", "b"]
    assert await runs(wire, run_type="eval") == ["a"]
    both = await wire.get("/runs", params=[("run_type", "eval"), ("run_type", "unknown")])
    assert [run["run_id"] for run in both.json["items"]] == ["a", "c", "b"]
    bounded = (await wire.get("/runs", params={"created_before": "2027-01-15T07:58:40Z"})).json
    assert [(run["run_id"], run["trace_count"]) for run in bounded["items"]] == [("a", 1)]
    first = (await wire.get("/runs?limit=2")).json
    assert await runs(wire, limit=2, cursor=first["next_cursor"]) == ["b"]
    reply = await wire.get("/runs?run_type=test")
    assert (reply.status, reply.code) == (400, "invalid_filter")


async def test_created_by_keeps_runs_and_their_totals(
    wire: Wire, platform: RunningPlatform
) -> None:
    """A run in which any trace is by one of the users, with all its traces."""
    other = await platform.parts.keys.add_account("other", "Other", "k" * 32)
    me = (await wire.get("/user/whoami")).json["data"]["id"]
    team = await platform.parts.keys.add_team("team", "Team", {me: "admin", other.id: "member"})
    headers = {"X-Prime-Team-ID": team}
    async with Wire(platform.url, "k" * 32) as theirs:
        await store(wire, of("shared", "t1"), of("mine", "t2"), headers=headers)
        await store(theirs, of("shared", "t3"), headers=headers)
        reply = await wire.get("/runs", params={"created_by": other.id}, headers=headers)
        found = [(run["run_id"], run["trace_count"]) for run in reply.json["items"]]
        assert found == [("shared", 2)]


async def test_an_unknown_run(wire: Wire) -> None:
    """404 for the run, no steps, no matches; a bare trace belongs to none."""
    await store(wire, trace("t1", run=None))
    reply = await wire.get("/runs/nobody")
    assert (reply.status, reply.code) == (404, "run_not_found")
    assert (await wire.get("/runs/nobody/steps")).json == {
        "step_min": None,
        "step_max": None,
        "step_count": 0,
        "items": [],
    }
    assert await runs(wire) == []


@pytest.mark.parametrize("run_id", ["a b/c", "export"])
async def test_deleting_a_run(wire: Wire, run_id: str) -> None:
    """Its traces go, with all copies of them; its episodes stay, empty; again: 404."""
    await store(wire, episode("e1", [of(run_id, "t1")], run={"id": run_id}), episodes=True)
    await store(wire, of(run_id, "t1", text="new"), of("other", "t2"))
    reply = await wire.send("DELETE", "/traces", params={"run_id": run_id})
    assert (reply.status, reply.json) == (202, {"deleted_traces": 1, "deleted_episodes": 0})
    assert await ids(wire) == ["t2"]
    assert (await wire.get("/episodes/e1")).json["traces"]["trace_count"] == 0
    again = await wire.send("DELETE", "/traces", params={"run_id": run_id})
    assert (again.status, again.code) == (404, "run_not_found")
    missing = await wire.send("DELETE", "/traces")
    assert (missing.status, missing.code) == (400, "invalid_filter")
