"""Episodes: stored with their traces, listed, read back, ended."""

from __future__ import annotations

import json
from typing import Any

from tests.server.traces.uploads import NOW, episode, ids, lines, send, store, trace
from tests.server.wire import Wire


async def listed(wire: Wire, **params: Any) -> list[str]:
    """The ids of a page of episodes."""
    return await ids(wire, "/episodes", "episode_id", **params)


async def test_an_episode_is_its_envelope_and_its_traces(wire: Wire) -> None:
    """The envelope's own outcome and error; totals of the traces; members inherit environment."""
    members = [
        trace("t1", timing={"start": NOW - 9, "scoring": {"end": NOW - 8}}),
        trace("t2", ok=False, agent={"name": "judge"}, env={"id": "other"}),
    ]
    errors = [{"type": "Lost", "message": "gave up"}]
    upload = await store(
        wire,
        episode("e1", members, outcome="lost", ok=False, errors=errors, run={"id": "run-9"}),
        episodes=True,
    )
    assert (await wire.get("/episodes/e1")).json == {
        "episode_id": "e1",
        "upload_id": upload,
        "schema_version": 1,
        "created_at": "2027-01-15T07:59:00.000Z",
        "ingested_at": "2027-01-15T08:00:00.000Z",
        "run_id": "run-9",
        "environment_id": "env-1",
        "outcome": "lost",
        "has_error": True,
        "error": {"type": "Lost", "message": "gave up"},
        "traces": {
            "trace_count": 2,
            "total_tokens": 70,
            "total_duration_ms": 21_000,
            "any_trace_error": True,
            "agent_names": ["solver", "judge"],
        },
    }
    member = (await wire.get("/traces/t1")).json
    assert (member["episode_id"], member["environment_id"], member["run_id"]) == (
        "e1",
        "env-1",
        "run-1",
    )
    assert await ids(wire, "/episodes/e1/traces") == ["t1", "t2"]
    assert await ids(wire, "/episodes/e1/traces", has_error="true") == ["t2"]


async def test_raw_documents_of_an_episode(wire: Wire) -> None:
    """The envelope with ids in place of its traces; each trace exactly as it was within."""
    inner = '{ "id":"t1" , "timing":{"start":1799999999.50} }'
    twin = '{"note":"t","id":"t2","timing":{"start":1800000000}}'
    line = (
        f'{{"copy":{twin},"z":1.0,"id":"e1","traces": [{inner} ,\t{twin}],"env":{{"id":"env"}},'
        f'"a":[1e3]}}'
    )
    assert (await send(wire, line.encode() + b"\n", episodes=True)).status == 201
    raw = (await wire.get("/episodes/e1?raw=true")).body
    assert (
        raw
        == (
            f'{{"copy":{twin},"z":1.0,"id":"e1","traces":["t1","t2"],"env":{{"id":"env"}},"a":[1e3]}}'
        ).encode()
    )
    assert (await wire.get("/traces/t1?raw=true")).body == inner.encode()
    assert (await wire.get("/traces/t2?raw=true")).body == twin.encode()


async def test_filters_and_pages(wire: Wire) -> None:
    """Newest first; steps and context are those of any trace in it."""
    for number in range(4):
        run = {"id": "run-1", "work": {"step": number}}
        members = [trace(f"t{number}", run=run, timing={"start": NOW - 60 + number})]
        record = episode(f"e{number}", members, env={"id": f"env-{number % 2}"}, ok=number != 1)
        await store(
            wire,
            record,
            episodes=True,
            metadata={"schema_version": 1, "context": {"n": str(number)}},
        )
    await store(wire, episode("empty", [], run={"id": "run-2"}), episodes=True)
    assert await listed(wire) == ["empty", "e3", "e2", "e1", "e0"]
    assert await listed(wire, run_id="run-1", has_error="false") == ["e3", "e2", "e0"]
    assert await listed(wire, environment_id="env-1") == ["empty", "e3", "e1"]
    assert await listed(wire, run_step=2) == ["e2"]
    assert await listed(wire, step_min=1, step_max=2) == ["e2", "e1"]
    assert await listed(wire, **{"context.n": "3"}) == ["e3"]
    assert await listed(wire, created_before="2027-01-15T07:59:02Z") == ["e1", "e0"]
    upload = (await wire.get("/episodes/e2")).json["upload_id"]
    assert await listed(wire, upload_id=upload) == ["e2"]
    first = (await wire.get("/episodes?limit=2")).json
    assert [item["episode_id"] for item in first["items"]] == ["empty", "e3"]
    assert await listed(wire, limit=10, cursor=first["next_cursor"]) == ["e2", "e1", "e0"]


async def test_the_newest_copy_of_an_episode_is_read(wire: Wire) -> None:
    """Its traces are those of any copy that are still the newest of theirs."""
    await store(wire, episode("e1", [trace("t1")], outcome="old"), episodes=True)
    await store(wire, episode("e1", [trace("t2")], outcome="new"), episodes=True)
    found = (await wire.get("/episodes/e1")).json
    assert (found["outcome"], found["traces"]["trace_count"]) == ("new", 2)
    assert await listed(wire) == ["e1"]


async def test_an_unknown_episode(wire: Wire) -> None:
    """404 ``episode_not_found``, everywhere."""
    for path in ("", "?raw=true", "/traces"):
        reply = await wire.get(f"/episodes/nobody{path}")
        assert (reply.status, reply.code) == (404, "episode_not_found")
    reply = await wire.delete("/episodes/nobody")
    assert (reply.status, reply.code) == (404, "episode_not_found")


async def test_deleting_an_episode_deletes_its_traces(wire: Wire) -> None:
    """All copies; others stay, and the same lines can be stored again."""
    data = lines(episode("e1", [trace("t1"), trace("t2")]), episode("e2", [trace("t3")]))
    await send(wire, data, episodes=True)
    reply = await wire.delete("/episodes/e1")
    assert (reply.status, reply.json) == (202, {"deleted_traces": 2, "deleted_episodes": 1})
    assert await listed(wire) == ["e2"]
    assert await ids(wire) == ["t3"]
    again = await send(wire, data, episodes=True)
    assert (again.status, again.json["replayed"]) == (201, False)
    assert sorted(await ids(wire)) == ["t1", "t2", "t3"]
    assert json.loads((await wire.get("/traces/t1?raw=true")).body) == trace("t1")
