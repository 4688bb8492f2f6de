"""Reading: what is asked for, what comes back, page by page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from prime_async.traces import AsyncTracesClient, LineFormat, TraceSummary, TracesUsageError
from prime_async.traces import errors as family
from tests.faces import Face, both_faces
from tests.platform import KEY, ThreadedPlatform
from tests.stub import Answer, Stub
from tests.traces.receiver import refusal
from tests.traces.records import episode, fresh_run, line, trace

SUMMARY: dict[str, Any] = {
    "trace_id": "t1",
    "upload_id": "ab" * 32,
    "episode_id": None,
    "created_at": "2026-01-02T03:04:05.006Z",
    "ingested_at": "2026-01-02T03:05:00Z",
    "run_id": "r1",
    "environment_id": None,
    "model": {"provider": "prime", "id": "m"},
    "task_id": "k-1",
    "agent_name": "solver",
    "score": {"reward": None, "outcome": "done"},
    "execution": {"has_error": False, "is_truncated": False},
    "duration_ms": 12500,
    "total_tokens": 900,
    "size_bytes": 4096,
    "context": {"source": "x"},
    "metrics": {"turns": 4.0, "lost": None},
    "activity": {"total_entries": 5, "user_messages": 1, "model_turns": 2, "tool_calls": 2},
    "from_the_future": [1],
}


def summary(trace_id: str) -> dict[str, Any]:
    return SUMMARY | {"trace_id": trace_id}


def page(*items: dict[str, Any], cursor: str | None = None) -> Answer:
    return Answer(json={"items": list(items), "next_cursor": cursor})


def asked(stub: Stub) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(stub.requests[-1].target).query, keep_blank_values=True)


async def test_a_summary_is_typed_and_a_mapping(client: AsyncTracesClient, stub: Stub) -> None:
    """Times, nested models, what was not scored; fields of the future by key."""
    stub.default = Answer(json=SUMMARY)
    found = await client.get("t1")
    assert isinstance(found, TraceSummary)
    assert found.created_at == datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)
    assert found.score.reward is None
    assert (found.model.provider, found.metrics, found.activity) == (
        "prime",
        {"turns": 4.0, "lost": None},
        SUMMARY["activity"],
    )
    assert found["from_the_future"] == [1]
    assert dict(found) == SUMMARY


async def test_every_filter_of_a_list(client: AsyncTracesClient, stub: Stub) -> None:
    """What is None is left out, what is several repeats the name, context comes last."""
    stub.default = page(summary("t1"), cursor="c1")
    found = await client.list(
        run_id="r1",
        upload_id=["u1", "u2"],
        model_provider="prime",
        reward_min=0.0,
        has_error=False,
        is_truncated=True,
        created_after=datetime(2026, 1, 2, tzinfo=UTC),
        context={"k": "v", "a b": "ü"},
        sort="reward",
        limit=2,
        cursor="c0",
    )
    assert asked(stub) == [
        ("run_id", "r1"),
        ("upload_id", "u1"),
        ("upload_id", "u2"),
        ("model_provider", "prime"),
        ("reward_min", "0.0"),
        ("has_error", "false"),
        ("is_truncated", "true"),
        ("created_after", "2026-01-02T00:00:00+00:00"),
        ("sort", "reward"),
        ("limit", "2"),
        ("cursor", "c0"),
        ("context.k", "v"),
        ("context.a b", "ü"),
    ]
    assert [item.trace_id for item in found.items] == ["t1"]
    assert (found.next_cursor, found["next_cursor"]) == ("c1", "c1")
    await client.list(upload_id=[])
    assert asked(stub) == []
    await client.list(upload_id="u1")
    assert asked(stub) == [("upload_id", "u1")]


@pytest.mark.parametrize(
    ("method", "arguments", "target"),
    [
        (
            "list_nodes",
            {"trace_id": "t/1".replace("/", "é"), "role": ["user", "tool"], "after": 0},
            "/traces/t%C3%A91/nodes?role=user&role=tool&after=0",
        ),
        (
            "list_calls",
            {"trace_id": "t1", "model": "m", "finish_reason": ["stop"]},
            "/traces/t1/calls?model=m&finish_reason=stop",
        ),
        (
            "list_episodes",
            {"run_step": 0, "step_min": 1, "context": {"k": "v"}},
            "/episodes?run_step=0&step_min=1&context.k=v",
        ),
        (
            "list_episode_traces",
            {"episode_id": "e1", "reward_max": 1},
            "/episodes/e1/traces?reward_max=1",
        ),
        (
            "list_runs",
            {"run_type": ["eval", "train"], "created_by": "u"},
            "/runs?run_type=eval&run_type=train&created_by=u",
        ),
        ("list_run_steps", {"run_id": "r 1"}, "/runs/r%201/steps"),
        (
            "search",
            {"query": "a&b", "run_id": "r1", "run_step": 0, "has_error": False},
            "/runs/r1/search?query=a%26b&field=content&run_step=0&has_error=false&limit=50",
        ),
        ("get_raw", {"trace_id": "t1"}, "/traces/t1?raw=true"),
        ("get_episode_raw", {"episode_id": "e1"}, "/episodes/e1?raw=true"),
    ],
)
async def test_what_is_asked_for(
    client: AsyncTracesClient, stub: Stub, method: str, arguments: dict[str, Any], target: str
) -> None:
    """Paths and queries, zero and False included."""
    stub.default = Answer(
        json={"items": [], "next_cursor": None, "partial_index": False, "step_count": 0}
    )
    await getattr(client, method)(**arguments)
    assert stub.requests[-1].target == f"/api/v1{target}"


async def test_pages_are_fetched_ahead(client: AsyncTracesClient, stub: Stub) -> None:
    """The second page is asked for when half of the first is taken, and no sooner."""
    stub.script(page(*(summary(f"t{n}") for n in range(4)), cursor="c1"), page(summary("t4")))
    traces = client.iter(run_id="r1", limit=4)
    assert [(await anext(traces)).trace_id for _ in range(2)] == ["t0", "t1"]
    await asyncio.sleep(0.02)
    assert len(stub.requests) == 1
    assert (await anext(traces)).trace_id == "t2"
    await stub.wait_for(2)
    assert [item.trace_id async for item in traces] == ["t3", "t4"]
    assert asked(stub) == [("run_id", "r1"), ("limit", "4"), ("cursor", "c1")]


async def test_leaving_an_iteration_stops_it(client: AsyncTracesClient, stub: Stub) -> None:
    """A page that is just being fetched is given up."""
    stub.script(page(summary("t0"), cursor="c1"))
    stub.default = Answer(status=0, end="silent")
    traces = client.iter()
    await anext(traces)
    await stub.wait_for(2)
    await traces.aclose()  # type: ignore[attr-defined]
    for _ in range(100):
        if stub.open_connections == 0:
            break
        await asyncio.sleep(0.005)
    assert len(stub.requests) == 2


async def test_empty_pages_may_have_a_next_one(client: AsyncTracesClient, stub: Stub) -> None:
    """As a search that found nothing so far."""
    match = {
        "trace_id": "t1",
        "upload_id": "u",
        "generation": 1,
        "episode_id": None,
        "node_idx": 4,
        "role": "tool",
        "field": "content",
        "representation": "text",
        "match_start": 2,
        "match_end": 5,
        "excerpt": "x abc y",
        "excerpt_start": 0,
    }
    stub.script(page(cursor="c1"), page(cursor="c2"), page(match))
    found = [item async for item in client.iter_search("abc", run_id="r1")]
    assert [item.match_start for item in found] == [2]
    assert len(stub.requests) == 3


async def test_a_page_that_fails_ends_the_iteration(client: AsyncTracesClient, stub: Stub) -> None:
    """After the items before it, with the family's error."""
    stub.script(page(summary("t0"), summary("t1"), cursor="c1"), refusal(400, "invalid_cursor"))
    traces = client.iter()
    assert [(await anext(traces)).trace_id for _ in range(2)] == ["t0", "t1"]
    with pytest.raises(family.ValidationRejectedError) as caught:
        await anext(traces)
    assert caught.value.code == "invalid_cursor"


