"""The official ``prime-traces``, unmodified, against the embedded platform: sync and async."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prime_traces
import pytest
from prime_traces import LineFormat

from prime_async.traces import AsyncTracesClient as Ours
from tests.platform import KEY, ThreadedPlatform, running_platform
from tests.traces.records import episode, fresh_run, line, trace


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedPlatform]:
    """One platform for all of these: each test uses a run of its own."""
    with ThreadedPlatform(tmp_path_factory.mktemp("platform")) as running:
        yield running


class Official:
    """Both official clients behind one calling convention; iterators become lists."""

    def __init__(self, kind: str, **options: Any) -> None:
        self.kind = kind
        self._loop = asyncio.new_event_loop()
        self._client: Any = (
            prime_traces.TracesClient(**options)
            if kind == "sync"
            else self._run(lambda: prime_traces.AsyncTracesClient(**options))
        )

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return lambda *args, **kwargs: self._run(lambda: method(*args, **kwargs))

    def close(self) -> None:
        self._run(self._client.close if self.kind == "sync" else self._client.aclose)
        self._loop.close()

    def _run(self, call: Any) -> Any:
        if self.kind == "sync":
            result = call()
            return list(result) if inspect.isgenerator(result) else result

        async def main() -> Any:
            result = call()
            if inspect.isasyncgen(result):
                return [item async for item in result]
            return await result if inspect.isawaitable(result) else result

        return self._loop.run_until_complete(main())


@pytest.fixture(params=["sync", "async"])
def official(
    request: pytest.FixtureRequest, platform: ThreadedPlatform, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Official]:
    """The official client, configured by the environment as ``local env`` prints it."""
    monkeypatch.setenv("PRIME_API_KEY", KEY)
    monkeypatch.setenv("PRIME_TRACES_URL", platform.url)
    client = Official(request.param)
    yield client
    client.close()


def uploaded(official: Official, count: int = 5, **fields: Any) -> tuple[str, list[dict[str, Any]]]:
    run = fresh_run()
    records = [
        trace(
            f"{run}-{n}",
            run=run,
            rewards={"r": {"score": n / 10, "weight": 1.0}} if n else {},
            **fields,
        )
        for n in range(count)
    ]
    official.upload_records(records, context={"suite": run})
    return run, records


def test_upload_and_read_back(official: Official) -> None:
    """Summary, raw bytes, nodes and calls of what was uploaded."""
    run, records = uploaded(official)
    summary = official.get(records[2]["id"])
    assert (summary.run_id, summary.task_id, summary.agent_name) == (run, "add", "solver")
    assert (summary.model.provider, summary.model.id) == ("prime", "m-1")
    assert (summary.score.reward, summary.score.outcome) == (0.2, "done")
    assert (summary.execution.has_error, summary.execution.is_truncated) == (False, False)
    assert (summary.duration_ms, summary.total_tokens) == (2000, 7)
    assert summary.size_bytes == len(line(records[2]).rstrip())
    assert summary.context == {"suite": run}
    assert official.get(records[0]["id"]).score.reward is None
    assert official.get_raw(records[2]["id"]) == line(records[2]).rstrip()
    nodes = official.list_nodes(records[2]["id"])
    assert [node.message.role for node in nodes.items] == ["user", "assistant"]
    assert [node.parent_idx for node in nodes.items] == [None, 0]
    assert nodes.partial_index is False
    assert [n.node_idx for n in official.list_nodes(records[2]["id"], role=["user"]).items] == [0]
    assert [n.node_idx for n in official.list_nodes(records[2]["id"], after=0).items] == [1]
    (call,) = official.list_calls(records[2]["id"], model=["m-1"], finish_reason=["stop"]).items
    assert (call.node_idx, call.model, call.finish_reason) == (1, "m-1", "stop")


@pytest.mark.parametrize("compress", [True, False])
def test_batches_replays_and_conflicts(official: Official, compress: bool) -> None:
    """One receipt per batch; the same bytes again are a replay; the other format a conflict."""
    run = fresh_run()
    lines = [line(trace(f"{run}-{n}", run=run)) for n in range(6)]
    told: list[str] = []
    receipts = official.upload_lines(
        lines,
        compress=compress,
        target_batch_bytes=2_000,
        on_batch=lambda batch, receipt: told.append(batch.digest),
    )
    assert [receipt.upload_id for receipt in receipts] == told
    assert {receipt.status for receipt in receipts} == {"committed"}
    assert len(receipts) > 1
    again = official.upload_lines(lines, compress=not compress, target_batch_bytes=2_000)
    assert [receipt.upload_id for receipt in again] == told
    assert len(official.list(run_id=run).items) == 6
    assert official.list(run_id=run, upload_id=told[:2], limit=100).next_cursor is None
    with pytest.raises(prime_traces.LineFormatConflictError) as caught:
        official.upload_lines(
            lines, line_format=LineFormat.EPISODE, target_batch_bytes=2_000, max_attempts=1
        )
    assert caught.value.code == prime_traces.ErrorCode.LINE_FORMAT_CONFLICT


def test_lists_filters_and_cursors(official: Official) -> None:
    """Filters hold together, pages go on where they stopped, a cursor belongs to its filters."""
    run, records = uploaded(official, 7)
    ids = [record["id"] for record in reversed(records)]
    assert [item.trace_id for item in official.iter(run_id=run)] == ids
    first = official.list(run_id=run, limit=3)
    assert [item.trace_id for item in first.items] == ids[:3]
    second = official.list(run_id=run, limit=3, cursor=first.next_cursor)
    assert [item.trace_id for item in second.items] == ids[3:6]
    assert official.list(run_id=run, limit=3, cursor=second.next_cursor).next_cursor is None
    by_reward = official.list(run_id=run, sort="reward").items
    assert by_reward[0].score.reward == 0.6
    scored = official.list(run_id=run, reward_min=0.2, reward_max=0.4).items
    assert sorted(item.score.reward for item in scored) == [0.2, 0.3, 0.4]
    for filters in (
        {"has_error": True},
        {"is_truncated": True},
        {"outcome": "other"},
        {"model_id": "other"},
        {"task_id": "other"},
        {"created_after": "2100-01-01T00:00:00Z"},
        {"context": {"suite": "other"}},
        {"environment_id": "other"},
    ):
        assert official.list(run_id=run, **filters).items == []
    assert len(official.list(run_id=run, context={"suite": run}, model_provider="prime").items) == 7
    with pytest.raises(prime_traces.ValidationRejectedError) as caught:
        official.list(run_id=run, limit=2, cursor=first.next_cursor, outcome="done")
    assert caught.value.code == prime_traces.ErrorCode.INVALID_CURSOR


def test_episodes_and_runs(official: Official) -> None:
    """An episode with its traces; a run that is nothing but its traces, with its steps."""
    run = fresh_run()

    def member(number: int) -> dict[str, Any]:
        made = trace(f"{run}-{number}")
        made["run"] = {"id": run, "type": "train", "work": {"type": "train", "step": number}}
        return made

    error = {"type": "E", "message": "m"}
    official.upload_records(
        [
            episode(f"{run}-a", member(1), member(2), outcome="won", run={"id": run}),
            episode(f"{run}-b", member(3), ok=False, errors=[error], run={"id": run}),
        ],
        line_format=LineFormat.EPISODE,
        context={"run_type": "train"},
    )
    assert {item.episode_id for item in official.list_episodes(run_id=run).items} == {
        f"{run}-a",
        f"{run}-b",
    }
    detail = official.get_episode(f"{run}-a")
    assert (detail.outcome, detail.environment_id, detail.has_error) == ("won", "gsm8k", False)
    assert (detail.traces.trace_count, detail.traces.agent_names) == (2, ["solver"])
    failed = official.get_episode(f"{run}-b")
    assert (failed.has_error, failed.error.type, failed.error.message) == (True, "E", "m")
    raw = json.loads(official.get_episode_raw(f"{run}-a"))
    assert raw["traces"] == [f"{run}-1", f"{run}-2"]
    assert len(official.list_episode_traces(f"{run}-a").items) == 2
    assert [e.episode_id for e in official.list_episodes(run_id=run, run_step=3).items] == [
        f"{run}-b"
    ]
    found = official.get_run(run)
    assert (found.trace_count, found.episode_count, found.avg_reward) == (3, 2, 0.5)
    assert (found.step_min, found.step_max, found.step_count) == (1, 3, 3)
    assert run in {item.run_id for item in official.list_runs(run_type="train").items}
    steps = official.list_run_steps(run)
    assert [(step.step, step.trace_count) for step in steps.items] == [(1, 1), (2, 1), (3, 1)]
    assert official.list_run_steps("nobody-knows").items == []


def test_search(official: Official) -> None:
    """Letter by letter, with places in code points and a coverage on the first page."""
    run, records = uploaded(official, 3)
    page = official.search(f"needle of {records[1]['id']}", run_id=run)
    (match,) = page.items
    assert (match.trace_id, match.node_idx, match.role) == (records[1]["id"], 0, "user")
    text = records[1]["nodes"][0]["message"]["content"]
    assert text[match.match_start : match.match_end] == f"needle of {records[1]['id']}"
    assert match.excerpt == text[match.excerpt_start :][: len(match.excerpt)]
    assert page.coverage.examined_traces == 3
    assert official.search("NEEDLE", run_id=run).items == []
    first = official.search("needle", run_id=run, limit=2)
    second = official.search("needle", run_id=run, limit=2, cursor=first.next_cursor)
    assert len(first.items) + len(second.items) == 3
    with pytest.raises(prime_traces.ValidationRejectedError):
        official.search("ab", run_id=run)


def test_deletes(official: Official, tmp_path: Path) -> None:
    """A trace, then a whole run; what is gone is a 404, on repeat too."""
    run, records = uploaded(official, 3)
    assert official.download_raw(records[0]["id"], tmp_path / "t.json") > 100
    assert (tmp_path / "t.json").read_bytes() == line(records[0]).rstrip()
    assert official.delete(records[0]["id"]) is None
    for gone in (official.get, official.get_raw, official.delete):
        with pytest.raises(prime_traces.NotFoundError) as caught:
            gone(records[0]["id"])
        assert caught.value.code == prime_traces.ErrorCode.TRACE_NOT_FOUND
    official.delete_run(run)
    assert official.list(run_id=run).items == []
    with pytest.raises(prime_traces.NotFoundError) as missing:
        official.get_run(run)
    assert missing.value.code == prime_traces.ErrorCode.RUN_NOT_FOUND


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([b"{broken\n"], "malformed_encoding invalid_trace"),
        ([b"[]\n"], "invalid_trace"),
        ([b'{"timing":{"start":1}}\n'], "invalid_trace"),
        ([b'{"id":"x","timing":{"start":1}}\n'], "created_at_out_of_window"),
        (["twice", "twice"], "duplicate_trace_id"),
    ],
)
def test_refused_lines(official: Official, lines: list[Any], code: str) -> None:
    """One wrong line refuses the request, with the service's code; nothing of it is stored."""
    run = fresh_run()
    good = line(trace(f"{run}-good", run=run))
    sent = [line(trace(run, run=run)) if isinstance(one, str) else one for one in lines]
    if sent[0] == sent[-1] and len(sent) == 2:
        sent[1] = line(trace(run, run=run))
    with pytest.raises(prime_traces.ValidationRejectedError) as caught:
        official.upload_lines([good, *sent])
    assert str(caught.value.code) in code.split()
    assert official.list(run_id=run).items == []


