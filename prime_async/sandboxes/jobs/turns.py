"""A queue that is fair: its sandboxes take turns, first come first served within each."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

__all__ = ["Turns"]

T = TypeVar("T")


class Turns(Generic[T]):
    """Items by sandbox; one that has many does not keep the others waiting."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, sandbox_id: str, item: T) -> None:
        """Add an item at the end of its sandbox's line."""
        self._lines.setdefault(sandbox_id, OrderedDict())[item] = None
        self._size += 1

    def take(self) -> T:
        """Remove and return the first item of the sandbox whose turn it is."""
        sandbox_id, line = next(iter(self._lines.items()))
        item, _ = line.popitem(last=False)
        self._size -= 1
        if line:
            self._lines.move_to_end(sandbox_id)
        else:
            del self._lines[sandbox_id]
        return item

    def remove(self, sandbox_id: str, item: T) -> bool:
        """Remove an item that need not wait any longer; False when it is not there."""
        line = self._lines.get(sandbox_id)
        if line is None or item not in line:
            return False
        del line[item]
        self._size -= 1
        if not line:
            del self._lines[sandbox_id]
        return True
