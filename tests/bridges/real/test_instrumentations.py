"""Libraries that make spans of model calls by themselves, exported to a run and over OTLP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from prime_async.bridges import RunSpanExporter
from tests.bridges.reading import Place
from tests.bridges.real.model import Model

openai = pytest.importorskip("openai", reason="openai is not here: make test-bridges")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "How much is 30 + 12? ¿Cuánto?"},
]


class Sent:
    """The spans of a test, on their ways."""

    def __init__(self, place: Place, model: Model) -> None:
        self.place = place
        self.model = model
        self.run = place.open("train")
        self.exporter = RunSpanExporter(self.run)
        self.provider = TracerProvider(resource=Resource.create({"host.name": "nœud-3"}))
        self.provider.add_span_processor(BatchSpanProcessor(self.exporter))
        key = place.account["api_key"]
        self._memory = InMemorySpanExporter()
        self._otlp = OTLPSpanExporter(
            f"{place.url}/v1/traces", headers={"Authorization": f"Bearer {key}"}
        )
        for exporter in (self._memory, self._otlp):
            self.provider.add_span_processor(BatchSpanProcessor(exporter))

    def talk(self) -> None:
        """Call the model with a tool, go on with its result, and have another answer streamed."""
        client = openai.OpenAI(base_url=self.model.url, api_key="k", max_retries=0)
        with self.provider.get_tracer("tests").start_as_current_span("solve") as task:
            task.set_attribute("prime.run.step", 7)
            first = client.chat.completions.create(
                model="tiny", messages=ASKED, tools=[ADD], temperature=0.5
            )
            said = first.choices[0].message
            answer = {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "42"}
            messages = [*ASKED, said.model_dump(exclude_none=True), answer]
            client.chat.completions.create(model="tiny", messages=messages, tools=[ADD])
            for _ in client.chat.completions.create(model="tiny", messages=ASKED, stream=True):
                pass
            refused = [{"role": "user", "content": "How much is -1 + 0?"}]
            with pytest.raises(openai.BadRequestError):
                client.chat.completions.create(model="tiny", messages=refused)

    def traces(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The trace of the run, and the one that the platform made of the same spans."""
        assert self.provider.force_flush()
        ended = self._memory.get_finished_spans()
        assert ended[0].context is not None
        trace_id = f"{ended[0].context.trace_id:032x}"
        over_otlp = self.place.get(f"/traces/{trace_id}?raw=true")
        self.provider.shutdown()
        self.run.finish()
        (of_run,) = self.place.traces(self.run.id)
        return of_run, over_otlp


@pytest.fixture
def sent(place: Place, model: Model) -> Iterator[Sent]:
    """Spans go to a run and over OTLP."""
    made = Sent(place, model)
    yield made
    made.run.finish()


def check_talk(sent: Sent) -> dict[str, Any]:
    """What was said in `talk`, in one graph of nodes, however it was told."""
    ours, theirs = sent.traces()
    stamp = ours.pop("run")
    theirs.pop("run", None)
    assert ours == theirs
    assert stamp["work"]["step"] == 7
    roles = [node["message"]["role"] for node in ours["nodes"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "assistant", "user"]
    assert [node["parent"] for node in ours["nodes"]] == [None, 0, 1, 2, 3, 1, None]
    nodes = [node["message"] for node in ours["nodes"]]
    assert nodes[1]["content"] == ASKED[1]["content"]
    (call,) = nodes[2]["tool_calls"]
    assert (call["id"], call["name"]) == ("call_1", "add")
    assert json.loads(call["arguments"]) == {"a": 30, "b": 12}
    assert nodes[3] == {"role": "tool", "tool_call_id": "call_1", "content": "42"}
    assert (nodes[4]["content"], nodes[5]["content"]) == ("42", "42")
    calls = ours["calls"]
    assert [one["node"] for one in calls[:3]] == [2, 4, 5]
    assert [one["finish_reason"] for one in calls[:3]] == ["tool_calls", "stop", "stop"]
    assert calls[0]["model"] == "tiny-2026"
    assert calls[0]["sampling"] == {"temperature": 0.5}
    assert calls[0]["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "cached_input_tokens": 4,
    }
    assert "negative" in json.dumps(calls[3]["error"])
    assert [error["type"] for error in ours["errors"]] == [calls[3]["error"]["type"]]
    assert ours["tools"][0]["name"] == "add"
    assert ours["agent"]["name"] == "agent"
    assert ours["info"]["otlp"]["resource"]["host.name"] == "nœud-3"
    assert "Cuánto" not in json.dumps(ours["info"], ensure_ascii=False)
    return ours


def test_openai_by_traceloop(sent: Sent) -> None:
    """`opentelemetry-instrumentation-openai`: messages as JSON attributes."""
    module = pytest.importorskip("opentelemetry.instrumentation.openai")
    instrumentor = module.OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=sent.provider)
    try:
        sent.talk()
    finally:
        instrumentor.uninstrument()
    made = check_talk(sent)
    assert made["agent"]["config"]["client"]["base_url"].startswith("http://127.0.0.1:")


def test_openai_by_openinference(sent: Sent) -> None:
    """`openinference-instrumentation-openai`: numbered attributes of other names."""
    module = pytest.importorskip("openinference.instrumentation.openai")
    instrumentor = module.OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=sent.provider)
    try:
        sent.talk()
    finally:
        instrumentor.uninstrument()
    check_talk(sent)


def test_an_agent_of_pydantic_ai(sent: Sent) -> None:
    """A span for the agent, each call and each tool."""
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import Instrumentation
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    settings = InstrumentationSettings(tracer_provider=sent.provider, include_content=True)
    provider = OpenAIProvider(base_url=sent.model.url, api_key="k")
    agent = Agent(
        OpenAIChatModel("tiny", provider=provider),
        system_prompt="Be brief.",
        capabilities=[Instrumentation(settings=settings)],
        name="adder",
    )

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        return a + b

    assert agent.run_sync(ASKED[1]["content"]).output == "42"
    ours, theirs = sent.traces()
    ours.pop("run")
    assert ours == theirs
    assert ours["agent"]["name"] == "adder"
    assert [node["message"]["role"] for node in ours["nodes"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert ours["nodes"][3]["message"]["content"] == "42"
    assert [call["finish_reason"] for call in ours["calls"]] == ["tool_calls", "stop"]
    assert ours["ok"]
    assert "Cuánto" not in json.dumps(ours["info"], ensure_ascii=False)
