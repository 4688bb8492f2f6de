"""Traces that arrive in many requests: what that costs, and that nothing of it is ever missing."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from sqlalchemy import event

from tests.platform import RunningPlatform, running_platform
from tests.server.spans import Spans, request_of
from tests.server.wire import Reply, Wire

TRACE = "ab" * 16
PROTOBUF = "application/x-protobuf"


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[RunningPlatform]:
    """A platform with the true clock, which spans are made by."""
    limits = {"otlp_trace_bytes": 100_000}
    async with running_platform(tmp_path, limits=limits) as running:
        yield running


@pytest.fixture
def spans(wire: Wire) -> Spans:
    return Spans(wire)


class Work:
    """Counts what the database does: a hundred steps of its machine at a time."""

    def __init__(self, platform: RunningPlatform) -> None:
        self.steps = 0
        self._seen: set[int] = set()
        engine = platform.parts.database.engine
        event.listen(engine, "before_cursor_execute", self._watch)

    def _watch(self, connection: Any, *_: Any) -> None:
        dbapi = connection.connection.dbapi_connection
        if id(dbapi) not in self._seen:
            self._seen.add(id(dbapi))
            dbapi.set_progress_handler(self._count, 100)

    def _count(self) -> int:
        self.steps += 1
        return 0


def times_made(platform: RunningPlatform) -> int:
    """How often a trace was made of its spans."""
    query = "SELECT seq FROM sqlite_sequence WHERE name = 'trace_uploads'"
    made: int = platform.parts.database.point(
        lambda reader: reader.exec_driver_sql(query).scalar_one()
    )
    return made


async def names(wire: Wire, trace_id: str = TRACE) -> list[str]:
    reply = await wire.get(f"/traces/{trace_id}", params={"raw": "true"})
    assert reply.status == 200, reply
    return [one["name"] for one in reply.json["info"]["otlp"]["spans"]]


async def test_the_work_grows_as_the_spans_do(
    platform: RunningPlatform, wire: Wire, spans: Spans
) -> None:
    """One span per request: a trace is made when it has doubled, and each request costs the same
    however many there were before.
    """
    work = Work(platform)
    costs: list[int] = []
    for _ in range(2):
        before = work.steps
        for _ in range(64):
            assert (await spans.send(spans.span("s"))).json == {}
        costs.append(work.steps - before)
    assert times_made(platform) == 8  # of 1, 2, 4 … 128 spans
    # The second half has one making, of twice the spans of all those of the first together.
    assert costs[1] < 2 * costs[0]
    assert len(await names(wire)) == 128
    assert times_made(platform) == 8


async def test_whatever_is_read_is_up_to_date(
    platform: RunningPlatform, wire: Wire, spans: Spans
) -> None:
    """Every way of reading sees all spans that were answered, though their trace waits."""
    ways = {
        "/traces": lambda found: found["items"][0]["size_bytes"],
        f"/traces/{TRACE}": lambda found: found["size_bytes"],
        "/traces/aggregate?group_by=task_id": lambda found: found["groups"][0]["avg_duration_ms"],
        "/runs": lambda found: found["items"][0]["run_id"],
        "/runs/r-1": lambda found: found["run_id"],
    }
    await spans.send(*(spans.span("first") for _ in range(10)))
    for count, (path, read) in enumerate(ways.items(), 1):
        before = times_made(platform)
        run = {"prime.run.id": f"r-{1 if count == 5 else count}"}
        await spans.send(spans.span("late", attributes=run))
        assert times_made(platform) == before
        reply = await wire.get(path)
        assert (reply.status, times_made(platform)) == (200, before + 1), path
        assert read(reply.json)
        assert len(await names(wire)) == 10 + count
    await spans.send(spans.span("late"))
    exported = await wire.get("/traces/export?format=raw")
    assert exported.json["info"]["otlp"]["spans"][-1]["name"] == "late"
    await spans.send(spans.span("last"))
    gone = await wire.send("DELETE", "/traces", params={"run_id": "r-1"})
    assert (gone.status, gone.json["deleted_traces"]) == (202, 1)
    assert (await wire.get(f"/traces/{TRACE}")).status == 404


async def test_what_waits_is_made_after_a_restart(tmp_path: Path) -> None:
    """That a trace waits is on the disk."""
    async with running_platform(tmp_path) as platform, Wire(platform.url) as wire:
        spans = Spans(wire)
        await spans.send(*(spans.span("first") for _ in range(4)))
        await spans.send(spans.span("late"))
    async with running_platform(tmp_path) as platform, Wire(platform.url) as wire:
        assert await names(wire) == ["first"] * 4 + ["late"]


async def test_a_repeat_makes_nothing(platform: RunningPlatform, wire: Wire, spans: Spans) -> None:
    """The same spans again, as exporters send them when an answer got lost."""
    sent = [spans.span("s") for _ in range(5)]
    for _ in range(3):
        assert (await spans.send(*sent)).json == {}
    assert (len(await names(wire)), times_made(platform)) == (5, 1)
    changed = {**sent[0], "name": "changed"}
    await spans.send(changed)
    assert await names(wire) == ["changed", "s", "s", "s", "s"]


async def test_any_order_and_either_encoding_give_the_same_trace(wire: Wire, spans: Spans) -> None:
    """Children before parents, the root last or first, JSON or protobuf, gzip or plain."""
    root = spans.span("root", attributes={"prime.run.id": "r", "a": [1, True, "x", 0.5]})
    inner = spans.span("inner", parentSpanId=root["spanId"], kind=3)
    call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    call["gen_ai.input.messages"] = '[{"role":"user","parts":[{"type":"text","content":"hi"}]}]'
    leaf = spans.span("leaf", parentSpanId=inner["spanId"], attributes=call)
    leaf["status"] = {"code": 2, "message": "no"}
    leaf["events"] = [{"name": "exception", "timeUnixNano": leaf["endTimeUnixNano"]}]
    found: list[Any] = []
    for number, order in enumerate(itertools.permutations((root, inner, leaf))):
        trace_id = f"{number + 1:032x}"
        for one in order:
            reply = await _export(wire, {**one, "traceId": trace_id}, protobuf=number % 2 == 1)
            assert reply.status == 200, reply
        raw = await wire.get(f"/traces/{trace_id}", params={"raw": "true"})
        found.append({**raw.json, "id": None})
    assert found == [found[0]] * 6
    assert found[0]["is_completed"] is True
    assert [one["name"] for one in found[0]["info"]["otlp"]["spans"]] == ["root", "inner", "leaf"]


async def _export(wire: Wire, span: dict[str, Any], *, protobuf: bool) -> Reply:
    body = request_of(span)
    if not protobuf:
        return await wire.send("POST", "//v1/traces", json=body)
    ids = {
        name: bytes.fromhex(span[name])
        for name in ("traceId", "spanId", "parentSpanId")
        if name in span
    }
    message = ParseDict(
        request_of({k: v for k, v in span.items() if k not in ids}), ExportTraceServiceRequest()
    )
    made = message.resource_spans[0].scope_spans[0].spans[0]
    made.trace_id, made.span_id = ids["traceId"], ids["spanId"]
    made.parent_span_id = ids.get("parentSpanId", b"")
    headers = {"Content-Type": PROTOBUF, "Content-Encoding": "gzip"}
    raw = gzip.compress(message.SerializeToString())
    return await wire.send("POST", "//v1/traces", raw=raw, headers=headers)


async def test_a_partial_success_in_protobuf(wire: Wire, spans: Spans) -> None:
    """In the encoding of the request, with count and reason; what fits is kept."""
    old = {**spans.span("old"), "startTimeUnixNano": "1"}
    reply = await _export(wire, old, protobuf=True)
    told = ExportTraceServiceResponse.FromString(reply.body)
    assert (reply.status, reply.headers["Content-Type"]) == (200, PROTOBUF)
    assert told.partial_success.rejected_spans == 1
    assert "365 days" in told.partial_success.error_message


async def test_a_trace_takes_bounded_bytes(wire: Wire, spans: Spans) -> None:
    """What goes over is counted in the partial success; smaller spans are still taken."""
    big = [spans.span("big", attributes={"text": "x" * 40_000}) for _ in range(3)]
    reply = await spans.send(*big)
    partial = reply.json["partialSuccess"]
    assert partial["rejectedSpans"] == 1
    assert "100000 bytes" in partial["errorMessage"]
    assert (await spans.send(spans.span("small"))).json == {}
    assert await names(wire) == ["big", "big", "small"]


async def test_a_trace_that_cannot_be_made_stops_no_other(wire: Wire, spans: Spans) -> None:
    """What was said in it is nested deeper than readers go."""
    deep = '[{"role":"user","content":' + "[" * 950 + "]" * 950 + "}]"
    call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    poison = spans.span("p", trace="cd" * 16, attributes={**call, "gen_ai.input.messages": deep})
    assert (await spans.send(poison, spans.span("good"))).json == {}
    assert await names(wire) == ["good"]
    assert (await wire.get("/traces")).status == 200


async def test_spans_of_many_traces_in_any_requests(wire: Wire, spans: Spans) -> None:
    """Each trace has its own spans in the end, all of them."""
    ids = [f"{number:032x}" for number in range(1, 8)]
    sent = [spans.span(f"{n}", trace=ids[n % 7]) for n in range(70)]
    random.Random(7).shuffle(sent)
    for start in range(0, 70, 9):
        assert (await spans.send(*sent[start : start + 9])).json == {}
    for index, trace_id in enumerate(ids):
        assert await names(wire, trace_id) == [f"{n}" for n in range(index, 70, 7)]


async def test_many_answers_to_one_call_follow_each_other(wire: Wire, spans: Spans) -> None:
    """In the order of their ends, however the requests cut them."""
    asked = {"type": "tool_call", "id": "c", "name": "look", "arguments": "{}"}
    call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    call["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "parts": [asked]}])
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c"}
    sent = [spans.span("chat", attributes=call)]
    for number in range(40):
        result = {"gen_ai.tool.call.result": f"{number}"}
        sent.append(spans.span("tool", attributes={**tool, **result}))
    for start in range(0, 41, 7):
        await spans.send(*sent[start : start + 7])
    found = (await wire.get(f"/traces/{TRACE}", params={"raw": "true"})).json["nodes"]
    assert [node["parent"] for node in found] == [None, *range(40)]
    assert [node["message"]["content"] for node in found[1:]] == [f"{n}" for n in range(40)]
