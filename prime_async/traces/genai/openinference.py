"""Spans that follow OpenInference instead, in the words of the GenAI conventions.

The instrumentations of Arize Phoenix write ``llm.…`` attributes and flatten lists into numbered
names, such as ``llm.input_messages.0.message.role``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from prime_async.traces.genai.messages import loaded
from prime_async.traces.genai.spans import Span

__all__ = ["KIND", "SAID", "in_genai"]

KIND = "openinference.span.kind"
SAID = ("llm.input_messages.", "llm.output_messages.", "input.value", "output.value", "llm.tools.")
"""Where what was said stands: also raw, as the request and answer of the API."""

_OPERATIONS = {
    "AGENT": "invoke_agent",
    "EMBEDDING": "embeddings",
    "LLM": "chat",
    "TOOL": "execute_tool",
}
_SAME = {
    "agent.name": "gen_ai.agent.name",
    "llm.model_name": "gen_ai.response.model",
    "llm.provider": "gen_ai.provider.name",
    "llm.system": "gen_ai.system",
    "llm.token_count.completion": "gen_ai.usage.output_tokens",
    "llm.token_count.completion_details.reasoning": "gen_ai.usage.reasoning.output_tokens",
    "llm.token_count.prompt": "gen_ai.usage.input_tokens",
    "llm.token_count.prompt_details.cache_read": "gen_ai.usage.cache_read.input_tokens",
    "tool.name": "gen_ai.tool.name",
}
_PARAMETERS = {"max_completion_tokens": "max_tokens", "stop": "stop_sequences"}


def in_genai(span: Span) -> Span:
    """Return a span with the attributes the conventions have for what it says; others as they are.

    What it says in those words already counts.
    """
    if KIND not in span.attributes:
        return span
    return msgspec.structs.replace(span, attributes={**dict(_told(span)), **span.attributes})


def _told(span: Span) -> Iterator[tuple[str, Any]]:
    told = span.attributes
    operation = _OPERATIONS.get(str(told[KIND]).upper())
    if operation is not None:
        yield "gen_ai.operation.name", operation
    for theirs, ours in _SAME.items():
        if theirs in told:
            yield ours, told[theirs]
    if "llm.finish_reason" in told:
        yield "gen_ai.response.finish_reasons", [told["llm.finish_reason"]]
    if operation == "execute_tool":
        yield "gen_ai.tool.call.result", told.get("output.value")
    parameters = loaded(told.get("llm.invocation_parameters"))
    for name, value in parameters.items() if isinstance(parameters, dict) else ():
        yield f"gen_ai.request.{_PARAMETERS.get(name, name)}", value
    yield from _lists(_tree(told))


def _lists(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for theirs, ours in (("input_messages", "input"), ("output_messages", "output")):
        messages = [_message(_of(one, "message")) for one in _items(tree.get(theirs))]
        if messages:
            yield f"gen_ai.{ours}.messages", messages
    tools = [loaded(_of(one, "tool").get("json_schema")) for one in _items(tree.get("tools"))]
    if tools:
        yield "gen_ai.tool.definitions", tools


def _message(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in the words of chat APIs."""
    names = ("role", "content", "name", "tool_call_id", "reasoning_content")
    message = {name: told[name] for name in names if name in told}
    parts = [_part(_of(one, "message_content")) for one in _items(told.get("contents"))]
    calls = [_call(_of(one, "tool_call")) for one in _items(told.get("tool_calls"))]
    if parts:
        message["content"] = parts
    return {**message, "tool_calls": calls} if calls else message


def _part(told: Mapping[str, Any]) -> dict[str, Any]:
    if told.get("type") == "image":
        return {
            "type": "image_url",
            "image_url": {"url": _of(_of(told, "image"), "image").get("url")},
        }
    return {"type": "text", "text": told.get("text", "")}


def _call(told: Mapping[str, Any]) -> dict[str, Any]:
    function = _of(told, "function")
    named = {"name": function.get("name"), "arguments": function.get("arguments", "")}
    return {"id": told.get("id"), "function": named}


def _tree(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``llm.`` attributes with every dot as a level."""
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        first, *path = name.split(".")
        if first != "llm" or not path:
            continue
        place = tree
        for level in path[:-1]:
            below = place.setdefault(level, {})
            if not isinstance(below, dict):
                below = place[level] = {}
            place = below
        place.setdefault(path[-1], value)
    return tree


def _items(tree: Any) -> list[Any]:
    """Return what is numbered, in order."""
    if not isinstance(tree, dict):
        return []
    return [tree[number] for number in sorted(filter(str.isdecimal, tree), key=int)]


def _of(tree: Any, name: str) -> Mapping[str, Any]:
    found = tree.get(name) if isinstance(tree, dict) else None
    return found if isinstance(found, dict) else {}