async def test_teams_see_only_their_own(tmp_path: Path) -> None:
    """The header says whose a trace is."""
    async with running_platform(tmp_path) as platform:
        keys = platform.parts.keys
        anna = await keys.add_account("anna", "Anna", "pit_anna_0123456789")
        team = await keys.add_team("lab", "The Lab", {anna.id: "member"})
        options = {"api_key": "pit_anna_0123456789", "base_url": platform.url}
        async with (
            prime_traces.AsyncTracesClient(**options, team_id=team) as lab,
            prime_traces.AsyncTracesClient(**options, team_id="") as alone,
            prime_traces.AsyncTracesClient(**options, team_id="others") as stranger,
        ):
            await lab.upload_records([trace("t1", run="r1")])
            assert len((await lab.list(run_id="r1")).items) == 1
            assert (await alone.list(run_id="r1")).items == []
            with pytest.raises(prime_traces.NotFoundError):
                await alone.get("t1")
            with pytest.raises(prime_traces.ForbiddenError):
                await stranger.get("t1")


def test_a_wrong_key(platform: ThreadedPlatform) -> None:
    """Is the error for that."""
    client = Official("sync", api_key="pit_wrong", base_url=platform.url)
    with pytest.raises(prime_traces.UnauthorizedError):
        client.list()
    client.close()


