"""Exports: all traces that fit, streamed."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pyarrow.parquet
import pytest

from tests.server.traces.uploads import NOW, episode, store, trace
from tests.server.wire import Wire


async def exported(wire: Wire, kind: str, **params: Any) -> bytes:
    """The body of an export."""
    reply = await wire.get("/traces/export", params={"format": kind, **params})
    assert reply.status == 200, reply
    return reply.body


async def some(wire: Wire) -> list[dict[str, Any]]:
    """Traces bare and in an episode; newest first."""
    records = [trace(f"t{n}", timing={"start": NOW - n}, text="é" * 5000 * n) for n in range(5)]
    await store(wire, *records[:3])
    await store(wire, episode("e1", records[3:]), episodes=True)
    return records


async def test_raw_is_the_documents_line_by_line(wire: Wire) -> None:
    """Exactly as they were uploaded."""
    records = await some(wire)
    body = await exported(wire, "raw")
    assert body == b"".join(
        json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        for record in records
    )


async def test_jsonl_is_what_lists_show_and_the_document(wire: Wire) -> None:
    """One object per line; filters narrow it."""
    records = await some(wire)
    rows = [json.loads(line) for line in (await exported(wire, "jsonl")).splitlines()]
    items = (await wire.get("/traces")).json["items"]
    assert [row.pop("trace") for row in rows] == records
    assert [{name: row[name] for name in items[0]} for row in rows] == items
    assert await exported(wire, "jsonl", run_id="nobody") == b""
    one = await exported(wire, "jsonl", created_after="2027-01-15T07:59:58Z", environment_id="x")
    assert one == b""
    assert len((await exported(wire, "jsonl", environment_id="env-1")).splitlines()) == 2


async def test_parquet_is_the_same_in_columns(wire: Wire) -> None:
    """Readable by pyarrow; also when there is no row."""
    records = await some(wire)
    table = pyarrow.parquet.read_table(io.BytesIO(await exported(wire, "parquet")))
    assert table.column("trace_id").to_pylist() == [record["id"] for record in records]
    assert [json.loads(text) for text in table.column("trace").to_pylist()] == records
    assert table.column("reward").to_pylist() == [1.25] * 5
    empty = io.BytesIO(await exported(wire, "parquet", run_id="nobody"))
    assert pyarrow.parquet.read_table(empty).num_rows == 0


async def test_without_pyarrow_the_remedy_is_named(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """501, and what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    reply = await wire.get("/traces/export?format=parquet")
    assert (reply.status, reply.code) == (501, "not_implemented")
    assert "prime-async[parquet]" in reply.json["error"]["message"]


async def test_many_traces_are_exported_in_order_and_once(wire: Wire) -> None:
    """More than are read at once."""
    many = [{"id": f"t{n:03}", "timing": {"start": NOW - n // 7}} for n in range(600)]
    await store(wire, *many)
    rows = [json.loads(line) for line in (await exported(wire, "raw")).splitlines()]
    assert {row["id"] for row in rows} == {row["id"] for row in many}
    assert len(rows) == 600
    starts = [row["timing"]["start"] for row in rows]
    assert starts == sorted(starts, reverse=True)


async def test_a_format_has_to_be_known(wire: Wire) -> None:
    """400 ``invalid_filter``."""
    reply = await wire.get("/traces/export?format=csv")
    assert (reply.status, reply.code) == (400, "invalid_filter")
