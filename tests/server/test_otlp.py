"""OTLP/HTTP: spans of the real OpenTelemetry SDK, and by hand, become traces."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from google.rpc.status_pb2 import Status as RpcStatus
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Status, StatusCode, Tracer

from tests.platform import KEY, RunningPlatform, running_platform
from tests.server.spans import Spans, pairs
from tests.server.wire import Wire

OTHER = "pit_other_0123456789abcdef"

QUESTION = {"role": "user", "parts": [{"type": "text", "content": "Weather in Paris?"}]}
ASKED = {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": {"city": "Paris"}}
CALLED = {"role": "assistant", "parts": [ASKED], "finish_reason": "tool_call"}
RESULT = {"type": "tool_call_response", "id": "call_1", "response": "rainy, 57°F"}
ANSWER = {"role": "assistant", "parts": [{"type": "text", "content": "It rains."}]}


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[RunningPlatform]:
    """A platform with the true clock, which spans are made by."""
    async with running_platform(tmp_path, limits={"otlp_spans": 20}) as running:
        yield running


@contextmanager
def tracer(platform: RunningPlatform, **options: Any) -> Iterator[Tracer]:
    """The SDK as programs set it up: every span is sent when it ends."""
    settings = {
        "endpoint": f"{platform.url}/v1/traces",
        "headers": {"Authorization": f"Bearer {KEY}"},
        **options,
    }
    provider = TracerProvider(resource=Resource.create({"service.name": "weather-bot"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(**settings)))
    try:
        yield provider.get_tracer("tests")
    finally:
        provider.shutdown()


def agent_run(made_by: Tracer) -> str:
    """An agent that calls a model, a tool, and the model again; return the id of its trace."""
    run = {"prime.run.id": "run-7", "prime.run.type": "train", "prime.run.step": 3}
    with made_by.start_as_current_span("invoke_agent helper", attributes=run) as root:
        root.set_attribute("gen_ai.operation.name", "invoke_agent")
        root.set_attribute("gen_ai.agent.name", "helper")
        for sent, received, tokens in (
            ([QUESTION], CALLED, (97, 52)),
            ([QUESTION, CALLED, {"role": "tool", "parts": [RESULT]}], ANSWER, (157, 20)),
        ):
            with made_by.start_as_current_span("chat gpt-4o") as call:
                call.set_attributes(
                    {
                        "gen_ai.operation.name": "chat",
                        "gen_ai.provider.name": "openai",
                        "gen_ai.request.model": "gpt-4o",
                        "gen_ai.response.model": "gpt-4o-2024-08-06",
                        "gen_ai.request.temperature": 0.5,
                        "gen_ai.usage.input_tokens": tokens[0],
                        "gen_ai.usage.output_tokens": tokens[1],
                        "gen_ai.usage.cache_read.input_tokens": 50,
                        "gen_ai.system_instructions": '[{"type": "text", "content": "Be brief."}]',
                        "gen_ai.input.messages": json.dumps(sent),
                        "gen_ai.output.messages": json.dumps([received]),
                        "gen_ai.response.finish_reasons": [received.get("finish_reason", "stop")],
                    }
                )
            if received is CALLED:
                with made_by.start_as_current_span("execute_tool weather") as tool:
                    tool.set_attribute("gen_ai.operation.name", "execute_tool")
                    tool.set_attribute("gen_ai.tool.call.id", "call_1")
        return f"{root.get_span_context().trace_id:032x}"


async def document(wire: Wire, trace_id: str) -> Any:
    reply = await wire.get(f"/traces/{trace_id}", params={"raw": "true"})
    assert reply.status == 200, reply
    return reply.json


@pytest.mark.parametrize(
    "options",
    [{}, {"compression": Compression.Gzip}],
    ids=["plain", "gzip"],
)
async def test_the_sdk_sends_spans_and_a_trace_is_there(
    platform: RunningPlatform, wire: Wire, options: dict[str, Any]
) -> None:
    """Four spans in four requests are one trace: what was said, calls, tokens, its run."""
    with tracer(platform, **options) as made_by:
        trace_id = await asyncio.to_thread(agent_run, made_by)
    summary = (await wire.get(f"/traces/{trace_id}")).json
    assert (summary["run_id"], summary["run_step"]) == ("run-7", 3)
    assert summary["model"] == {"provider": "openai", "id": "gpt-4o-2024-08-06"}
    assert (summary["agent_name"], summary["task_id"]) == ("helper", "invoke_agent helper")
    assert summary["context"] == {"source": "otlp", "run_type": "train"}
    assert summary["execution"] == {"has_error": False, "is_truncated": False}
    assert summary["total_tokens"] == 177
    nodes = (await wire.get(f"/traces/{trace_id}/nodes")).json["items"]
    assert [(one["parent_idx"], one["sampled"]) for one in nodes] == [
        (None, False),
        (0, False),
        (1, True),
        (2, False),
        (3, True),
    ]
    arguments = '{"city":"Paris"}'
    called = [{"id": "call_1", "name": "weather", "arguments": arguments}]
    assert [one["message"] for one in nodes] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather in Paris?"},
        {"role": "assistant", "content": "", "tool_calls": called},
        {"role": "tool", "tool_call_id": "call_1", "content": "rainy, 57°F"},
        {"role": "assistant", "content": "It rains."},
    ]
    calls = (await document(wire, trace_id))["calls"]
    assert [(one["node"], one["finish_reason"]) for one in calls] == [
        (2, "tool_calls"),
        (4, "stop"),
    ]
    usage = {"prompt_tokens": 107, "completion_tokens": 20, "cached_input_tokens": 50}
    assert calls[1]["usage"] == usage
    assert calls[1]["sampling"] == {"temperature": 0.5}
    listed = (await wire.get("/traces", params={"run_id": "run-7"})).json["items"]
    assert [one["trace_id"] for one in listed] == [trace_id]
    runs = (await wire.get("/runs", params={"run_type": "train"})).json["items"]
    assert [(one["run_id"], one["trace_count"]) for one in runs] == [("run-7", 1)]


async def test_only_the_whole_trace_stays(platform: RunningPlatform, wire: Wire) -> None:
    """What a trace was before its last span came takes no place, in rows or on the disk."""
    with tracer(platform) as made_by:
        first = await asyncio.to_thread(agent_run, made_by)
        second = await asyncio.to_thread(agent_run, made_by)
    listed = (await wire.get("/traces")).json["items"]
    assert {one["trace_id"] for one in listed} == {first, second}
    kept = {one["upload_id"] for one in listed}
    blobs = platform.config.traces_dir / "blobs"
    assert {one.name for one in blobs.rglob("*") if one.is_file()} == kept


async def test_errors_are_told(platform: RunningPlatform, wire: Wire) -> None:
    """The exception that the SDK records, on the call and on the trace."""

    def fail(made_by: Tracer) -> str:
        with made_by.start_as_current_span("chat m") as call:
            call.set_attribute("gen_ai.operation.name", "chat")
            call.set_attribute("gen_ai.request.model", "m")
            call.set_attribute("error.type", "429")
            call.record_exception(ValueError("slow down"))
            call.set_status(Status(StatusCode.ERROR, "rate limited"))
            return f"{call.get_span_context().trace_id:032x}"

    with tracer(platform) as made_by:
        trace_id = await asyncio.to_thread(fail, made_by)
    summary = (await wire.get(f"/traces/{trace_id}")).json
    assert summary["execution"]["has_error"] is True
    found = await document(wire, trace_id)
    (error,) = found["errors"]
    assert (error["type"], error["message"]) == ("429", "rate limited")
    assert "ValueError: slow down" in error["traceback"]
    assert found["calls"][0]["error"] == error
    assert found["calls"][0]["node"] is None


@pytest.fixture
def spans(wire: Wire) -> Spans:
    return Spans(wire)


async def test_numbered_attributes(wire: Wire, spans: Spans) -> None:
    """The way of the first instrumentations: ``gen_ai.prompt.0.role`` and so on."""
    told = {
        "llm.request.type": "chat",
        "gen_ai.system": "Anthropic",
        "gen_ai.request.model": "claude",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "Be brief.",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": '[{"type": "text", "text": "Weather?"}]',
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.finish_reason": "tool_use",
        "gen_ai.completion.0.tool_calls.0.id": "t1",
        "gen_ai.completion.0.tool_calls.0.name": "weather",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"city": "Paris"}',
        "gen_ai.usage.prompt_tokens": 10,
        "gen_ai.usage.completion_tokens": 4,
    }
    assert (await spans.send(spans.span("chat claude", attributes=told))).json == {}
    found = await document(wire, "ab" * 16)
    called = [{"id": "t1", "name": "weather", "arguments": '{"city": "Paris"}'}]
    assert [node["message"] for node in found["nodes"]] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {"role": "assistant", "content": None, "tool_calls": called},
    ]
    (call,) = found["calls"]
    assert (call["finish_reason"], call["usage"]) == (
        "tool_calls",
        {"prompt_tokens": 10, "completion_tokens": 4},
    )
    assert found["agent"]["config"] == {"model": "claude", "client": {"provider": "Anthropic"}}


async def test_an_event_per_message(wire: Wire, spans: Spans) -> None:
    """The way in between: span events, their body as attributes or as JSON."""
    function = {"name": "weather", "arguments": '{"city":"Paris"}'}
    chosen = {"tool_calls": [{"id": "t1", "type": "function", "function": function}]}
    events = [
        ("gen_ai.user.message", {"content": "Weather?"}),
        ("gen_ai.tool.message", {"gen_ai.event.content": '{"id": "t0", "content": "none"}'}),
        ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": json.dumps(chosen)}),
        ("gen_ai.evaluation.result", {"gen_ai.evaluation.name": "Relevance"}),
    ]
    events[-1][1]["gen_ai.evaluation.score.value"] = 0.75
    told = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    sent = [{"name": name, "attributes": pairs(attributes)} for name, attributes in events]
    await spans.send(spans.span("chat m", attributes=told, events=sent))
    found = await document(wire, "ab" * 16)
    assert [node["message"] for node in found["nodes"]] == [
        {"role": "user", "content": "Weather?"},
        {"role": "tool", "tool_call_id": "t0", "content": "none"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "t1", **function}]},
    ]
    assert found["calls"][0]["finish_reason"] == "stop"
    assert found["metrics"] == {"Relevance": 0.75}


async def test_what_a_tool_answered_to_nobody(wire: Wire, spans: Spans) -> None:
    """The last tool of a rollout has no call after it; its own span tells what it answered."""
    call = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": [QUESTION],
        "gen_ai.output.messages": [CALLED],
        "gen_ai.tool.definitions": '[{"type": "function", "name": "weather", "parameters": {}}]',
    }
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.call.id": "call_1",
        "gen_ai.tool.call.result": {"sky": "grey"},
    }
    chat, execution = (spans.span("c", attributes=call), spans.span("t", attributes=tool))
    # The later one first: the order of arrival does not matter.
    for one in (execution, chat, execution):
        await spans.send(one)
    found = await document(wire, "ab" * 16)
    assert found["nodes"][2]["parent"] == 1
    assert found["nodes"][2]["message"] == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": '{"sky":"grey"}',
        "name": "weather",
    }
    assert found["tools"] == [{"name": "weather", "parameters": {}}]
    assert [one["name"] for one in found["info"]["otlp"]["spans"]] == ["c", "t"]
    assert "gen_ai.input.messages" not in str(found["info"])


async def test_spans_without_a_model_are_traces_too(wire: Wire, spans: Spans) -> None:
    """Any program's spans are kept, with all kinds of attributes."""
    told = {"a": 1, "b": [True, 1.5, "x"], "c": {"d": 2**53}, "nan": float("inf")}
    told["e"] = "é — 日本"
    span = spans.span("GET /", attributes=told)
    span["attributes"][3]["value"] = {"doubleValue": "NaN"}
    assert (await spans.send(span, path="/otlp/v1/traces")).status == 200
    found = await document(wire, "ab" * 16)
    assert (found["nodes"], found["calls"]) == ([], [])
    assert found["info"]["otlp"]["spans"][0]["attributes"] == {**told, "nan": None}


