"""Splitting a body in windows gives what decoding it in one piece gives, for any body."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_async.server.failures import RequestError
from prime_async.server.splitting import _in_windows, split

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
samples = st.dictionaries(st.text(max_size=6), values, max_size=4) | st.fixed_dictionaries(
    {"id": st.integers(), "text": st.text(max_size=30), "of": st.lists(values, max_size=2)}
)


def whole(body: bytes) -> Any:
    return [json.loads(bytes(text)) for text in split(body, window=len(body))]


def windowed(body: bytes, window: int) -> Any:
    return [json.loads(bytes(text)) for text in split(body, window=window)]


@given(st.lists(samples, max_size=30), st.integers(5, 80), st.sampled_from([None, 2, (",", ":")]))
@settings(max_examples=100, deadline=None)
def test_any_samples_and_any_window_give_the_same(
    pushed: list[Any], window: int, style: Any
) -> None:
    """Whatever nests, repeats keys or holds commas and braces in its texts."""
    separators = style if isinstance(style, tuple) else None
    indent = style if isinstance(style, int) else None
    body = json.dumps({"samples": pushed}, separators=separators, indent=indent).encode()
    assert windowed(body, window) == whole(body) == pushed


@given(st.binary(max_size=200), st.integers(5, 40))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_the_same_error(noise: bytes, window: int) -> None:
    """What is not a push is refused alike, whatever its size."""
    body = b'{"samples": [{"a": 1}, {"a": 2}, ' + noise + b', {"a": 3}]}'
    outcomes = []
    for size in (window, len(body)):
        try:
            outcomes.append([bytes(text) for text in split(body, window=size)])
        except RequestError as error:
            outcomes.append((error.status, error.message))
    assert outcomes[0] == outcomes[1]


def test_samples_that_quote_their_own_beginning_are_not_cut_there() -> None:
    """A text that looks like the border between two samples is not one."""
    sample = {"id": 1, "text": '}, {"id": 1, "text": "'}
    body = json.dumps({"samples": [sample] * 50}).encode()
    assert windowed(body, 100) == [sample] * 50


def test_like_samples_are_found_in_windows() -> None:
    """The usual case needs no second look at the whole body."""
    sample = {"example_id": 1, "prompt": [{"role": "user"}, {"role": "user"}]}
    body = json.dumps({"samples": [sample] * 200}).encode()
    found = _in_windows(body, 300)
    assert found is not None
    assert len(found) == 200


@pytest.mark.parametrize(
    "body",
    [
        b'{"samples": [{"a": 1}], "samples": [%s]}' % b", ".join([b'{"a": 2}'] * 99),
        b'{"other": 1, "samples": [%s]}' % b", ".join([b'{"a": 2}'] * 99),
        b'{"samples": [%s], "more": {"x": [1]}}' % b", ".join([b'{"a": 2}'] * 99),
    ],
)
def test_unusual_envelopes_are_decoded_in_one_piece(body: bytes) -> None:
    """Further keys do not matter; of a key given twice the last one counts."""
    assert windowed(body, 50) == [{"a": 2}] * 99
