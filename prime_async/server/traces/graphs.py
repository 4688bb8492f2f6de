"""Reads the messages, calls and tools of a stored trace, as the wire shows them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

import msgspec

from prime_async.server.traces.documents import CallDocument, NodeDocument, decode_trace
from prime_async.server.traces.leaves import (
    as_integer,
    as_list,
    as_number,
    as_object,
    as_text,
)

__all__ = ["calls_of", "nodes_of", "tools_of"]

_TEXTS = ("tool_call_id", "name", "tool_name")


def nodes_of(
    trace: bytes, start: int, *, roles: Collection[str] = (), sampled: bool | None = None
) -> Iterator[dict[str, Any]]:
    """The messages from a place on, of some roles (empty: all)."""
    nodes = decode_trace(trace).nodes or []
    for index, node in islice(enumerate(nodes), start, None):
        shown = _node(index, node)
        if roles and shown["message"]["role"] not in roles:
            continue
        if sampled is None or sampled is shown["sampled"]:
            yield shown


def _node(index: int, node: NodeDocument) -> dict[str, Any]:
    return {
        "node_idx": index,
        "parent_idx": as_integer(node.parent),
        "timestamp": as_number(node.timestamp),
        "sampled": node.sampled is True,
        "message": _message(node.message),
    }


def _message(message: Any) -> dict[str, Any]:
    known = as_object(message)
    shown: dict[str, Any] = {"role": as_text(known.get("role"))}
    for name in ("content", "tool_calls"):
        if name in known:
            shown[name] = known[name]
    if known.get("reasoning_content") is not None:
        shown["reasoning_content"] = _as_string(known["reasoning_content"])
    texts = {name: as_text(known.get(name)) for name in _TEXTS}
    return shown | {name: text for name, text in texts.items() if text is not None}


def _as_string(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def calls_of(
    trace: bytes, start: int, *, models: Collection[str] = (), reasons: Collection[str] = ()
) -> Iterator[dict[str, Any]]:
    """The calls from a place on, of some models and with some reasons to finish (empty: all)."""
    calls = decode_trace(trace).calls or []
    for index, call in islice(enumerate(calls), start, None):
        shown = _call(index, call)
        if models and shown["model"] not in models:
            continue
        if not reasons or shown["finish_reason"] in reasons:
            yield shown


def _call(index: int, call: CallDocument) -> dict[str, Any]:
    time = as_object(call.time)
    return {
        "call_idx": index,
        "node_idx": as_integer(call.node),
        "time_start": as_number(time.get("start")),
        "time_end": as_number(time.get("end")),
        "model": as_text(call.model),
        "endpoint": as_text(call.endpoint),
        "finish_reason": as_text(call.finish_reason),
    }


def tools_of(trace: bytes) -> list[Any]:
    """The tools that the model was offered: the objects among them."""
    tools = decode_trace(trace).tools
    if isinstance(tools, msgspec.UnsetType):
        return []
    return [tool for tool in as_list(msgspec.json.decode(tools)) if isinstance(tool, dict)]
