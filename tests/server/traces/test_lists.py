"""Lists of traces: filters, orders, pages, groups; one trace, its messages and calls."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from yarl import URL

from tests.platform import RunningPlatform
from tests.server.traces.uploads import NOW, ids, store, trace
from tests.server.wire import Wire


async def several(wire: Wire) -> dict[str, str]:
    """Four traces in two uploads; returns the uploads' ids."""

    def one(trace_id: str, age: int, **fields: Any) -> dict[str, Any]:
        timing = {"start": NOW - age, "scoring": {"end": NOW - age + fields.pop("took", 1)}}
        return trace(trace_id, timing=timing, **fields)

    unscored = {"rewards": {}}
    first = await store(
        wire,
        one("a", 40, took=3, rewards={"r": {"score": 0.5}}),
        one("b", 30, took=9, rewards={"r": {"score": 1.0}}, ok=False, stop_condition="max_turns"),
        metadata={"schema_version": 1, "context": {"source": "x", "odd key.é": "v"}},
    )
    second = await store(
        wire,
        one("c", 20, run={"id": "run-2"}, **unscored),
        one("d", 10, agent={"name": "judge", "config": {"model": "big"}}, task={}, **unscored),
    )
    return {"first": first, "second": second}


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["d", "c", "b", "a"]),
    ({"run_id": "run-2"}, ["c"]),
    ({"run_id": "run-1", "has_error": "false"}, ["d", "a"]),
    ({"model_id": "big"}, ["d"]),
    ({"model_provider": "prime"}, ["c", "b", "a"]),
    ({"task_id": "sum-1"}, ["c", "b", "a"]),
    ({"agent_name": "judge"}, ["d"]),
    ({"run_step": 3}, ["d", "b", "a"]),
    ({"environment_id": "env-1"}, []),
    ({"reward_min": 0.5}, ["b", "a"]),
    ({"reward_min": 0.6, "reward_max": 1}, ["b"]),
    ({"outcome": "max_turns"}, ["b"]),
    ({"is_truncated": "true"}, ["b"]),
    ({"context.source": "x"}, ["b", "a"]),
    ({"context.source": "x", "context.odd key.é": "v"}, ["b", "a"]),
    ({"context.source": "y"}, []),
    ({"created_after": "2027-01-15T07:59:40Z"}, ["d", "c"]),
    (
        {"created_after": "2027-01-15T07:59:40+00:00", "created_before": "2027-01-15T07:59:50"},
        ["c"],
    ),
    ({"created_before": "2027-01-15"}, []),
]


async def test_filters_are_combined(wire: Wire) -> None:
    """Each of them, and several together."""
    uploads = await several(wire)
    for params, expected in FILTERS:
        assert await ids(wire, **params) == expected, params
    assert await ids(wire, upload_id=uploads["first"]) == ["b", "a"]
    both = await wire.get("/traces", params=[("upload_id", one) for one in uploads.values()])
    assert len(both.json["items"]) == 4


async def test_orders(wire: Wire) -> None:
    """Newest, best and longest first; what was not scored comes last."""
    await several(wire)
    assert await ids(wire, sort="created_at") == ["d", "c", "b", "a"]
    assert (await ids(wire, sort="reward"))[:2] == ["b", "a"]
    assert (await ids(wire, sort="duration_ms"))[:2] == ["b", "a"]