async def test_both_clients_give_uploads_the_same_names(platform: ThreadedPlatform) -> None:
    """What the official client has stored, ours replays, and the other way round."""
    run = fresh_run()
    lines = [line(trace(f"{run}-{n}", run=run)) for n in range(8)]
    async with (
        prime_traces.AsyncTracesClient(api_key=KEY, base_url=platform.url) as official,
        Ours(KEY, base_url=platform.url) as ours,
    ):
        for target in (1, 1_500, 4_000, 30 * 2**20):
            theirs = await official.upload_lines(lines, target_batch_bytes=target)
            again = await ours.upload_lines(lines, target_batch_bytes=target)
            assert [r.upload_id for r in again] == [r.upload_id for r in theirs]
            assert all(receipt.replayed for receipt in again)
        assert len([item async for item in ours.iter(run_id=run)]) == 8


def test_every_method_is_here_with_its_arguments() -> None:
    """Ours take what the official ones take, under the same names and in the same order."""
    pairs = (
        (prime_traces.AsyncTracesClient, Ours),
        (prime_traces.TracesClient, __import__("prime_sync").TracesClient),
    )
    for theirs, ours in pairs:
        for name, method in inspect.getmembers(theirs, callable):
            if name.startswith("_"):
                continue
            wanted = inspect.signature(method).parameters
            found = inspect.signature(getattr(ours, name)).parameters
            if any(p.kind is p.VAR_KEYWORD for p in wanted.values()):
                continue
            assert [p for p in found if p in wanted] == list(wanted), name
            for parameter in wanted.values():
                assert found[parameter.name].kind == parameter.kind, (name, parameter.name)
                if isinstance(parameter.default, int | str | bool | type(None)):
                    assert found[parameter.name].default == parameter.default, (name, parameter)
