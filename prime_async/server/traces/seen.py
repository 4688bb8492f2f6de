"""Which ids an upload has had: a million of them in 16 MiB, however long they are.

Only a hash of 64 bits is kept of each. Two ids of the largest upload share one about once in forty
million uploads, which is then refused for a duplicate that it does not have.
"""

from __future__ import annotations

from array import array

__all__ = ["Seen"]

_FIRST_PLACES = 256


class Seen:
    """A set of texts that can only grow."""

    def __init__(self) -> None:
        self._places = array("Q", bytes(8 * _FIRST_PLACES))
        self._count = 0

    def add(self, text: str) -> bool:
        """Add a text; False when it was there."""
        mark = hash(text) & (2**64 - 1) or 1  # 0 is a free place
        place = self._place_of(mark)
        if self._places[place]:
            return False
        self._places[place] = mark
        self._count += 1
        if 2 * self._count > len(self._places):
            self._grow()
        return True

    def _place_of(self, mark: int) -> int:
        last = len(self._places) - 1
        place = mark & last
        while self._places[place] not in (0, mark):
            place = (place + 1) & last
        return place

    def _grow(self) -> None:
        marks, self._places = self._places, array("Q", bytes(16 * len(self._places)))
        for mark in marks:
            if mark:
                self._places[self._place_of(mark)] = mark
