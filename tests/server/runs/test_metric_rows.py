"""Metric rows of both kinds of run: stored once per step, merged, read by step."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from prime_async.runs.wire import MetricPage
from tests.platform import running_platform
from tests.server.runs.people import People, training_run
from tests.server.wire import Reply, Wire


@dataclass
class Rows:
    """The metric rows of one run, wherever they are."""

    wire: Wire
    write: str
    read: str
    named: dict[str, str]

    async def log(self, *rows: dict[str, Any], headers: dict[str, str] | None = None) -> Reply:
        body = {**self.named, "rows": list(rows)}
        return await self.wire.post(self.write, body, headers=headers or {})

    async def all(self, **query: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            more = {} if cursor is None else {"cursor": cursor}
            reply = await self.wire.get(self.read, params={**query, **more})
            assert reply.status == 200, reply
            page = MetricPage.from_wire(reply.json)
            found += page.rows
            cursor = page.next_cursor
            if cursor is None:
                return found


@pytest.fixture(params=["eval", "train"])
async def rows(request: pytest.FixtureRequest, wire: Wire) -> Rows:
    """The rows of an evaluation, then those of a training run."""
    if request.param == "eval":
        path = f"/evaluations/{await wire.evaluation()}/metric-rows"
        return Rows(wire, path, path, {})
    run_id = await training_run(wire)
    return Rows(wire, "/rft/metrics", f"/rft/external-runs/{run_id}/metrics", {"run_id": run_id})


async def test_rows_come_back_by_step(rows: Rows) -> None:
    """Rows without a step first, as they arrived; then by step, in whatever order they were
    sent.
    """
    await rows.log({"step": 3, "a": 1}, {"note": "second"}, {"step": -1, "a": 2})
    await rows.log({"step": 1, "a": 3}, {"note": "first"}, {"step": 2.0, "a": 4})
    assert await rows.all() == [
        {"note": "second"},
        {"note": "first"},
        {"step": -1, "a": 2},
        {"step": 1, "a": 3},
        {"step": 2.0, "a": 4},
        {"step": 3, "a": 1},
    ]


async def test_one_row_is_kept_of_a_step(rows: Rows) -> None:
    """A later row of a step adds and replaces names; a repeat changes nothing."""
    first = await rows.log({"step": 1, "a": 1.50, "b": {"c": 2**70}}, {"step": 1, "d": None})
    assert first.json == {"stored": 1, "updated": 0}
    again = await rows.log({"step": 1, "a": 1.50})
    assert again.json == {"stored": 0, "updated": 0}
    more = await rows.log({"step": 1, "a": 2, "e": [1]}, {"step": 2})
    assert more.json == {"stored": 1, "updated": 1}
    assert await rows.all() == [
        {"step": 1, "a": 2, "b": {"c": 2**70}, "d": None, "e": [1]},
        {"step": 2},
    ]


async def test_rows_without_a_step_are_kept_once(rows: Rows) -> None:
    """An exact repeat is one row, as when a client sends again what it does not know arrived."""
    row = {"loss": 0.5, "_timestamp": 1800000000.25}
    assert (await rows.log(row, row)).json == {"stored": 1, "updated": 0}
    assert (await rows.log(row, {**row, "_timestamp": 1.0})).json == {"stored": 1, "updated": 0}
    assert await rows.all() == [row, {**row, "_timestamp": 1.0}]


async def test_pages_and_the_rows_behind_a_step(rows: Rows) -> None:
    """Every row is on one page; ``after_step`` is where a follower goes on."""
    sent = [{"step": step, "value": step / 7} for step in range(25)]
    loose = [{"value": index} for index in range(3)]
    assert (await rows.log(*reversed(sent), *loose)).json == {"stored": 28, "updated": 0}
    assert await rows.all(limit=4) == loose + sent
    assert await rows.all(after_step=20, limit=3) == sent[21:]
    assert await rows.all(after_step=24) == []


async def test_digits_are_kept_as_they_were_sent(rows: Rows) -> None:
    """Neither long integers nor trailing zeros are rewritten."""
    run = "".join(f'"{name}": "{value}", ' for name, value in rows.named.items())
    raw = f'{{{run}"rows": [{{"step": 1, "a": 1.500, "b": {2**80}, "c": 1e-7}}]}}'
    assert (await rows.wire.send("POST", rows.write, raw=raw.encode())).status == 200
    await rows.log({"step": 1, "d": 1})
    reply = await rows.wire.get(rows.read)
    assert b'"a":1.500,"b":%d,"c":1e-7,"d":1' % 2**80 in reply.body


async def test_a_step_is_a_whole_number(wire: Wire) -> None:
    """Anything else is refused by its place, and no row of the request is stored."""
    evaluation = await wire.evaluation()
    path = f"/evaluations/{evaluation}/metric-rows"
    for step in ("1", True, 1.5, 2**60, [1]):
        refused = await wire.post(path, {"rows": [{"step": 1}, {"step": step}]})
        assert refused.status == 422, step
        assert refused.json["detail"][0]["loc"] == ["body", "rows", 1, "step"]
    assert (await wire.get(path)).json["rows"] == []


async def test_bad_bodies_are_refused(wire: Wire) -> None:
    """Neither rows nor metrics, both, and what is no object."""
    run_id = await training_run(wire)
    for body in (
        {},
        {"metrics": {"a": 1}, "rows": [{"a": 1}]},
        {"rows": {"a": 1}},
        {"rows": [1]},
        {"metrics": [{"a": 1}]},
        {"rows": [{}] * 20_001},
    ):
        assert (await wire.post("/rft/metrics", {"run_id": run_id, **body})).status == 422
    assert (await wire.post("/rft/metrics", {"metrics": {"a": 1}})).status == 422
    nan = b'{"run_id": "%s", "metrics": {"a": NaN}}' % run_id.encode()
    assert (await wire.send("POST", "/rft/metrics", raw=nan)).code == "invalid_json"
    assert (await wire.get(f"/rft/external-runs/{run_id}/metrics")).json["rows"] == []


async def test_the_plain_form_of_trainers(wire: Wire) -> None:
    """One row per request, as official clients send it."""
    run_id = await training_run(wire)
    for step in (2, 1, 2):
        row = {"run_id": run_id, "metrics": {"step": step, "reward": step / 10}}
        assert (await wire.post("/rft/metrics", row)).status == 200
    page = (await wire.get(f"/rft/external-runs/{run_id}/metrics")).json
    assert page == {
        "rows": [{"step": 1, "reward": 0.1}, {"step": 2, "reward": 0.2}],
        "next_cursor": None,
    }


async def test_a_key_makes_a_repeat_the_same_answer(rows: Rows) -> None:
    """The first answer is replayed, and nothing is stored again."""
    key = {"Idempotency-Key": "rows-1"}
    first = await rows.log({"step": 1, "a": 1}, headers=key)
    await rows.log({"step": 1, "a": 2})
    again = await rows.log({"step": 1, "a": 1}, headers=key)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json == first.json
    assert await rows.all() == [{"step": 1, "a": 2}]


async def test_many_at_once_lose_nothing(rows: Rows) -> None:
    """Rows of one step from several requests at the same time end up in one row."""
    await asyncio.gather(
        *(rows.log(*({"step": step, f"m{part}": part} for step in range(50))) for part in range(8))
    )
    expected = {f"m{part}": part for part in range(8)}
    found = await rows.all()
    assert [row.pop("step") for row in found] == list(range(50))
    assert all(row == expected for row in found)


async def test_rows_may_follow_the_end(wire: Wire) -> None:
    """What a client had kept on its disk arrives after the run was closed."""
    run_id, evaluation = await training_run(wire), await wire.evaluation()
    await wire.put(f"/rft/external-runs/{run_id}/status", {"status": "failed"})
    await wire.put(f"/evaluations/{evaluation}", {"status": "FAILED"})
    late = {"rows": [{"step": 1}]}
    assert (await wire.post("/rft/metrics", {"run_id": run_id, **late})).status == 200
    assert (await wire.post(f"/evaluations/{evaluation}/metric-rows", late)).status == 200


async def test_public_evaluations_may_be_read(people: People) -> None:
    """By anyone, but written by nobody else; a deleted one takes its rows along."""
    wire = people.wire
    public, private = await wire.evaluation(is_public=True), await wire.evaluation()
    for evaluation in (public, private):
        await wire.post(f"/evaluations/{evaluation}/metric-rows", {"rows": [{"step": 1}]})
    seen = await people.other.get(f"/evaluations/{public}/metric-rows")
    assert seen.json["rows"] == [{"step": 1}]
    for method, evaluation in (("GET", private), ("POST", public), ("POST", private)):
        reply = await people.other.send(
            method, f"/evaluations/{evaluation}/metric-rows", json={"rows": []}
        )
        assert (reply.status, reply.code) == (404, "evaluation_not_found")
    await wire.delete(f"/evaluations/{public}")
    assert (await people.other.get(f"/evaluations/{public}/metric-rows")).status == 404


async def test_a_deletion_that_was_cut_short_is_finished_at_the_next_start(tmp_path: Path) -> None:
    """Rows whose run is gone are dropped, those of others stay."""
    async with running_platform(tmp_path) as platform, Wire(platform.url) as wire:
        ids = [await wire.evaluation() for _ in range(2)]
        for evaluation in ids:
            await wire.post(f"/evaluations/{evaluation}/metric-rows", {"rows": [{"step": 1}]})
        await platform.parts.database.write(
            lambda writer: writer.exec_driver_sql("DELETE FROM evaluations WHERE id = ?", (ids[0],))
        )
    async with running_platform(tmp_path) as platform:
        left = platform.parts.database.point(
            lambda reader: reader.exec_driver_sql("SELECT count(*) FROM metric_rows").scalar_one()
        )
    assert left == 1