async def test_attributes_of_odd_types_are_no_failure(wire: Wire, spans: Spans) -> None:
    """What the conventions have as text may be anything: the trace is made all the same."""
    odd = {
        "gen_ai.operation.name": ["chat"],
        "gen_ai.request.model": {"name": "m"},
        "gen_ai.tool.call.id": ["call_1"],
        "gen_ai.tool.name": "t",
        "gen_ai.input.messages": [{"role": "tool", "tool_call_id": {"a": 1}, "content": None}],
    }
    call = {**odd, "gen_ai.operation.name": "chat"}
    tool = {**odd, "gen_ai.operation.name": "execute_tool"}
    sent = [spans.span(str(n), attributes=told) for n, told in enumerate((odd, call, tool))]
    assert (await spans.send(*sent)).json == {}
    found = await document(wire, "ab" * 16)
    assert [one["name"] for one in found["info"]["otlp"]["spans"]] == ["0", "1", "2"]
    assert found["nodes"][0]["message"]["role"] == "tool"


async def test_openinference(wire: Wire, spans: Spans) -> None:
    """Its numbered attributes of other names are messages, calls and tools too."""
    asked, said = "llm.input_messages", "llm.output_messages.0.message"
    call = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "tiny-2026",
        "llm.provider": "openai",
        "llm.invocation_parameters": '{"model": "tiny", "temperature": 0.5, "stop": ["\\n"]}',
        "llm.token_count.prompt": 9,
        "llm.token_count.completion": 3,
        "llm.token_count.prompt_details.cache_read": 4,
        "llm.finish_reason": "tool_calls",
        f"{asked}.1.message.role": "user",
        f"{asked}.1.message.contents.0.message_content.type": "text",
        f"{asked}.1.message.contents.0.message_content.text": "Weather in Paris?",
        f"{asked}.1.message.contents.1.message_content.type": "image",
        f"{asked}.1.message.contents.1.message_content.image.image.url": "http://a/b.png",
        f"{asked}.0.message.role": "system",
        f"{asked}.0.message.content": "Be brief.",
        f"{said}.role": "assistant",
        f"{said}.tool_calls.0.tool_call.id": "call_1",
        f"{said}.tool_calls.0.tool_call.function.name": "weather",
        f"{said}.tool_calls.0.tool_call.function.arguments": "{}",
        "llm.tools.0.tool.json_schema": '{"function": {"name": "weather"}}',
        "input.value": "Be brief.",
    }
    tool = {"openinference.span.kind": "TOOL", "tool.name": "weather", "output.value": "rain"}
    await spans.send(spans.span("llm", attributes=call), spans.span("tool", attributes=tool))
    found = await document(wire, "ab" * 16)
    system, user, answer = (node["message"] for node in found["nodes"])
    assert system == {"role": "system", "content": "Be brief."}
    assert user["content"] == [
        {"type": "text", "text": "Weather in Paris?"},
        {"type": "image_url", "image_url": {"url": "http://a/b.png"}},
    ]
    assert answer["tool_calls"] == [{"id": "call_1", "name": "weather", "arguments": "{}"}]
    (made,) = found["calls"]
    assert (made["model"], made["finish_reason"]) == ("tiny-2026", "tool_calls")
    assert made["sampling"] == {"temperature": 0.5, "stop": ["\n"]}
    assert made["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "cached_input_tokens": 4,
    }
    assert found["tools"] == [{"name": "weather"}]
    assert found["agent"]["config"]["client"] == {"provider": "openai"}
    assert "brief" not in str(found["info"])
    assert found["info"]["otlp"]["spans"][1]["attributes"]["output.value"] == "rain"


