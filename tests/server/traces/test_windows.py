"""Long documents decoded piece by piece: the same as in one piece, whatever is in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_async.server.traces.documents import decode_episode, decode_trace
from prime_async.server.traces.windows import in_windows
from tests.server.traces.uploads import NOW, episode, trace

Decode = Callable[..., Any]


def outcome(decode: Decode, text: bytes, window: int) -> Any:
    """What decoding gives, or the kind of error it raises."""
    try:
        return decode(text, window=window)
    except msgspec.ValidationError:
        return "wrong shape"
    except (msgspec.DecodeError, RecursionError):
        return "no JSON"


SAID = st.sampled_from(
    ["x" * 40, 'a "nodes":[{"parent": 1}, {"parent": 2}', '"traces": [{"id":"t"},{"id":"u"}]', "é"]
)
NODE = st.fixed_dictionaries(
    {
        "parent": st.none() | st.integers(0, 3),
        "message": st.fixed_dictionaries({"role": st.just("user"), "content": SAID}),
        "inner": st.lists(st.fixed_dictionaries({"parent": st.integers(0, 3)}), max_size=3),
    }
)
NODES = st.lists(NODE, max_size=12) | st.lists(NODE | st.none() | st.just([]), max_size=6)


@settings(max_examples=150, deadline=None)
@given(NODES, st.booleans(), st.integers(20, 200), st.integers(0, 400))
def test_a_trace_in_windows_is_the_trace(
    nodes: list[Any], nested_first: bool, window: int, cut: int
) -> None:
    """Also with another list of that name before, odd nodes, and text that breaks off."""
    before = {"info": {"nodes": nodes}, "text": '"nodes":[{"parent":'} if nested_first else {}
    text = json.dumps({**before, "id": "t", "timing": {}, "nodes": nodes, "ok": True}).encode()
    for given_text in (text, text[: len(text) - cut]):
        whole = outcome(decode_trace, given_text, len(given_text))
        assert outcome(decode_trace, given_text, window) == whole


@settings(max_examples=60, deadline=None)
@given(st.lists(NODES, max_size=5), st.integers(20, 200))
def test_an_episode_in_windows_is_the_episode(members: list[Any], window: int) -> None:
    """Its traces are the texts they are."""
    traces = [trace(f"t{n}", nodes=nodes) for n, nodes in enumerate(members)]
    text = json.dumps(episode("e", traces)).encode()
    assert outcome(decode_episode, text, window) == outcome(decode_episode, text, len(text))


def test_long_lists_are_cut() -> None:
    """A long graph really is decoded in pieces, and only its last part with the rest."""
    nodes = [{"parent": None, "message": {"role": "user", "content": "x" * 50}}] * 100
    text = json.dumps(trace("t", nodes=nodes)).encode()
    found = in_windows(text, "nodes", msgspec.json.decode, window=500)
    assert found is not None
    assert len(found.elements) > 80
    assert len(found.rest) < 3000
    assert decode_trace(text, window=500).nodes == decode_trace(text).nodes


@pytest.mark.parametrize("name", ["calls", "absent"])
def test_what_cannot_be_cut_is_left_alone(name: str) -> None:
    """A list that is short or not there."""
    text = json.dumps(trace("t", text="x" * 5000, timing={"start": NOW})).encode()
    assert in_windows(text, name, msgspec.json.decode, window=500) is None
