"""Small charts inside table cells: a series as a line of blocks, values as a histogram."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

__all__ = ["histogram", "sparkline"]

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.:-=+*#"
_GAP = " "


def sparkline(values: Sequence[float | None], width: int, *, ascii_only: bool = False) -> str:
    """Draw a series, first value left, lowest value lowest.

    A series longer than `width` is drawn by the averages of equal parts. What is not recorded or
    not finite leaves a gap. A series of one value only is drawn in the middle.

    Args:
        values: the series.
        width: characters at most.
        ascii_only: draw with characters that every terminal has.
    """
    points = _averages([_finite(value) for value in values], width)
    present = [point for point in points if point is not None]
    if not present:
        return ""
    low, high = min(present), max(present)
    levels = _ASCII if ascii_only else _BLOCKS
    return "".join(
        _GAP if point is None else levels[_level(point, low, high, len(levels))] for point in points
    )


def histogram(values: Iterable[float | None], bins: int, *, ascii_only: bool = False) -> str:
    """Draw how many values fall into each of so many equal parts of their range.

    An empty part is a gap; a part with any value is visible. What is not finite does not count.

    Args:
        values: in any order.
        bins: parts.
        ascii_only: draw with characters that every terminal has.
    """
    counts = _counts([each for value in values if (each := _finite(value)) is not None], bins)
    most = max(counts, default=0)
    levels = _ASCII if ascii_only else _BLOCKS
    return "".join(
        levels[math.ceil(count / most * len(levels)) - 1] if count else _GAP for count in counts
    ).rstrip()


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _averages(values: Sequence[float | None], width: int) -> list[float | None]:
    if len(values) <= width:
        return list(values)
    edges = [place * len(values) // width for place in range(width + 1)]
    return [_average(values[start:end]) for start, end in itertools.pairwise(edges)]


def _average(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    # Each is divided first: the sum of large ones would not be finite.
    return math.fsum(value / len(present) for value in present) if present else None


def _level(value: float, low: float, high: float, levels: int) -> int:
    """Return the level of a value; halves, because the whole range may not be finite."""
    span = high / 2 - low / 2
    if span <= 0:
        return levels // 2
    return min(levels - 1, int((value / 2 - low / 2) / span * levels))


def _counts(values: Sequence[float], bins: int) -> list[int]:
    if not values:
        return []
    low, high = min(values), max(values)
    counts = [0] * bins
    for value in values:
        counts[_level(value, low, high, bins)] += 1
    return counts
