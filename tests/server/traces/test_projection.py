"""What is read out of a trace: the rules of the wire, and odd values that must not matter."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_async.server.traces.documents import decode_episode, decode_trace
from prime_async.server.traces.projection import (
    EpisodeRow,
    TraceRow,
    project_episode,
    project_trace,
)
from tests.server.traces.uploads import NOW, episode, trace


def projected(record: Any) -> TraceRow:
    """The row of a trace."""
    return project_trace(decode_trace(json.dumps(record).encode()))


def test_a_whole_trace() -> None:
    """Every column."""
    row = projected(trace("t1", episode={"id": "e1"}))
    assert row == TraceRow(
        trace_id="t1",
        created_at=NOW - 60,
        episode_id="e1",
        run_id="run-1",
        run_step=3,
        model_provider="prime",
        model_id="small",
        task_id="sum-1",
        agent_name="solver",
        reward=1.25,
        outcome="done",
        duration_ms=20_000,
        total_tokens=35,
        extras=row.extras,
    )
    assert json.loads(row.extras) == {
        "metrics": {"turns": 1.0},
        "activity": {"total_entries": 3, "user_messages": 1, "model_turns": 1, "tool_calls": 1},
        "task_key": "k",
        "task_hash": "h",
    }


@pytest.mark.parametrize(
    ("rewards", "reward"),
    [
        ({}, None),
        ({"a": None}, None),
        ({"a": {"score": 0}}, 0.0),
        ({"a": {"score": 1, "weight": 0.5}, "b": {"score": -2}}, -1.5),
        ({"a": 0.5}, 0.5),
        ({"a": {"score": "high"}, "b": True}, None),
        ({"a": {"score": 1e308, "weight": 1e10}}, None),
        ([1, 2], None),
    ],
)
def test_the_reward_is_the_weighted_sum_of_what_was_scored(rewards: Any, reward: Any) -> None:
    """Nothing scored is null and not 0."""
    assert projected(trace("t", rewards=rewards)).reward == reward


@pytest.mark.parametrize(
    ("fields", "failed"),
    [
        ({"ok": True, "errors": [{"type": "E"}]}, False),
        ({"ok": False, "errors": []}, True),
        ({"ok": None, "errors": [{"type": "E"}]}, True),
        ({"ok": None, "errors": []}, False),
    ],
)
def test_an_error_is_what_is_not_ok(fields: Any, failed: bool) -> None:
    """Without ``ok``, errors tell."""
    assert projected(trace("t", **fields)).has_error is failed


def test_truncated_by_a_limit_or_by_length() -> None:
    """The stop condition, or the last call without an error."""
    short = [{"finish_reason": "length"}]
    failed = [*short, {"finish_reason": "stop", "error": {"type": "E"}}]
    assert projected(trace("t", stop_condition="max_turns")).is_truncated
    assert projected(trace("t", calls=short)).is_truncated
    assert projected(trace("t", calls=failed)).is_truncated
    assert not projected(trace("t", calls=[*short, {"finish_reason": "stop"}])).is_truncated
    assert not projected(trace("t", calls=[])).is_truncated


def test_tokens_count_the_last_call_of_every_branch() -> None:
    """A chain counts once, a fork adds its branches, a shared end counts once."""

    def tokens(parents: list[int | None], calls: dict[int, int]) -> int:
        nodes = [{"parent": parent, "message": {"role": "user"}} for parent in parents]
        used = [{"node": node, "usage": {"prompt_tokens": n}} for node, n in calls.items()]
        return projected(trace("t", nodes=nodes, calls=used)).total_tokens

    assert tokens([None, 0, 1, 2], {1: 10, 3: 25}) == 25
    assert tokens([None, 0, 0], {1: 10, 2: 20}) == 30
    assert tokens([None, 0, 1, 1], {1: 10}) == 10
    assert tokens([None, 0, 1, 1], {1: 10, 2: 15}) == 25
    assert tokens([2, 0, 7], {0: 1, 1: 2, 2: 4}) == 2 + 4
    assert tokens([], {0: 7}) == 7
    assert tokens([None], {}) == 0


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.pinference.ai/api/v1", "prime"),
        ("https://api.openai.com/v1", "openai"),
        ("http://10.0.0.7:8000/v1", "10.0.0.7"),
        ("http://user:secret@host.example/v1", "host.example"),
        ("http://[broken", None),
        ("", None),
        (5, None),
    ],
)
def test_the_provider_is_who_serves_the_model(url: Any, provider: str | None) -> None:
    """A known name, else the host, without user or port."""
    agent = {"config": {"client": {"base_url": url}}}
    assert projected(trace("t", agent=agent)).model_provider == provider


def test_the_last_phase_ends_the_duration() -> None:
    """Scoring, or what came before when it did not end."""
    timing = {"start": NOW, "agent": {"end": NOW + 1.5}, "scoring": {"end": None}}
    assert projected(trace("t", timing=timing)).duration_ms == 1500
    assert projected(trace("t", timing={"start": NOW})).duration_ms == 0
    backwards = {"start": NOW, "scoring": {"end": NOW - 5}}
    assert projected(trace("t", timing=backwards)).duration_ms == 0


def test_an_episode() -> None:
    """Its own outcome, and its last error."""
    errors = [{"type": "First", "message": "one"}, {"type": "Last", "message": "two"}]
    record = episode("e1", [], ok=False, errors=errors, outcome="failed")
    assert project_episode(decode_episode(json.dumps(record).encode())) == EpisodeRow(
        episode_id="e1",
        run_id="run-1",
        environment_id="env-1",
        outcome="failed",
        has_error=True,
        error_type="Last",
        error_message="two",
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
NAMES = "run agent task episode nodes calls rewards metrics errors ok stop_condition tools"
ODD = st.sampled_from(NAMES.split())
INNER = st.sampled_from(["message", "usage", "time", "config", "data", "work", "id", "step", "a"])


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(ODD, JSON | st.dictionaries(INNER, JSON) | st.lists(JSON, max_size=4)),
    st.dictionaries(st.sampled_from(["scoring", "agent", "boot"]), JSON),
)
def test_odd_values_never_matter(fields: dict[str, Any], phases: dict[str, Any]) -> None:
    """Whatever JSON is in a trace with an id and a begin: there is a row the store can hold."""
    try:
        text = msgspec.json.encode(trace("t", **fields) | {"timing": {"start": NOW, **phases}})
        document = decode_trace(text)
    except msgspec.DecodeError:
        # A number that no reader could hold.
        return
    row = project_trace(document)
    assert (row.trace_id, row.created_at) == ("t", NOW)
    for value in (row.run_step, row.duration_ms, row.total_tokens):
        assert value is None or -(2**63) <= value < 2**63
    assert row.duration_ms >= 0
    assert row.total_tokens >= 0
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(row), type=TraceRow) == row
