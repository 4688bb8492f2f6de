"""The messages of a model call, as the GenAI conventions of OpenTelemetry have written them down.

There are three ways, all of them in use: JSON in ``gen_ai.input.messages`` and
``gen_ai.output.messages`` (the current one; on the span or on an event), an event per message
(``gen_ai.user.message``, ``gen_ai.choice``…), and numbered attributes (``gen_ai.prompt.0.role``…).
All become messages as traces have them: ``role``, ``content``, ``reasoning_content``,
``tool_calls``, ``tool_call_id``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from prime_async.traces.genai.spans import Event, Span

__all__ = ["Conversation", "Message", "conversation", "loaded", "says_message", "text_of"]

Message = dict[str, Any]

_OPERATION = "gen_ai.client.inference.operation.details"
_OF_EVENT = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_NUMBERED = re.compile(r"gen_ai\.(prompt|completion)\.(\d{1,6})\.(.+)")
_CALL = re.compile(r"tool_calls\.(\d{1,6})\.(\w+)")
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool"}


class Conversation(NamedTuple):
    """What went into a call and what came out of it."""

    sent: Sequence[Message] = ()
    received: Sequence[Message] = ()
    finish_reasons: Sequence[str] = ()


def conversation(span: Span) -> Conversation:
    """The messages of a call, in the first of the three ways that says anything."""
    for read in (_from_json, _from_events, _from_numbers):
        said = read(span)
        if said.sent or said.received:
            return said
    return Conversation()


def says_message(event: Event) -> bool:
    """Say whether an event is there for what was said."""
    return event.name in _OF_EVENT or event.name.startswith(
        ("gen_ai.choice", "gen_ai.content.", _OPERATION)
    )


def loaded(value: Any) -> Any:
    """A structured attribute: most libraries write it as JSON text, some as what it is."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def text_of(value: Any) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# The current way: a list of {"role", "parts": [{"type", ...}]}.


def _from_json(span: Span) -> Conversation:
    events = (event.attributes for event in span.events if event.name == _OPERATION)
    for attributes in (span.attributes, *events):
        told = [
            loaded(attributes.get(name))
            for name in (
                "gen_ai.system_instructions",
                "gen_ai.input.messages",
                "gen_ai.output.messages",
            )
        ]
        if any(told):
            system, sent, received = told
            reasons = [one.get("finish_reason") for one in _objects(received)]
            return Conversation(
                [*_system(system), *_each(sent, "user")],
                list(_each(received, "assistant")),
                [reason for reason in reasons if isinstance(reason, str)],
            )
    return Conversation()


def _objects(value: Any) -> list[Mapping[str, Any]]:
    listed = value if isinstance(value, list) else [value]
    return [one for one in listed if isinstance(one, dict)]


def _system(value: Any) -> Iterator[Message]:
    if isinstance(value, str) and value:
        yield {"role": "system", "content": value}
    elif _objects(value):
        yield from _of_parts("system", _objects(value))


def _each(value: Any, role: str) -> Iterator[Message]:
    if isinstance(value, str) and value:
        yield {"role": role, "content": value}
        return
    for one in _objects(value):
        named = one.get("role")
        speaker = _ROLES.get(named, named) if isinstance(named, str) else role
        parts = one.get("parts")
        if isinstance(parts, list):
            yield from _of_parts(speaker, _objects(parts))
        else:
            yield _plain(speaker, one)


