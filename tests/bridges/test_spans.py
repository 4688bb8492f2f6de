"""`RunSpanExporter`: spans of the real SDK become the traces that the platform makes of them."""

from __future__ import annotations

import json

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from prime_async.bridges import RunSpanExporter, spans
from tests.bridges.reading import Place

CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 9,
    "gen_ai.input.messages": json.dumps([{"role": "user", "content": "2 + 2?"}]),
    "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": "4"}]),
}


def tracer(exporter: SpanExporter) -> Tracer:
    """The SDK, which exports every span when it ends."""
    provider = TracerProvider(resource=Resource.create({"service.name": "bot"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("tests")


def agent(made_by: Tracer) -> None:
    """An agent that asks a model, fails at a tool, and is scored."""
    root_attributes = {"prime.run.step": 3, "prime.task": "sums", "tags": ("a", "b")}
    with made_by.start_as_current_span("invoke_agent", attributes=root_attributes) as root:
        root.set_attribute("gen_ai.operation.name", "invoke_agent")
        with made_by.start_as_current_span("chat gpt-4o", attributes=CHAT):
            pass
        with made_by.start_as_current_span("execute_tool add") as tool:
            tool.set_attribute("gen_ai.tool.name", "add")
            tool.record_exception(ValueError("no numbers"))
            tool.set_status(Status(StatusCode.ERROR, "no numbers"))
        here = root.get_span_context()
        root.add_link(here, {"of": "a retry"})
        root.add_event("checkpoint", {"naïve — 日本": True, "files": ("a.pt", "b.pt")})
        score = {"gen_ai.evaluation.name": "right", "gen_ai.evaluation.score.value": 1.0}
        root.add_event("gen_ai.evaluation.result", score)


def test_the_trace_is_the_one_the_platform_makes(place: Place) -> None:
    """The same spans, sent over OTLP and exported to a run, differ by the run alone."""
    memory = InMemorySpanExporter()
    agent(tracer(memory))
    ended = memory.get_finished_spans()
    sent = OTLPSpanExporter(
        f"{place.url}/v1/traces", headers={"Authorization": f"Bearer {place.account['api_key']}"}
    )
    assert sent.export(ended) is SpanExportResult.SUCCESS
    sent.shutdown()
    assert ended[0].context is not None
    trace_id = f"{ended[0].context.trace_id:032x}"
    theirs = place.get(f"/traces/{trace_id}?raw=true")
    with place.open("train") as run:
        assert RunSpanExporter(run).export(ended) is SpanExportResult.SUCCESS
    (ours,) = place.traces(run.id)
    stamp = ours.pop("run")
    assert stamp == {"id": run.id, "type": "train", "work": {"type": "train", "step": 3}}
    assert ours == theirs
    assert [node["message"]["content"] for node in ours["nodes"]] == ["2 + 2?", "4"]
    assert ours["metrics"] == {"right": 1.0}
    whole, chat, tool = ours["info"]["otlp"]["spans"]
    assert whole["links"] == [
        {"trace_id": trace_id, "span_id": whole["span_id"], "attributes": {"of": "a retry"}}
    ]
    assert [event["name"] for event in whole["events"]] == [
        "checkpoint",
        "gen_ai.evaluation.result",
    ]
    assert whole["events"][0]["attributes"] == {"naïve — 日本": True, "files": ["a.pt", "b.pt"]}
    assert whole["attributes"]["tags"] == ["a", "b"]
    assert not {"links", "events"} & set(chat)
    assert tool["events"][0]["attributes"]["exception.message"] == "no numbers"
    assert ours["info"]["otlp"]["resource"]["service.name"] == "bot"


def test_one_odd_span_costs_no_other(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Text cut within a character is mended; what cannot be read is left out by itself."""
    with place.open() as run:
        exporter = RunSpanExporter(run)
        memory = InMemorySpanExporter()
        made_by = tracer(memory)
        with made_by.start_as_current_span("root", attributes={**CHAT, "cut": "x\ud83d"}):
            made_by.start_span("odd").end()
        odd, root = memory.get_finished_spans()
        odd._resource = None  # type: ignore[assignment]
        assert exporter.export([odd, root]) is SpanExportResult.SUCCESS
        assert exporter.left_out == 1
    (found,) = place.traces(run.id)
    assert [one["name"] for one in found["info"]["otlp"]["spans"]] == ["root"]
    assert found["info"]["otlp"]["spans"][0]["attributes"]["cut"].startswith("x\ufffd")
    assert "span 'odd' is left out" in caplog.text


def test_it_is_an_exporter_of_the_sdk(place: Place) -> None:
    """Its processors take it; subclasses of it are exporters too."""

    class Mine(RunSpanExporter):
        pass

    with place.open() as run:
        exporter = Mine(run)
        assert isinstance(exporter, SpanExporter)
        assert isinstance(RunSpanExporter(run), SpanExporter)
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(exporter))
        agent(provider.get_tracer("tests"))
        assert provider.force_flush()
        assert run.stats().counts.logged == 1
        provider.shutdown()
        assert exporter.export([]) is SpanExportResult.FAILURE


def test_what_ends_late_is_a_trace_of_its_own(place: Place) -> None:
    """And so is the part of a trace that began in another process."""
    with place.open() as run:
        made_by = tracer(RunSpanExporter(run))
        with made_by.start_as_current_span("root", attributes=CHAT) as root:
            late = made_by.start_span("late", attributes=CHAT)
        late.end()
        remote = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(1))
        context = set_span_in_context(NonRecordingSpan(remote))
        with made_by.start_as_current_span("here", context=context, attributes=CHAT):
            pass
    trace_id = f"{root.get_span_context().trace_id:032x}"
    found = {trace["id"]: trace["is_completed"] for trace in place.traces(run.id)}
    elsewhere = f"{0xABC:032x}-{0xDEF:016x}"
    assert found == {trace_id: True, f"{trace_id}-2": False, elsewhere: True}


def test_traces_without_models_are_left_out(place: Place) -> None:
    """They are counted, or logged when everything is wanted."""
    with place.open() as run:
        exporter = RunSpanExporter(run)
        with tracer(exporter).start_as_current_span("GET /"):
            pass
        assert (exporter.left_out, run.stats().counts.logged) == (1, 0)
        with tracer(RunSpanExporter(run, everything=True)).start_as_current_span("GET /"):
            pass
    assert [trace["task"]["data"]["name"] for trace in place.traces(run.id)] == ["GET /"]


def test_unfinished_traces_are_not_lost(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the run logs them, and so does the bound of what is held."""
    run = place.open()
    exporter = RunSpanExporter(run)
    made_by = tracer(exporter)
    with made_by.start_as_current_span("root") as root:
        made_by.start_span("first", attributes=CHAT).end()
        monkeypatch.setattr(spans, "MAX_BYTES", 100)
        made_by.start_span("second", attributes=CHAT).end()
        monkeypatch.undo()
        made_by.start_span("third", attributes=CHAT).end()
        run.finish()
        name = f"{root.get_span_context().trace_id:032x}"
        assert {trace["id"] for trace in place.traces(run.id)} == {name, f"{name}-2"}
    memory = InMemorySpanExporter()
    agent(tracer(memory))
    assert exporter.export(memory.get_finished_spans()) is SpanExportResult.FAILURE
    exporter.shutdown()
