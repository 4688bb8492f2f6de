"""`Ranges`: a set of indexes kept as sorted half-open intervals.

Receipts, resume tokens and the spool speak of samples as ranges of their input index: what is
    stored, refused,
unknown or still to be sent. A push of a million samples that went well is one interval.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prime_async.errors import UsageError

__all__ = ["Ranges"]


class Ranges:
    """A mutable set of non-negative integers, compact where they follow each other.

    ``Ranges([(0, 128), (130, 131)])`` holds 0 to 127 and 130. Intervals may be given in any order,
    may touch and may overlap; they are kept sorted and merged. Adding, removing and asking take
    O(log n) for n intervals (plus a memory move); combining two takes O(n log n).

    >>> done = Ranges([(0, 128)])
    >>> done.add(130)
    >>> done.to_list(), done.complement(132).to_list(), done.total
    ([[0, 128], [130, 131]], [[128, 130], [131, 132]], 129)

    Args:
        intervals: pairs ``(start, stop)``, stop not included; a pair with ``start == stop`` is
            empty.

    Raises:
        UsageError: a start is negative or lies after its stop.
    """

    __hash__ = None  # type: ignore[assignment]  # mutable, as a set is
    __slots__ = ("_bounds",)

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        # start, stop, start, stop, … strictly increasing: an index is inside when an odd number of
        # bounds is <= it.
        self._bounds: list[int] = []
        for start, stop in intervals:
            self.add(start, stop)

    @classmethod
    def from_list(cls, pairs: Any) -> Ranges:
        """Read the compact form ``[[start, stop], …]`` as it stands in JSON.

        Raises:
            UsageError: it is not a list of pairs of non-negative integers, start before stop.
        """
        if not isinstance(pairs, (list, tuple)):
            raise UsageError(f"ranges must be a list of [start, stop], not {type(pairs).__name__}")
        return cls(_pair(entry) for entry in pairs)

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Ranges:
        """Return the set of these single indexes."""
        found = cls()
        for index in indexes:
            found.add(index)
        return found

    def to_list(self) -> list[list[int]]:
        """Return the compact form for JSON: ``[[start, stop], …]``, sorted, neither touching nor
        overlapping."""
        return [[start, stop] for start, stop in self]

    def copy(self) -> Ranges:
        """Return an equal set that can be changed apart from this one."""
        return self._of_bounds(self._bounds.copy())

    def add(self, start: int, stop: int | None = None) -> None:
        """Put an interval in; without ``stop`` the single index ``start``.

        Raises:
            UsageError: the start is negative or lies after the stop.
        """
        stop = _checked(start, stop)
        bounds = self._bounds
        if start == stop:
            return
        if bounds and bounds[-1] == start:  # the common case: things happen in order
            bounds[-1] = stop
            return
        first, last = bisect_left(bounds, start), bisect_right(bounds, stop)
        bounds[first:last] = ([] if first & 1 else [start]) + ([] if last & 1 else [stop])

    def remove(self, start: int, stop: int | None = None) -> None:
        """Take an interval out; without ``stop`` the single index ``start``. What is not in the set
        is passed over.

        Raises:
            UsageError: the start is negative or lies after the stop.
        """
        stop = _checked(start, stop)
        bounds = self._bounds
        if start == stop:
            return
        first, last = bisect_left(bounds, start), bisect_right(bounds, stop)
        bounds[first:last] = ([start] if first & 1 else []) + ([stop] if last & 1 else [])

    def update(self, other: Ranges) -> None:
        """Put every interval of another set in."""
        for start, stop in other:
            self.add(start, stop)

    def subtract(self, other: Ranges) -> None:
        """Take every interval of another set out."""
        for start, stop in other:
            self.remove(start, stop)

    def complement(self, total: int) -> Ranges:
        """Return what this set lacks of ``0 … total - 1``.

        Raises:
            UsageError: ``total`` is negative.
        """
        return Ranges([(0, total)]) - self

    def covers(self, other: Ranges) -> bool:
        """Return True when every index of the other set is in this one."""
        return all(self._holds(start, stop) for start, stop in other)

    def overlaps(self, other: Ranges) -> bool:
        """Return True when the two sets have an index in common."""
        few, many = (self, other) if len(self._bounds) < len(other._bounds) else (other, self)
        return any(many._touches(start, stop) for start, stop in few)

    def indexes(self) -> Iterator[int]:
        """Go through every single index, in order."""
        for start, stop in self:
            yield from range(start, stop)

    @property
    def total(self) -> int:
        """How many indexes are in the set."""
        return sum(self._bounds[1::2]) - sum(self._bounds[::2])

    @property
    def start(self) -> int:
        """The lowest index; 0 for the empty set."""
        return self._bounds[0] if self._bounds else 0

    @property
    def stop(self) -> int:
        """One more than the highest index; 0 for the empty set."""
        return self._bounds[-1] if self._bounds else 0

    def __or__(self, other: Ranges) -> Ranges:
        return self._combined(other, lambda mine, theirs: mine or theirs)

    def __and__(self, other: Ranges) -> Ranges:
        return self._combined(other, lambda mine, theirs: mine and theirs)

    def __sub__(self, other: Ranges) -> Ranges:
        return self._combined(other, lambda mine, theirs: mine and not theirs)

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and bool(bisect_right(self._bounds, index) & 1)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Go through the intervals, in order."""
        bounds = self._bounds
        return zip(bounds[::2], bounds[1::2], strict=True)

    def __len__(self) -> int:
        """How many intervals there are; `total` counts the indexes."""
        return len(self._bounds) // 2

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def __eq__(self, other: object) -> bool:
        return self._bounds == other._bounds if isinstance(other, Ranges) else NotImplemented

    def __repr__(self) -> str:
        return f"Ranges({[(start, stop) for start, stop in self]})"

    def __str__(self) -> str:
        """Read as people write ranges, last index included: ``0-127, 130``; ``none`` for the empty
        set."""
        shown = (str(a) if b - a == 1 else f"{a}-{b - 1}" for a, b in self)
        return ", ".join(shown) or "none"

    @classmethod
    def _of_bounds(cls, bounds: list[int]) -> Ranges:
        made = cls()
        made._bounds = bounds
        return made

    def _holds(self, start: int, stop: int) -> bool:
        place = bisect_right(self._bounds, start)
        return bool(place & 1) and self._bounds[place] >= stop

    def _touches(self, start: int, stop: int) -> bool:
        place = bisect_right(self._bounds, start)
        return bool(place & 1) or bisect_left(self._bounds, stop) > place

    def _combined(self, other: Ranges, keep: Callable[[bool, bool], bool]) -> Ranges:
        mine, theirs = self._bounds, other._bounds
        bounds: list[int] = []
        i = j = 0
        for point in sorted({*mine, *theirs}):
            i += i < len(mine) and mine[i] == point
            j += j < len(theirs) and theirs[j] == point
            if keep(bool(i & 1), bool(j & 1)) != bool(len(bounds) & 1):
                bounds.append(point)
        return self._of_bounds(bounds)


def _checked(start: int, stop: int | None) -> int:
    end = start + 1 if stop is None else stop
    if start < 0 or end < start:
        raise UsageError(f"[{start}, {end}] is not a range: 0 <= start <= stop must hold")
    return end


def _pair(entry: Any) -> tuple[int, int]:
    if isinstance(entry, (list, tuple)) and len(entry) == 2:
        start, stop = entry
        # bool is an int to isinstance, but true is no index
        if type(start) is int and type(stop) is int:
            return start, stop
    raise UsageError(f"{entry!r} is not a range [start, stop]")
