"""Many things taken in portions, so that no step holds more than a bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["portions"]

T = TypeVar("T")


def portions(things: Iterable[T], size_of: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield lists of neighbours; each ends with the one that brings it to `most` bytes or more."""
    portion: list[T] = []
    size = 0
    for thing in things:
        portion.append(thing)
        size += size_of(thing)
        if size >= most:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
