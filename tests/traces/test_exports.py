"""Exports, downloads and sums: written by the platform where it can, built here elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from prime_async.traces import AsyncTracesClient, TraceAggregate, TracesUsageError
from prime_async.traces import errors as family
from tests.faces import Face, both_faces
from tests.platform import KEY, ThreadedPlatform
from tests.stub import Answer, Request, Stub
from tests.traces.receiver import refusal
from tests.traces.records import fresh_run, line, trace
from tests.traces.test_reading import page, summary

DOCUMENT = '{"id": "%s", "text": "— 日本"}'


@pytest.fixture
def official(stub: Stub) -> Stub:
    """A service that writes no exports: twenty traces on pages of eight."""

    def listed(request: Request) -> Answer:
        start = int(request.query.get("cursor", 0))
        limit = min(8, int(request.query.get("limit", 20)))
        items = [summary(f"t{n}") for n in range(start, min(start + limit, 20))]
        return page(*items, cursor=str(start + limit) if start + limit < 20 else None)

    def document(request: Request) -> Answer:
        return Answer(body=(DOCUMENT % request.path.rsplit("/", 1)[1]).encode())

    stub.route("GET", "/api/v1/traces/t[0-9]+", document)
    stub.route("GET", "/api/v1/traces", listed)
    return stub


@both_faces
async def test_the_platform_writes_them(
    face: Face, platform: ThreadedPlatform, tmp_path: Path
) -> None:
    """JSON lines, Parquet and the bare documents of a run."""
    run = fresh_run()
    records = [trace(f"{run}-{n}", run=run) for n in range(5)]
    async with face.AsyncTracesClient(KEY, base_url=platform.url) as client:
        await client.upload_records(records, context={"k": "v"})
        size = await client.export(tmp_path / "a" / "t.jsonl", run_id=run)
        text = (tmp_path / "a" / "t.jsonl").read_bytes()
        assert size == len(text)
        rows = [json.loads(row) for row in text.splitlines()]
        assert [row["trace_id"] for row in rows] == [r["id"] for r in reversed(records)]
        assert [row["trace"] for row in rows] == records[::-1]
        assert rows[0]["score"] == {"reward": 0.5, "outcome": "done"}
        await client.export(tmp_path / "t.parquet", format="parquet", run_id=run)
        table = pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist()
        assert [json.loads(row["trace"]) for row in table] == records[::-1]
        assert table[0]["context"] == '{"k":"v"}'
        assert (table[0]["reward"], table[0]["model_id"]) == (0.5, "m-1")
        assert await client.download(tmp_path / "raw.jsonl", run_id=run) > 0
        raw = (tmp_path / "raw.jsonl").read_bytes().splitlines(keepends=True)
        assert sorted(raw) == sorted(line(record) for record in records)
        assert await client.export(tmp_path / "none.jsonl", run_id="nobody") == 0


async def test_they_are_built_here_where_the_platform_writes_none(
    client: AsyncTracesClient, official: Stub, tmp_path: Path
) -> None:
    """The same rows, page by page, documents byte by byte."""
    await client.export(tmp_path / "t.jsonl", run_id="r1")
    text = (tmp_path / "t.jsonl").read_text()
    rows = [json.loads(row) for row in text.splitlines()]
    assert [row["trace_id"] for row in rows] == [f"t{n}" for n in range(20)]
    assert all(DOCUMENT % f"t{n}" in text for n in range(20))
    assert rows[3]["from_the_future"] == [1]
    assert rows[3]["run_step"] is None
    await client.export(tmp_path / "t.parquet", format="parquet")
    table = pyarrow.parquet.read_table(tmp_path / "t.parquet")
    assert table.column("trace").to_pylist() == [DOCUMENT % f"t{n}" for n in range(20)]
    assert str(table.schema.field("created_at").type) == "timestamp[us, tz=UTC]"
    await client.download(tmp_path / "raw.jsonl")
    assert (tmp_path / "raw.jsonl").read_text().splitlines() == [
        DOCUMENT % f"t{n}" for n in range(20)
    ]


async def test_a_format_the_platform_cannot_write_is_built_here(
    client: AsyncTracesClient, official: Stub, tmp_path: Path
) -> None:
    """501 is a platform without pyarrow."""
    official.route("GET", "/api/v1/traces/export", refusal(501))
    official.script(
        Answer(
            json={"items": [], "next_cursor": None}, headers={"X-Prime-Features": "traces-export"}
        )
    )
    await client.export(tmp_path / "t.parquet", format="parquet")
    assert pyarrow.parquet.read_table(tmp_path / "t.parquet").num_rows == 20
    assert len(official.seen("GET", "/api/v1/traces/export")) == 1


async def test_an_export_that_fails_leaves_nothing(
    client: AsyncTracesClient, official: Stub, tmp_path: Path
) -> None:
    """Neither the file nor a part of it; the error stands alone."""
    official.route("GET", "/api/v1/traces/t13", refusal(404, "trace_not_found"))
    (tmp_path / "t.jsonl").write_text("before")
    with pytest.raises(family.NotFoundError):
        await client.export(tmp_path / "t.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]
    assert (tmp_path / "t.jsonl").read_text() == "before"


async def test_parquet_without_pyarrow(
    client: AsyncTracesClient, official: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Says what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TracesUsageError, match=r"prime-async\[parquet\]"):
        await client.export(tmp_path / "t.parquet", format="parquet")
    assert list(tmp_path.iterdir()) == []


async def test_formats_and_properties_there_are_not(
    client: AsyncTracesClient, stub: Stub, tmp_path: Path
) -> None:
    """Named before any request."""
    with pytest.raises(TracesUsageError, match="format is 'csv'"):
        await client.export(tmp_path / "t.csv", format="csv")  # type: ignore[arg-type]
    with pytest.raises(TracesUsageError, match="group_by is 'colour'"):
        await client.aggregate("colour")  # type: ignore[arg-type]
    assert stub.requests == []


@both_faces
async def test_sums_are_the_same_whoever_adds_up(
    face: Face,
    platform: ThreadedPlatform,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The platform's groups, and those made here of all summaries."""
    run = fresh_run()
    records: list[dict[str, Any]] = [
        trace(
            f"{run}-{n}",
            run=run,
            rewards={"r": {"score": n / 4, "weight": 1.0}} if n % 3 else {},
            stop_condition="done" if n % 2 else "max_turns",
            ok=n != 4,
        )
        for n in range(7)
    ]
    async with face.AsyncTracesClient(KEY, base_url=platform.url) as client:
        await client.upload_records(records)
        there = await client.aggregate("outcome", run_id=run)
        monkeypatch.setattr("prime_async.traces.bulk.TRACES_AGGREGATE", "unheard-of")
        here = await client.aggregate("outcome", run_id=run)
    assert isinstance(there, TraceAggregate)
    assert [group.key for group in here.groups] == ["max_turns", "done"]
    assert sorted(map(_figures, there.groups)) == sorted(map(_figures, here.groups))
    assert _figures(here.groups[0]) == ("max_turns", 4, 2, 0.75, 0.5, 1.0, 1, 28, 2000)


def _figures(group: Any) -> tuple[Any, ...]:
    return (
        group.key,
        group.trace_count,
        group.scored_count,
        group.avg_reward,
        group.min_reward,
        group.max_reward,
        group.error_count,
        group.total_tokens,
        group.avg_duration_ms,
    )