async def test_links_and_events_are_kept(wire: Wire, spans: Spans) -> None:
    """But for events that say messages, which are nodes."""
    span = spans.span("chat", attributes={"gen_ai.operation.name": "chat"})
    pair = {"key": "n", "value": {"intValue": "1"}}
    span["links"] = [{"traceId": "CD" * 16, "spanId": "EF" * 8, "attributes": [pair]}]
    said = [{"key": "content", "value": {"stringValue": "hi"}}]
    span["events"] = [
        {"name": "gen_ai.user.message", "timeUnixNano": "0", "attributes": said},
        {"name": "gen_ai.content.completion.chunk"},
        {"name": "retry", "timeUnixNano": "1500000000", "attributes": [pair]},
    ]
    await spans.send(span)
    found = await document(wire, "ab" * 16)
    (kept,) = found["info"]["otlp"]["spans"]
    assert kept["links"] == [{"trace_id": "cd" * 16, "span_id": "ef" * 8, "attributes": {"n": 1}}]
    assert kept["events"] == [{"name": "retry", "time": 1.5, "attributes": {"n": 1}}]
    assert [node["message"]["content"] for node in found["nodes"]] == ["hi"]


async def test_spans_that_cannot_be_kept_are_counted(wire: Wire, spans: Spans) -> None:
    """The others are taken, as OTLP has it; what is over the limit of a trace is told too."""
    good = spans.span("good")
    old = {**spans.span("old"), "startTimeUnixNano": "1"}
    bad = [{**spans.span("bad"), "traceId": "00" * 16}, {**spans.span("bad"), "spanId": "xyz"}]
    reply = await spans.send(good, old, *bad)
    partial = reply.json["partialSuccess"]
    assert (reply.status, partial["rejectedSpans"]) == (200, 3)
    assert "365 days" in partial["errorMessage"]
    assert (await wire.get(f"/traces/{'ab' * 16}")).status == 200
    many = await spans.send(*(spans.span("more") for _ in range(25)))
    assert many.json["partialSuccess"]["rejectedSpans"] == 6
    assert "20 spans" in many.json["partialSuccess"]["errorMessage"]
    again = await spans.send(good)
    assert again.json == {}


