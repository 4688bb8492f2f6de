"""One trace out of all spans of its id: nodes and calls where they follow the GenAI conventions.

Names are those of the conventions, the older ones beside the current ones. Attributes of ours, on
any span or on the resource, say where a trace belongs: ``prime.run.id``, ``prime.run.type``,
``prime.run.name``, ``prime.run.step`` and ``prime.task``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from prime_async.traces.genai import openinference
from prime_async.traces.genai.graphs import Graph
from prime_async.traces.genai.messages import (
    Conversation,
    conversation,
    loaded,
    says_message,
    text_of,
)
from prime_async.traces.genai.spans import Span
from prime_async.traces.lines import ID_CHARACTERS

__all__ = ["trace_document"]

_CALLS = frozenset({"chat", "completion", "generate_content", "text_completion"})
_AGENTS = frozenset({"create_agent", "invoke_agent", "invoke_workflow"})
_REASONS = {
    "end_turn": "stop",
    "max_tokens": "length",
    "stop_sequence": "stop",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
}
_SAMPLING = {
    "frequency_penalty": "frequency_penalty",
    "max_tokens": "max_tokens",
    "presence_penalty": "presence_penalty",
    "reasoning_effort": "reasoning_effort",
    "seed": "seed",
    "stop_sequences": "stop",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
}
_SAID = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "pydantic_ai.all_messages",  # on the span of an agent: what its calls say one by one
)
_NOBODY = "unknown_service"
"""What the SDK calls a service that was not named."""

_SAID_BEFORE = ("gen_ai.prompt.", "gen_ai.completion.")


class _Turn(NamedTuple):
    """A call of a model and what was said in it."""

    span: Span
    said: Conversation


def trace_document(spans: Sequence[Span], *, kind: str | None = None) -> dict[str, Any]:
    """The trace of spans that share an id, in the format that traces are uploaded in.

    Args:
        spans: any order.
        kind: of the run it is logged to, ``eval`` or ``train``, whose id the trace is given then;
            None leaves it to the spans to name a run.
    """
    spans = sorted(
        (openinference.in_genai(span) for span in spans),
        key=lambda span: (span.start, span.span_id),
    )
    root = next((span for span in spans if not span.parent_id), None)
    turns = [_Turn(span, conversation(span)) for span in _calls(spans)]
    graph = Graph()
    calls = _walked(graph, turns, [span for span in spans if _is_tool(span)])
    failed = [span for span in spans if span.failed]
    document = {
        "id": spans[0].trace_id,
        "version": 1,
        "task": {"type": "otlp", "data": {"name": _task(spans, root)}},
        "agent": _agent(spans, [turn.span for turn in turns]),
        "tools": _tools([turn.span for turn in turns]),
        "nodes": graph.nodes,
        "calls": calls,
        "metrics": _metrics(spans),
        "info": {"otlp": _rest(spans)},
        "errors": [_error(span) for span in failed],
        "ok": not (failed if root is None else root.failed),
        "is_completed": root is not None,
        "timing": _timing(spans),
    }
    run = _run(spans, kind)
    return document if run is None else {**document, "run": run}


def _calls(spans: Sequence[Span]) -> list[Span]:
    """The calls of models; of agents, when nothing tells of their calls."""
    calls = [span for span in spans if _is_call(span)]
    return calls or [span for span in spans if _operation(span) in _AGENTS and _model(span)]


def _operation(span: Span) -> str | None:
    named = span.attributes.get("gen_ai.operation.name")
    return named if isinstance(named, str) else None


def _is_call(span: Span) -> bool:
    operation = _operation(span)
    if operation is not None:
        return operation in _CALLS
    return _model(span) is not None and not _is_tool(span)


def _is_tool(span: Span) -> bool:
    return _operation(span) == "execute_tool" or (
        _operation(span) is None and "gen_ai.tool.name" in span.attributes
    )


def _first(span: Span, *names: str) -> Any:
    return next((span.attributes[one] for one in names if span.attributes.get(one)), None)


def _model(span: Span) -> Any:
    return _first(span, "gen_ai.response.model", "gen_ai.request.model")


def _walked(graph: Graph, turns: Sequence[_Turn], tools: Sequence[Span]) -> list[dict[str, Any]]:
    """Put what was said into the graph; return the calls."""
    said = (message.get("tool_call_id") for turn in turns for message in turn.said.sent)
    answered = {call_id for call_id in said if isinstance(call_id, str)}
    calls: list[dict[str, Any]] = []
    for turn in turns:
        place = graph.walk(turn.said.sent, turn.span.start)
        node: int | None = None
        for message in turn.said.received:
            node = graph.add(place, message, turn.span.end, sampled=True)
        calls.append(_call(turn, node))
    for span in tools:
        named = _first(span, "gen_ai.tool.call.id")
        call_id = named if isinstance(named, str) else None
        if call_id not in answered:
            graph.answer(call_id, _tool_message(span, call_id), span.end)
    return calls


def _tool_message(span: Span, call_id: Any) -> dict[str, Any]:
    result = loaded(span.attributes.get("gen_ai.tool.call.result"))
    told = span.message if span.failed and result is None else result
    content = "" if told is None else text_of(told)
    message = {"role": "tool", "tool_call_id": call_id, "content": content}
    name = _first(span, "gen_ai.tool.name")
    return message if name is None else {**message, "name": name}


def _call(turn: _Turn, node: int | None) -> dict[str, Any]:
    span = turn.span
    reasons = span.attributes.get("gen_ai.response.finish_reasons") or turn.said.finish_reasons
    reason = reasons[0] if isinstance(reasons, list) and reasons else None
    call = {
        "node": node,
        "model": _model(span),
        "sampling": _sampling(span),
        "endpoint": _operation(span) or span.name,
        "finish_reason": _REASONS.get(reason, reason) if isinstance(reason, str) else None,
        "usage": _usage(span),
        "time": {"start": span.start, "end": span.end},
    }
    return {**call, "error": _error(span)} if span.failed else call


def _sampling(span: Span) -> dict[str, Any]:
    told = {name: span.attributes.get(f"gen_ai.request.{name}") for name in _SAMPLING}
    return {_SAMPLING[name]: value for name, value in told.items() if value is not None}


def _usage(span: Span) -> dict[str, int] | None:
    """Tokens; what was read from a cache is counted by itself, as traces have it."""
    sent = _first(span, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
    received = _first(span, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
    if not isinstance(sent, int) and not isinstance(received, int):
        return None
    cached = _first(
        span, "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"
    )
    thought = _first(span, "gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens")
    whole = sent if isinstance(sent, int) else 0
    again = min(cached, whole) if isinstance(cached, int) else 0
    usage = {
        "prompt_tokens": whole - again,
        "completion_tokens": received if isinstance(received, int) else 0,
    }
    if again:
        usage["cached_input_tokens"] = again
    return {**usage, "reasoning_tokens": thought} if isinstance(thought, int) else usage


def _error(span: Span) -> dict[str, Any]:
    """What went wrong in a span: its status, and the exception it recorded."""
    recorded = next(
        (event.attributes for event in reversed(span.events) if event.name == "exception"), {}
    )
    error = {
        "type": _first(span, "error.type") or recorded.get("exception.type") or "error",
        "message": span.message or recorded.get("exception.message") or span.name,
    }
    code = _first(span, "http.response.status_code", "http.status_code")
    trace = recorded.get("exception.stacktrace")
    if isinstance(code, int):
        error["status_code"] = code
    return {**error, "traceback": trace} if isinstance(trace, str) else error


def _told(spans: Sequence[Span], *names: str) -> Any:
    """An attribute of any span, or of what made them."""
    for attributes in (one for span in spans for one in (span.attributes, span.resource)):
        for name in names:
            if attributes.get(name) not in (None, ""):
                return attributes[name]
    return None


def _task(spans: Sequence[Span], root: Span | None) -> str:
    return text_of(_told(spans, "prime.task") or (root or spans[0]).name)


def _agent(spans: Sequence[Span], calls: Sequence[Span]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    model = next((_model(span) for span in calls if _model(span)), None)
    if model is not None:
        config["model"] = model
    address = _address(calls)
    provider = _told(calls, "gen_ai.provider.name", "gen_ai.system")
    if provider is not None:
        config["client"] = {"provider": text_of(provider)}
    if address is not None:
        config.setdefault("client", {})["base_url"] = address
    name = text_of(_told(spans, "gen_ai.agent.name") or _told(spans, "service.name") or _NOBODY)
    return {"name": "agent" if name.startswith(_NOBODY) else name, "config": config}


def _address(calls: Sequence[Span]) -> str | None:
    address = _told(calls, "gen_ai.openai.api_base", "server.address")
    if address is None or "://" in text_of(address):
        return None if address is None else text_of(address)
    port = _told(calls, "server.port")
    return f"https://{text_of(address)}" + (f":{port}" if port not in (None, 443) else "")


def _tools(calls: Sequence[Span]) -> list[dict[str, Any]]:
    told = next((loaded(_first(span, "gen_ai.tool.definitions")) for span in calls), None)
    tools = []
    for one in told if isinstance(told, list) else ():
        named = one.get("function", one) if isinstance(one, dict) else None
        if isinstance(named, dict) and isinstance(named.get("name"), str):
            known = ("name", "description", "parameters", "strict")
            tools.append({name: named[name] for name in known if name in named})
    return tools


def _metrics(spans: Sequence[Span]) -> dict[str, Any]:
    """The scores of ``gen_ai.evaluation.result`` events, by their names."""
    metrics: dict[str, Any] = {}
    for event in (event for span in spans for event in span.events):
        name = event.attributes.get("gen_ai.evaluation.name")
        if event.name == "gen_ai.evaluation.result" and isinstance(name, str):
            metrics[name] = event.attributes.get("gen_ai.evaluation.score.value")
    return metrics


def _rest(spans: Sequence[Span]) -> dict[str, Any]:
    """All spans without what was said in them: that is in the nodes."""
    return {"resource": spans[0].resource, "spans": [_summary(span) for span in spans]}


def _summary(span: Span) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "span_id": span.span_id,
        "parent_id": span.parent_id or None,
        "name": span.name,
        "kind": span.kind,
        "scope": span.scope,
        "start": span.start,
        "end": span.end,
        "status": span.status,
        "attributes": {
            name: value for name, value in span.attributes.items() if not _says(span, name)
        },
    }
    events = [event for event in span.events if not says_message(event)]
    if events:
        summary["events"] = events
    return {**summary, "links": span.links} if span.links else summary


def _says(span: Span, name: str) -> bool:
    """Say whether an attribute is what was said, which is in the nodes."""
    if name in _SAID or name.startswith(_SAID_BEFORE):
        return True
    return (
        _is_call(span)
        and openinference.KIND in span.attributes
        and (name.startswith(openinference.SAID))
    )


def _timing(spans: Sequence[Span]) -> dict[str, Any]:
    start, end = spans[0].start, max(span.end for span in spans)
    return {"start": start, "agent": {"start": start, "end": end}}


def _run(spans: Sequence[Span], kind: str | None) -> Mapping[str, Any] | None:
    run: dict[str, Any] = {}
    if kind is None:
        run_id = _told(spans, "prime.run.id")
        if run_id is None:
            return None
        kind = "train" if _told(spans, "prime.run.type") == "train" else "eval"
        run["id"] = text_of(run_id)[:ID_CHARACTERS]
    run["type"] = kind
    name, step = _told(spans, "prime.run.name"), _told(spans, "prime.run.step")
    if name is not None:
        run["name"] = text_of(name)
    if isinstance(step, int):
        run["work"] = {"type": kind, "step": step}
    return run