def _of_parts(role: str, parts: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
    content: list[Any] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    answers: list[Message] = []
    for part in parts:
        kind = part.get("type")
        if kind == "tool_call":
            calls.append(_call(part.get("id"), part.get("name"), part.get("arguments")))
        elif kind == "tool_call_response":
            result = part.get("response", part.get("result", part.get("content")))
            answers.append(_answer(part.get("id"), result))
        elif kind in ("reasoning", "thinking"):
            thoughts.append(text_of(part.get("content", "")))
        else:
            content.append(part)
    yield from answers
    if content or thoughts or calls or not answers:
        message: Message = {"role": role, "content": _content(content)}
        if thoughts:
            message["reasoning_content"] = "\n".join(thoughts)
        if calls:
            message["tool_calls"] = calls
        yield message


def _content(parts: Sequence[Mapping[str, Any]]) -> Any:
    """Text when that is all there is, else a list of parts."""
    if all(part.get("type") == "text" for part in parts):
        return "\n".join(text_of(part.get("content", "")) for part in parts)
    return [_part(part) for part in parts]


def _part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    if part.get("type") == "text":
        return {"type": "text", "text": text_of(part.get("content", ""))}
    if part.get("type") == "uri" and part.get("modality") == "image":
        return {"type": "image_url", "image_url": {"url": part.get("uri")}}
    return part


def _call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    written = "" if arguments is None else text_of(arguments)
    return {"id": call_id, "name": name, "arguments": written}


def _answer(call_id: Any, result: Any) -> Message:
    content = "" if result is None else text_of(result)
    return {"role": "tool", "tool_call_id": call_id, "content": content}


# Messages in the words of chat APIs, which the two older ways repeat.


def _plain(role: str, one: Mapping[str, Any]) -> Message:
    if role == "tool":
        answer = _answer(one.get("tool_call_id", one.get("id")), one.get("content"))
        return answer | ({"name": one["name"]} if isinstance(one.get("name"), str) else {})
    message: Message = {"role": role, "content": one.get("content")}
    for name in ("reasoning_content", "reasoning"):
        if isinstance(one.get(name), str):
            message["reasoning_content"] = one[name]
    calls = [_of_function(call) for call in _objects(loaded(one.get("tool_calls")))]
    return message | ({"tool_calls": calls} if calls else {})


def _of_function(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    named = function if isinstance(function, dict) else call
    return _call(call.get("id"), named.get("name"), named.get("arguments"))


# An event per message.


def _from_events(span: Span) -> Conversation:
    sent: list[Message] = []
    received: list[Message] = []
    reasons: list[str] = []
    for event in span.events:
        body = _body(event)
        if event.name in _OF_EVENT:
            role = body.get("role")
            sent.append(_plain(role if isinstance(role, str) else _OF_EVENT[event.name], body))
        elif event.name == "gen_ai.choice":
            chosen = loaded(body.get("message"))
            received.append(_plain("assistant", chosen if isinstance(chosen, dict) else body))
            if isinstance(body.get("finish_reason"), str):
                reasons.append(body["finish_reason"])
        elif event.name == "gen_ai.content.prompt":
            sent += _each(loaded(body.get("gen_ai.prompt")), "user")
        elif event.name == "gen_ai.content.completion":
            received += _each(loaded(body.get("gen_ai.completion")), "assistant")
    return Conversation(sent, received, reasons)


def _body(event: Event) -> Mapping[str, Any]:
    for name in ("gen_ai.event.content", "body"):
        body = loaded(event.attributes.get(name))
        if isinstance(body, dict):
            return body
    return event.attributes


# Numbered attributes.


def _from_numbers(span: Span) -> Conversation:
    found: dict[str, dict[int, dict[str, Any]]] = {"prompt": {}, "completion": {}}
    for name, value in span.attributes.items():
        match = _NUMBERED.fullmatch(name)
        if match is not None:
            found[match[1]].setdefault(int(match[2]), {})[match[3]] = value
    sent = [_of_fields(fields, "user") for _, fields in sorted(found["prompt"].items())]
    chosen = [fields for _, fields in sorted(found["completion"].items())]
    reasons = [fields.get("finish_reason") for fields in chosen]
    return Conversation(
        sent,
        [_of_fields(fields, "assistant") for fields in chosen],
        [reason for reason in reasons if isinstance(reason, str)],
    )


def _of_fields(fields: Mapping[str, Any], role: str) -> Message:
    calls: dict[int, dict[str, Any]] = {}
    for name, value in fields.items():
        match = _CALL.fullmatch(name)
        if match is not None:
            calls.setdefault(int(match[1]), {})[match[2]] = value
    named = fields.get("role")
    speaker = _ROLES.get(named, named) if isinstance(named, str) else role
    message = _plain(speaker, {**fields, "tool_calls": [call for _, call in sorted(calls.items())]})
    if isinstance(message["content"], str) and message["content"].startswith('[{"type"'):
        # Parts of a message, written as text because attributes cannot hold them.
        message["content"] = loaded(message["content"])
    return message