async def test_traces_belong_to_who_sent_them(
    platform: RunningPlatform, wire: Wire, spans: Spans
) -> None:
    """The same trace id of two accounts is two traces; a team's are its members'."""
    keys = platform.parts.keys
    other = await keys.add_account("other", "Other", OTHER)
    team = await keys.add_team("lab", "Lab", {other.id: "member"})
    async with Wire(platform.url, OTHER) as others:
        theirs = Spans(others)
        await spans.send(spans.span("mine"))
        await theirs.send(theirs.span("theirs"))
        headers = {"X-Prime-Team-ID": team}
        await theirs.send(theirs.span("shared"), headers=headers)
        for session, options, name in (
            (wire, {}, "mine"),
            (others, {}, "theirs"),
            (others, {"headers": headers}, "shared"),
        ):
            found = await session.get(f"/traces/{'ab' * 16}", **options)
            assert found.json["task_id"] == name
        stranger = await spans.send(spans.span("x"), headers=headers)
        assert (stranger.status, stranger.code) == (403, "forbidden")


async def test_spans_that_come_at_the_same_time(wire: Wire, spans: Spans) -> None:
    """From several exporters of one trace: none is left out of what the trace is in the end."""
    sent = [spans.span(f"part {index}") for index in range(12)]
    replies = await asyncio.gather(*(spans.send(one) for one in sent))
    assert [reply.json for reply in replies] == [{}] * 12
    found = await document(wire, "ab" * 16)
    assert [one["name"] for one in found["info"]["otlp"]["spans"]] == [one["name"] for one in sent]


