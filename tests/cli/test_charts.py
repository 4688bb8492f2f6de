"""Sparklines and histograms, for any numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prime_async_cli.charts import histogram, sparkline

BLOCKS = "▁▂▃▄▅▆▇█"
NUMBERS = st.none() | st.floats() | st.integers(-(2**60), 2**60)
SERIES = st.lists(NUMBERS, max_size=200)
PRESENT = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=200)
WIDTHS = st.integers(1, 60)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([None, math.nan, math.inf], ""),
        ([0, 1, 2, 3, 4, 5, 6, 7], BLOCKS),
        ([7, 0], "█▁"),
        ([3, 3, 3], "▅▅▅"),
        ([0, None, 7], "▁ █"),
        ([-1.7e308, 1.7e308], "▁█"),
    ],
)
def test_a_line(values: list[float | None], line: str) -> None:
    """Lowest at the bottom, highest at the top, gaps where nothing is recorded."""
    assert sparkline(values, 20) == line


def test_a_long_series_is_drawn_by_averages() -> None:
    """Parts of the same size, in their order."""
    assert sparkline([0, 2, 4, 6, 12, 16], 3) == sparkline([1, 5, 14], 3)


@given(SERIES, WIDTHS, st.booleans())
def test_any_series_fits(values: list[float | None], width: int, plain: bool) -> None:
    """Never wider than allowed, only characters of its alphabet, as long as a short series."""
    line = sparkline(values, width, ascii_only=plain)
    assert len(line) <= width
    assert set(line) <= set(("_.:-=+*#" if plain else BLOCKS) + " ")
    present = [each for each in values if each is not None and math.isfinite(each)]
    assert bool(line) == bool(present)
    if present and len(values) <= width:
        assert len(line) == len(values)


@given(PRESENT)
def test_the_extremes_stand_out(values: list[float]) -> None:
    """No value is drawn lower than the lowest, or higher than the highest."""
    line = sparkline(values, len(values))
    levels = [BLOCKS.index(each) for each in line]
    assert levels[values.index(min(values))] == min(levels)
    assert levels[values.index(max(values))] == max(levels)
    ordered = sorted(zip(values, levels, strict=True))
    assert [level for _, level in ordered] == sorted(levels)


@given(SERIES, WIDTHS, st.booleans())
def test_any_histogram_fits(values: list[float | None], bins: int, plain: bool) -> None:
    """Never wider than its bins; something is drawn wherever there is a value, its top once."""
    drawn = histogram(values, bins, ascii_only=plain)
    present = [each for each in values if each is not None and math.isfinite(each)]
    assert len(drawn) <= bins
    assert bool(drawn) == bool(present)
    if present:
        assert ("#" if plain else "█") in drawn


@given(st.lists(st.integers(0, 9), min_size=1, max_size=100))
def test_a_histogram_shows_every_value(values: list[int]) -> None:
    """With a bin for each number, the drawn bins are the numbers that are there."""
    drawn = histogram([0, 9, *values], 10)
    assert {place for place, each in enumerate(drawn) if each != " "} == {0, 9, *values}