@pytest.mark.parametrize(
    "call",
    [
        lambda client: anext(client.iter(rewrd_min=1)),
        lambda client: client.aggregate("run_id", rewrd_min=1),
        lambda client: client.export("x", rewrd_min=1),
    ],
)
async def test_a_filter_there_is_not(client: AsyncTracesClient, stub: Stub, call: Any) -> None:
    """Named, with the nearest there is, before any request."""
    with pytest.raises(TracesUsageError, match=r"rewrd_min.*did you mean 'reward_min'"):
        await call(client)
    assert stub.requests == []


async def test_wrong_filters(client: AsyncTracesClient, stub: Stub) -> None:
    """Values that cannot be written, and a context that is none."""
    with pytest.raises(TracesUsageError, match="run_id is a object"):
        await client.list(run_id=object())  # type: ignore[arg-type]
    with pytest.raises(TracesUsageError, match="context is a str"):
        await client.list(context="k=v")  # type: ignore[arg-type]
    assert stub.requests == []


async def test_a_download_is_whole_or_not_there(
    client: AsyncTracesClient, stub: Stub, tmp_path: Path
) -> None:
    """A stream that breaks leaves the old file, and nothing beside it."""
    dest = tmp_path / "deep" / "t1.json"
    stub.script(Answer(pieces=[b'{"id":', b'"t1"}']))
    assert await client.download_raw("t1", dest) == 11
    assert dest.read_bytes() == b'{"id":"t1"}'
    stub.default = Answer(pieces=[b'{"id":'], end="cut", length=None)
    stub.default = Answer(body=b'{"id":', length=100, end="cut")
    with pytest.raises(family.TransportError):
        await client.download_raw("t1", dest)
    assert dest.read_bytes() == b'{"id":"t1"}'
    assert [path.name for path in dest.parent.iterdir()] == ["t1.json"]
    stub.default = refusal(404, "trace_not_found")
    with pytest.raises(family.NotFoundError):
        await client.download_raw("t1", tmp_path / "new.json")
    assert not (tmp_path / "new.json").exists()