async def test_a_deleted_trace_stays_deleted(
    platform: RunningPlatform, wire: Wire, spans: Spans
) -> None:
    """With the spans it was made of; a late one does not bring them back."""
    await spans.send(spans.span("secret"), spans.span("other", trace="cd" * 16))
    assert (await wire.delete(f"/traces/{'ab' * 16}")).status == 202
    count = "SELECT trace_id FROM otlp_spans"
    left = platform.parts.database.point(lambda reader: reader.exec_driver_sql(count).all())
    assert [tuple(row) for row in left] == [("cd" * 16,)]
    await spans.send(spans.span("late"))
    found = await document(wire, "ab" * 16)
    assert [one["name"] for one in found["info"]["otlp"]["spans"]] == ["late"]


async def test_a_trace_uploaded_under_the_same_id_is_kept(wire: Wire, spans: Spans) -> None:
    """Only what was made of spans is replaced when further spans arrive."""
    line = json.dumps({"id": "ab" * 16, "timing": {"start": time.time()}}).encode()
    key = {"Idempotency-Key": f"sha256:{hashlib.sha256(line).hexdigest()}"}
    stored = await wire.send("POST", "/traces", data=_form(line), headers=key)
    assert stored.status == 201
    for name in ("first", "second"):
        assert (await spans.send(spans.span(name))).status == 200
    found = (await wire.get("/traces", params={"upload_id": stored.json["upload_id"]})).json
    newest = (await wire.get(f"/traces/{'ab' * 16}")).json
    assert (newest["task_id"], newest["generation"]) == ("first", 3)
    assert found["items"] == []
    again = await wire.send("POST", "/traces", data=_form(line), headers=key)
    assert again.json["replayed"] is True