@pytest.mark.parametrize("sort", ["created_at", "reward", "duration_ms"])
async def test_pages_hold_everything_once(wire: Wire, sort: str) -> None:
    """Also where many rows are alike in the order; new traces do not move a page."""
    rewards = [{}, {"r": {"score": 1}}, {"r": {"score": -1.5}}]
    await store(wire, *(trace(f"t{n}", rewards=rewards[n % 3]) for n in range(11)))
    found: list[str] = []
    params: dict[str, Any] = {"sort": sort, "limit": 3}
    while True:
        page = (await wire.get("/traces", params=params)).json
        found += [item["trace_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        assert len(page["items"]) == 3
        params["cursor"] = page["next_cursor"]
        if len(found) == 6:
            best = {"rewards": {"r": {"score": 9}}, "timing": {"start": NOW}}
            await store(wire, trace("late", **best))
    assert sorted(found) == sorted(f"t{n}" for n in range(11)) or sort == "duration_ms"
    assert len(set(found)) == len(found)


async def test_a_cursor_belongs_to_its_question(wire: Wire) -> None:
    """Other filters, another order, another path, or text that is none: 400."""
    await several(wire)
    cursor = (await wire.get("/traces", params={"limit": 1})).json["next_cursor"]
    bad = [
        ("/traces", {"cursor": cursor, "run_id": "run-1"}),
        ("/traces", {"cursor": cursor, "sort": "reward"}),
        ("/episodes", {"cursor": cursor}),
        ("/traces", {"cursor": "nonsense"}),
        ("/traces", {"cursor": "*"}),
        ("/traces", {"cursor": ""}),
        ("/traces", {"cursor": cursor[:-4]}),
    ]
    for path, params in bad:
        reply = await wire.get(path, params=params)
        assert (reply.status, reply.code) == (400, "invalid_cursor"), params
    more = await ids(wire, cursor=cursor, limit=2)
    assert more == ["c", "b"]


async def test_bad_filters_are_named(wire: Wire) -> None:
    """400 ``invalid_filter``; the message names the parameter."""
    queries = (
        "limit=0 limit=101 limit=x sort=random has_error=maybe reward_min=high run_step=1.5 "
        "created_after=yesterday run_id=a&run_id=b context.a=1&context.a=2"
    )
    for query in queries.split():
        reply = await wire.get(f"/traces?{query}")
        assert (reply.status, reply.code) == (400, "invalid_filter"), query
        assert query.partition("=")[0] in reply.json["error"]["message"]


async def test_one_trace(wire: Wire) -> None:
    """All that is known of it, its tools too."""
    upload = await store(
        wire, trace("t1"), metadata={"schema_version": 1, "context": {"source": "x"}}
    )
    found = (await wire.get("/traces/t1")).json
    user = found.pop("user_id")
    assert user == (await wire.get("/user/whoami")).json["data"]["id"]
    assert found == {
        "trace_id": "t1",
        "upload_id": upload,
        "episode_id": None,
        "created_at": "2027-01-15T07:59:00.000Z",
        "ingested_at": "2027-01-15T08:00:00.000Z",
        "run_id": "run-1",
        "environment_id": None,
        "model": {"provider": "prime", "id": "small"},
        "task_id": "sum-1",
        "agent_name": "solver",
        "score": {"reward": 1.25, "outcome": "done"},
        "execution": {"has_error": False, "is_truncated": False},
        "duration_ms": 20000,
        "total_tokens": 35,
        "size_bytes": len((await wire.get("/traces/t1?raw=true")).body),
        "context": {"source": "x"},
        "run_step": 3,
        "generation": 1,
        "metrics": {"turns": 1.0},
        "activity": {
            "total_entries": 3,
            "user_messages": 1,
            "model_turns": 1,
            "tool_calls": 1,
        },
        "task_key": "k",
        "task_hash": "h",
        "tool_definitions": [{"name": "calc", "description": "Adds", "parameters": {}}],
    }


async def test_an_unknown_trace(wire: Wire) -> None:
    """404 ``trace_not_found``."""
    for path in ("", "?raw=true", "/nodes", "/calls"):
        reply = await wire.get(f"/traces/nobody{path}")
        assert (reply.status, reply.code) == (404, "trace_not_found")


async def test_any_text_is_an_id(wire: Wire, platform: RunningPlatform) -> None:
    """Slashes, dots, percent signs: written into the path, percent-encoded."""
    names = ["a/b", "..", "%2F", "ü ?#", "x" * 256, "a\tb", "export"]
    await store(wire, *map(trace, names))
    async with aiohttp.ClientSession(headers=platform.headers) as session:
        for name in names[:-1]:
            path = quote(name, safe="").replace(".", "%2E")
            url = URL(f"{platform.api}/traces/{path}", encoded=True)
            async with session.get(url) as response:
                assert (await response.json())["trace_id"] == name


async def test_the_newest_copy_is_what_is_read(wire: Wire) -> None:
    """A trace that comes again with other bytes is another generation of it."""
    old = await store(wire, trace("t1", text="old"))
    new = await store(wire, trace("t1", text="new"), trace("t2"))
    found = (await wire.get("/traces/t1")).json
    assert (found["upload_id"], found["generation"]) == (new, 2)
    assert b'"new"' in (await wire.get("/traces/t1?raw=true")).body
    assert sorted(await ids(wire)) == ["t1", "t2"]
    assert await ids(wire, upload_id=old) == []
    # The old bytes sent again change nothing: they have been stored before.
    await store(wire, trace("t1", text="old"))
    assert b'"new"' in (await wire.get("/traces/t1?raw=true")).body


async def test_messages_of_a_trace(wire: Wire) -> None:
    """In order, as recorded, without token ids; by role, sampled or not, behind one."""
    await store(wire, trace("t1"))
    page = (await wire.get("/traces/t1/nodes")).json
    assert (page["next_cursor"], page["partial_index"]) == (None, False)
    assert page["items"][1] == {
        "node_idx": 1,
        "parent_idx": 0,
        "timestamp": NOW - 50,
        "sampled": True,
        "message": trace("t1")["nodes"][1]["message"],
    }

    async def places(query: str) -> list[int]:
        reply = await wire.get(f"/traces/t1/nodes?{query}")
        return [item["node_idx"] for item in reply.json["items"]]

    assert await places("role=user&role=tool") == [0, 2]
    assert await places("sampled=true") == [1]
    assert await places("after=0&sampled=false") == [2]
    first = (await wire.get("/traces/t1/nodes?limit=2")).json
    cursor = first["next_cursor"]
    assert await places(f"limit=2&cursor={cursor}") == [2]
    reply = await wire.get(f"/traces/t1/nodes?after=0&cursor={cursor}")
    assert (reply.status, reply.code) == (400, "invalid_filter")


async def test_calls_of_a_trace(wire: Wire) -> None:
    """With their times; by model and by reason to finish."""
    calls = [
        {"node": 1, "model": "small", "finish_reason": "stop", "time": {"start": 1.5, "end": 2}},
        {"model": "big", "finish_reason": "length", "endpoint": "chat"},
        {"model": None},
    ]
    await store(wire, trace("t1", calls=calls))
    page = (await wire.get("/traces/t1/calls")).json
    assert page["items"][0] == {
        "call_idx": 0,
        "node_idx": 1,
        "time_start": 1.5,
        "time_end": 2.0,
        "model": "small",
        "endpoint": None,
        "finish_reason": "stop",
    }

    async def places(query: str) -> list[int]:
        reply = await wire.get(f"/traces/t1/calls?{query}")
        return [item["call_idx"] for item in reply.json["items"]]

    assert await places("model=big&model=small") == [0, 1]
    assert await places("finish_reason=length") == [1]
    cursor = (await wire.get("/traces/t1/calls?limit=1")).json["next_cursor"]
    assert await places(f"limit=1&cursor={cursor}") == [1]


async def test_a_graph_of_odd_things_is_read_all_the_same(wire: Wire) -> None:
    """Nodes that are none, messages that are none: what is known of them."""
    nodes = [None, {"message": "hi"}, {"message": {"role": 5, "reasoning_content": ["a"]}}]
    await store(wire, trace("t1", nodes=nodes, calls="none", tools={"not": "a list"}))
    items = (await wire.get("/traces/t1/nodes")).json["items"]
    assert [item["message"] for item in items] == [
        {"role": None},
        {"role": None},
        {"role": None, "reasoning_content": '["a"]'},
    ]
    assert (await wire.get("/traces/t1/calls")).json["items"] == []
    assert (await wire.get("/traces/t1")).json["tool_definitions"] == []


async def test_groups(wire: Wire) -> None:
    """Counts, rewards over what was scored, errors, tokens, time; the largest group first."""
    await several(wire)
    groups = (await wire.get("/traces/aggregate?group_by=run_id")).json["groups"]
    assert groups == [
        {
            "key": "run-1",
            "trace_count": 3,
            "scored_count": 2,
            "avg_reward": 0.75,
            "min_reward": 0.5,
            "max_reward": 1.0,
            "error_count": 1,
            "total_tokens": 105,
            "avg_duration_ms": pytest.approx(13000 / 3),
        },
        {
            "key": "run-2",
            "trace_count": 1,
            "scored_count": 0,
            "avg_reward": None,
            "min_reward": None,
            "max_reward": None,
            "error_count": 0,
            "total_tokens": 35,
            "avg_duration_ms": 1000.0,
        },
    ]
    steps = (await wire.get("/traces/aggregate?group_by=run_step&run_id=run-2")).json["groups"]
    assert [(group["key"], group["trace_count"]) for group in steps] == [(None, 1)]
    reply = await wire.get("/traces/aggregate?group_by=weather")
    assert (reply.status, reply.code) == (400, "invalid_filter")