async def test_the_wire_client_reads_plainly(client: AsyncTracesClient, stub: Stub) -> None:
    """JSON as it is, bytes as they come, errors of the family."""
    stub.script(Answer(json={"any": 1}), Answer(pieces=[b"a", b"b"]), refusal(404))
    assert await client.client.get_json("traces", {"limit": 1, "no": None}) == {"any": 1}
    assert stub.requests[-1].target == "/api/v1/traces?limit=1"
    assert b"".join([piece async for piece in client.client.stream_bytes("/x")]) == b"ab"
    with pytest.raises(family.NotFoundError):
        await client.client.get("/traces/t1")


@both_faces
async def test_everything_on_the_platform(face: Face, platform: ThreadedPlatform) -> None:
    """Lists, iterations, nodes, calls, episodes, runs, steps and search of one run."""
    run = fresh_run()

    def member(number: int) -> dict[str, Any]:
        made = trace(f"{run}-{number}")
        made["run"] = {"id": run, "type": "train", "work": {"type": "train", "step": number % 2}}
        return made

    members = [member(number) for number in range(6)]
    episodes = [
        episode(f"{run}-e{n}", *members[n * 2 : n * 2 + 2], run={"id": run}) for n in range(3)
    ]

    async def everything(source: AsyncIterator[Any], key: str) -> list[Any]:
        return [getattr(item, key) async for item in source]

    async with face.AsyncTracesClient(KEY, base_url=platform.url) as client:
        await client.upload_records(
            episodes, line_format=LineFormat.EPISODE, context={"run_type": "train"}
        )
        ids = [f"{run}-{n}" for n in reversed(range(6))]
        assert await everything(client.iter(run_id=run, limit=4), "trace_id") == ids
        assert len((await client.list(run_id=run, limit=5)).items) == 5
        first = f"{run}-0"
        assert await everything(client.iter_nodes(first, limit=1), "node_idx") == [0, 1]
        assert await everything(client.iter_nodes(first, after=0), "node_idx") == [1]
        assert await everything(client.iter_nodes(first, role="user"), "node_idx") == [0]
        assert await everything(client.iter_calls(first, model="m-1"), "node_idx") == [1]
        assert (await client.list_nodes(first)).items[0].message.content.startswith("needle")
        assert await client.get_raw(first) == line(members[0]).rstrip()
        found = await everything(client.iter_episodes(run_id=run, limit=2), "episode_id")
        assert sorted(found) == [f"{run}-e{n}" for n in range(3)]
        detail = await client.get_episode(f"{run}-e0")
        assert (detail.traces.trace_count, detail.environment_id) == (2, "gsm8k")
        raw = json.loads(await client.get_episode_raw(f"{run}-e0"))
        assert raw["traces"] == [f"{run}-0", f"{run}-1"]
        assert len((await client.list_episode_traces(f"{run}-e0")).items) == 2
        assert run in await everything(client.iter_runs(run_type="train"), "run_id")
        assert (await client.get_run(run)).trace_count == 6
        steps = await client.list_run_steps(run)
        assert [(step.step, step.trace_count) for step in steps.items] == [(0, 3), (1, 3)]
        matches = client.iter_search("needle", run_id=run, limit=4)
        assert sorted(await everything(matches, "trace_id")) == sorted(ids)