def _form(line: bytes) -> aiohttp.FormData:
    form = aiohttp.FormData()
    form.add_field("metadata", '{"schema_version": 1}', content_type="application/json")
    form.add_field("traces", line, filename="traces.jsonl", content_type="application/x-ndjson")
    return form


async def test_nulls_and_odd_times_cost_nobody_else(wire: Wire, spans: Spans) -> None:
    """Fields that are null count as left out; a time that is none does not spoil the trace."""
    odd = spans.span("odd", parentSpanId=None, kind=None, status=None)
    odd["attributes"] = None
    odd["events"] = [
        {"name": None, "timeUnixNano": "soon", "attributes": None},
        {"name": "late", "timeUnixNano": "9" * 400},
    ]
    endless = {**spans.span("endless"), "startTimeUnixNano": "9" * 400}
    assert (await spans.send(odd, endless)).json["partialSuccess"]["rejectedSpans"] == 1
    assert (await spans.send(spans.span("good", endTimeUnixNano=None))).json == {}
    found = await document(wire, "ab" * 16)
    assert [one["name"] for one in found["info"]["otlp"]["spans"]] == ["odd", "good"]


async def test_what_is_no_otlp_is_refused(wire: Wire) -> None:
    """By media type, encoding, shape and key."""
    protobuf = {"Content-Type": "application/x-protobuf"}
    for raw, headers, status, code in (
        (b"[]", {}, 400, "invalid_json"),
        (b'{"resourceSpans": [{"scopeSpans": 1}]}', {}, 400, "invalid_json"),
        (b"{", {}, 400, "invalid_json"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
        (b"{}", {"Content-Encoding": "gzip"}, 400, "broken_body"),
        (gzip.compress(bytes(17 * 1024**2)), {"Content-Encoding": "gzip"}, 413, "body_too_large"),
        (b"{}", {"Authorization": "Bearer pit_wrong_0123456789"}, 401, "unauthenticated"),
    ):
        reply = await wire.send("POST", "//v1/traces", raw=raw, headers=headers)
        assert (reply.status, reply.code) == (status, code), raw[:50]
    broken = await wire.send("POST", "//v1/traces", raw=b"\xff\xff", headers=protobuf)
    refusal = RpcStatus.FromString(broken.body)
    assert (broken.status, refusal.code) == (400, 3)
    assert "ExportTraceServiceRequest" in refusal.message
    assert broken.headers["Content-Type"] == "application/x-protobuf"
    empty = await wire.send("POST", "//v1/traces", raw=b"", headers=protobuf)
    assert (empty.status, empty.body) == (200, b"")
