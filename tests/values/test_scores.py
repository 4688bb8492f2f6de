"""Scores that are not finite: counted by name, whatever kind of record holds them."""

from __future__ import annotations

import dataclasses
import math
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_async import values

NAN, INF = float("nan"), float("inf")

SCORES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=2),
    st.lists(st.floats(), max_size=2),
    st.floats(width=32).map(np.float32),
    st.sampled_from(
        [Decimal("NaN"), np.array([NAN]), np.array([1.0, 2.0]), np.array(NAN), 10**400]
    ),
)


@dataclasses.dataclass
class Sample:
    """A record that is no dict."""

    reward: Any
    metrics: Any = None


class Struct(msgspec.Struct):
    """Another one."""

    reward: Any
    metrics: Any = None


@settings(max_examples=200, deadline=None)
@given(SCORES, st.one_of(st.none(), st.dictionaries(st.sampled_from("abc"), SCORES)))
def test_the_quick_look_misses_nothing(reward: Any, metrics: Any) -> None:
    """Where the quick look says "finite", the close one finds nothing."""
    record = {"reward": reward, "metrics": metrics}
    if values.scores_are_finite(record):
        assert values.nonfinite_scores(record) == []


@settings(max_examples=200, deadline=None)
@given(st.floats(), st.dictionaries(st.sampled_from("abc"), st.floats()))
def test_every_score_is_named(reward: float, metrics: dict[str, float]) -> None:
    """Exactly the scores that become null are named, in every kind of record."""
    expected = [] if math.isfinite(reward) else ["reward"]
    expected += [f"metrics.{name}" for name, value in metrics.items() if not math.isfinite(value)]
    records = (
        {"reward": reward, "metrics": metrics},
        {"reward": reward, "metrics": OrderedDict(metrics)},
        Sample(reward, metrics),
        Struct(reward, metrics),
    )
    for record in records:
        assert values.nonfinite_scores(record) == expected


@pytest.mark.parametrize("metrics", [OrderedDict(a=NAN), [NAN], "text", {"a": np.array([1, 2])}])
def test_the_quick_look_gives_way_where_it_cannot_tell(metrics: Any) -> None:
    """Metrics of an unusual kind are left to the close look, and nothing is raised."""
    assert not values.scores_are_finite({"reward": 1.0, "metrics": metrics})


def test_only_numbers_that_become_null_count() -> None:
    """Text is no number, a Decimal is written as text, a list is no score."""
    record = {"reward": Decimal("NaN"), "metrics": {"a": "nan", "b": [NAN], "c": np.float16(INF)}}
    assert values.nonfinite_scores(record) == ["metrics.c"]


@pytest.mark.parametrize("record", [None, 5, "text", [1], {"metrics": None}, {}])
def test_records_without_scores(record: Any) -> None:
    """Anything may be asked; what has no scores has none that are not finite."""
    assert values.nonfinite_scores(record) == []
