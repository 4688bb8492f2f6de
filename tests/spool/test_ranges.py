"""Ranges against a model: a plain set of integers."""

from __future__ import annotations

import doctest
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_async.errors import UsageError
from prime_async.spool import Ranges, ranges

_TOP = 40
_intervals = st.tuples(st.integers(0, _TOP), st.integers(0, _TOP)).map(
    lambda pair: (min(pair), max(pair))
)
_lists = st.lists(_intervals, max_size=8)
_changes = st.lists(st.tuples(st.sampled_from(["add", "remove"]), _intervals), max_size=12)


def _model(intervals: list[tuple[int, int]]) -> set[int]:
    return {index for start, stop in intervals for index in range(start, stop)}


def _check(made: Ranges, model: set[int]) -> None:
    """The set holds what the model holds, in canonical form."""
    assert set(made.indexes()) == model
    assert list(made.indexes()) == sorted(model)
    pairs = made.to_list()
    assert all(start < stop for start, stop in pairs)
    assert all(before[1] < after[0] for before, after in pairwise(pairs))
    assert made.total == len(model)
    assert len(made) == len(pairs)
    assert bool(made) == bool(model)
    assert (made.start, made.stop) == ((min(model), max(model) + 1) if model else (0, 0))


@given(_changes)
def test_adding_and_removing(changes: list[tuple[str, tuple[int, int]]]) -> None:
    """Any row of changes leaves what it leaves of a set of integers."""
    made, model = Ranges(), set[int]()
    for change, (start, stop) in changes:
        if change == "add":
            made.add(start, stop)
            model |= set(range(start, stop))
        else:
            made.remove(start, stop)
            model -= set(range(start, stop))
        _check(made, model)


@given(_lists, _lists)
def test_combining(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    """Union, intersection, difference and their questions agree with sets; operands stay."""
    one, two = Ranges(first), Ranges(second)
    a, b = _model(first), _model(second)
    _check(one | two, a | b)
    _check(one & two, a & b)
    _check(one - two, a - b)
    assert one.covers(two) == (a >= b)
    assert one.overlaps(two) == bool(a & b)
    assert (one == two) == (a == b)
    _check(one, a)
    _check(two, b)


@given(_lists, _lists)
def test_changing_by_a_set(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    """update and subtract change the set itself."""
    grown, shrunk = Ranges(first), Ranges(first)
    grown.update(Ranges(second))
    shrunk.subtract(Ranges(second))
    _check(grown, _model(first) | _model(second))
    _check(shrunk, _model(first) - _model(second))


@given(_lists, st.integers(0, _TOP + 5))
def test_complement(intervals: list[tuple[int, int]], total: int) -> None:
    """The complement is what is lacking up to the total."""
    _check(Ranges(intervals).complement(total), set(range(total)) - _model(intervals))


@given(_lists)
def test_compact_form(intervals: list[tuple[int, int]]) -> None:
    """The compact form reads back as the same set, and single indexes make it too."""
    made = Ranges(intervals)
    assert Ranges.from_list(made.to_list()) == made
    assert Ranges.of(made.indexes()) == made
    assert Ranges(made) == made


@given(_lists)
def test_membership(intervals: list[tuple[int, int]]) -> None:
    """Each index is in or out as in the model; what is no integer is out."""
    made, model = Ranges(intervals), _model(intervals)
    assert [index for index in range(_TOP + 2) if index in made] == sorted(model)
    assert "3" not in made


def test_copy_is_apart() -> None:
    """A copy does not change with its original."""
    made = Ranges([(0, 3)])
    copied = made.copy()
    made.add(5)
    assert copied.to_list() == [[0, 3]]


def test_large_numbers_cost_nothing() -> None:
    """Intervals are never spelled out: a set of 2**63 indexes is one pair."""
    made = Ranges([(0, 1 << 63)])
    made.remove(10)
    assert made.total == (1 << 63) - 1
    assert made.to_list() == [[0, 10], [11, 1 << 63]]


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        {"0": 1},
        "01",
        [1, 2],
        [[1]],
        [[1, 2, 3]],
        [[2, 1]],
        [[-1, 2]],
        [["0", "1"]],
        [[0.0, 1.0]],
        [[True, 2]],
        [None],
    ],
)
def test_refuses_what_is_no_compact_form(wrong: Any) -> None:
    """A resume token from elsewhere is checked before it is believed."""
    with pytest.raises(UsageError):
        Ranges.from_list(wrong)


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (3, 2), (-2, None)])
def test_refuses_impossible_intervals(start: int, stop: int | None) -> None:
    """Adding and removing take only intervals that can be."""
    with pytest.raises(UsageError, match="not a range"):
        Ranges().add(start, stop)
    with pytest.raises(UsageError, match="not a range"):
        Ranges().remove(start, stop)


def test_text_for_people() -> None:
    """People read the last index as included."""
    assert str(Ranges([(0, 128), (130, 131)])) == "0-127, 130"
    assert str(Ranges()) == "none"
    assert repr(Ranges([(0, 2)])) == "Ranges([(0, 2)])"


def test_is_not_hashable_and_compares_with_its_kind_only() -> None:
    """It can change, so it is no key; a list of pairs is not equal to it."""
    with pytest.raises(TypeError):
        hash(Ranges())
    assert Ranges([(0, 1)]) != [(0, 1)]


def test_examples_in_the_documentation_hold() -> None:
    """The example in the docstring gives what it says."""
    assert doctest.testmod(ranges).failed == 0
