"""What is read out of a trace or an episode, so that it can be listed, filtered and added up.

Pure functions over decoded documents. A value of a type that cannot be meant counts as not
recorded: only an id and a begin are required, the rest of a document is its producer's business.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import msgspec

from prime_async.evals.verifiers import CUT_SHORT
from prime_async.server.traces.documents import (
    CallDocument,
    EpisodeDocument,
    NodeDocument,
    TraceDocument,
)
from prime_async.server.traces.leaves import as_integer, as_list, as_number, as_object, as_text

__all__ = ["EpisodeRow", "TraceRow", "project_episode", "project_trace"]

_PHASES = ("scoring", "finalize", "agent", "setup", "boot")
"""Phases of a rollout, the last one first."""

_PROVIDERS = {
    "pinference.ai": "prime",
    "primeintellect.ai": "prime",
    "openai.com": "openai",
    "anthropic.com": "anthropic",
    "openrouter.ai": "openrouter",
}
_LARGEST_COUNT = 10**12
"""Tokens and milliseconds of one trace end here, so that those of millions can be added up."""


COLUMN_CHARACTERS = 1024
"""What is kept of a text in a column; the document has all of it."""

METRICS = 1000
"""Metrics of one trace that lists show, with names of at most ``NAME_CHARACTERS``."""

NAME_CHARACTERS = 256


class TraceRow(msgspec.Struct, array_like=True, gc=False, kw_only=True):
    """The columns of a trace; ``offset`` and ``length`` say where in its upload it lies."""

    trace_id: str
    created_at: float
    offset: int = 0
    length: int = 0
    episode_id: str | None = None
    run_id: str | None = None
    run_step: int | None = None
    environment_id: str | None = None
    model_provider: str | None = None
    model_id: str | None = None
    task_id: str | None = None
    agent_name: str | None = None
    reward: float | None = None
    outcome: str | None = None
    has_error: bool = False
    is_truncated: bool = False
    duration_ms: int = 0
    total_tokens: int = 0
    extras: bytes = b"{}"


class EpisodeRow(msgspec.Struct, array_like=True, gc=False, kw_only=True):
    """The columns of an episode; ``created_at`` is the begin of its first trace, if it has one."""

    episode_id: str
    offset: int = 0
    length: int = 0
    created_at: float | None = None
    run_id: str | None = None
    environment_id: str | None = None
    outcome: str | None = None
    has_error: bool = False
    error_type: str | None = None
    error_message: str | None = None


def project_trace(document: TraceDocument) -> TraceRow:
    """The columns of a trace whose ``id`` and ``timing.start`` are known to be there."""
    nodes, calls = document.nodes or [], document.calls or []
    config = as_object(as_object(document.agent).get("config"))
    client = as_object(config.get("client"))
    run = as_object(document.run)
    start = float(document.timing["start"])
    outcome = _column(document.stop_condition)
    return TraceRow(
        trace_id=document.id,
        created_at=start,
        episode_id=as_text(as_object(document.episode).get("id")),
        run_id=as_text(run.get("id")),
        run_step=as_integer(as_object(run.get("work")).get("step")),
        model_provider=_column(client.get("provider")) or _provider(client.get("base_url")),
        model_id=_column(config.get("model")),
        task_id=_column(as_object(as_object(document.task).get("data")).get("name")),
        agent_name=_column(as_object(document.agent).get("name")),
        reward=_reward(document.rewards),
        outcome=outcome,
        has_error=_failed(document.ok, document.errors),
        is_truncated=outcome in CUT_SHORT or _ran_out(calls),
        duration_ms=_duration_ms(document.timing, start),
        total_tokens=_total_tokens(nodes, calls),
        extras=_extras(document, nodes),
    )


def project_episode(document: EpisodeDocument) -> EpisodeRow:
    """The columns of an episode whose ``id`` is known to be there."""
    errors = as_list(document.errors)
    last = as_object(errors[-1]) if errors else {}
    return EpisodeRow(
        episode_id=document.id,
        run_id=as_text(as_object(document.run).get("id")),
        environment_id=as_text(as_object(document.env).get("id")),
        outcome=_column(document.outcome),
        has_error=_failed(document.ok, document.errors),
        error_type=_column(last.get("type")),
        error_message=_column(last.get("message")),
    )


def _column(value: Any) -> str | None:
    text = as_text(value)
    return text and text[:COLUMN_CHARACTERS]


def _count(value: Any) -> int:
    return max(0, as_integer(value) or 0)


def _failed(ok: Any, errors: Any) -> bool:
    return not ok if isinstance(ok, bool) else bool(as_list(errors))


def _provider(base_url: Any) -> str | None:
    """Who serves the model: a known name, else the host."""
    try:
        host = urlsplit(base_url).hostname if isinstance(base_url, str) else None
    except ValueError:
        return None
    if not host:
        return None
    domain = ".".join(host.split(".")[-2:])
    return _PROVIDERS.get(domain, host[:COLUMN_CHARACTERS])


def _reward(rewards: Any) -> float | None:
    """The sum of score times weight; None when nothing was scored."""
    scored = [_weighted(reward) for reward in as_object(rewards).values()]
    known = [one for one in scored if one is not None]
    return as_number(math.fsum(known)) if known else None


def _weighted(reward: Any) -> float | None:
    if not isinstance(reward, dict):
        return as_number(reward)
    score, weight = as_number(reward.get("score")), as_number(reward.get("weight", 1.0))
    return None if score is None or weight is None else as_number(score * weight)


def _ran_out(calls: Sequence[CallDocument]) -> bool:
    """Whether the last call that did not fail ended for its length."""
    whole = (call for call in reversed(calls) if call.error is None)
    return any(call.finish_reason == "length" for call in [next(whole, None)] if call)


def _duration_ms(timing: Mapping[str, Any], start: float) -> int:
    ends = (as_number(as_object(timing.get(phase)).get("end")) for phase in _PHASES)
    end = next((end for end in ends if end), None)
    if end is None:
        return 0
    return min(max(0, round((end - start) * 1000)), _LARGEST_COUNT)


def _extras(document: TraceDocument, nodes: Sequence[NodeDocument]) -> bytes:
    """What lists show and nothing asks for, as JSON."""
    task = as_object(document.task)
    extras = {
        "metrics": dict(islice(_metrics(document.metrics), METRICS)),
        "activity": _activity(nodes),
        "task_key": _column(task.get("key")),
        "task_hash": _column(task.get("hash")),
    }
    return msgspec.json.encode(extras)


def _metrics(metrics: Any) -> Iterator[tuple[str, float]]:
    for name, value in as_object(metrics).items():
        number = as_number(value)
        if number is not None and len(name) <= NAME_CHARACTERS:
            yield name, number


def _activity(nodes: Sequence[NodeDocument]) -> dict[str, int]:
    messages = [as_object(node.message) for node in nodes]
    roles = [message.get("role") for message in messages]
    called = [message.get("tool_calls") for message in messages]
    return {
        "total_entries": len(nodes),
        "user_messages": roles.count("user"),
        "model_turns": roles.count("assistant"),
        "tool_calls": sum(len(calls) for calls in called if isinstance(calls, list)),
    }


def _total_tokens(nodes: Sequence[NodeDocument], calls: Sequence[CallDocument]) -> int:
    """Tokens of the last call of every branch: context that was sent again counts once."""
    usages = [_tokens(call.usage) for call in calls]
    last_at: dict[int, int] = {}
    for call, tokens in zip(calls, usages, strict=True):
        node = as_integer(call.node)
        if node is not None and 0 <= node < len(nodes) and tokens:
            last_at[node] = tokens
    total = sum(last_at[node] for node in _last_calls(nodes, last_at))
    if not total:
        total = next((tokens for tokens in reversed(usages) if tokens), 0)
    return min(total, _LARGEST_COUNT)


def _tokens(usage: Any) -> int:
    names = ("prompt_tokens", "cached_input_tokens", "completion_tokens")
    return sum(_count(as_object(usage).get(name)) for name in names)


def _last_calls(nodes: Sequence[NodeDocument], called: Mapping[int, int]) -> Iterator[int]:
    """The nodes with a call that are the last such ones on the way to some leaf, once each."""
    parents = [_parent(node, index) for index, node in enumerate(nodes)]
    inner = set(parents)
    seen: set[int] = set()
    for leaf in range(len(nodes)):
        place: int | None = None if leaf in inner else leaf
        while place is not None and place not in seen:
            seen.add(place)
            if place in called:
                yield place
                break
            place = parents[place]


def _parent(node: NodeDocument, index: int) -> int | None:
    """A node's parent comes before it; anything else makes it a root."""
    parent = as_integer(node.parent)
    return parent if parent is not None and 0 <= parent < index else None
