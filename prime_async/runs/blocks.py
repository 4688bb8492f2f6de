"""`Item`: an encoded record that waits; `Blocks`: memory in which neighbours lie one behind the
other, so that a batch is hashed and compressed where it is, without being joined.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

__all__ = ["BLOCK_BYTES", "Block", "Blocks", "Item", "joined"]

_ITEM_BYTES = 160
"""What an item costs beside its data: the objects around it."""

BLOCK_BYTES = 4 * 2**20
"""Of a block. Pages of it that no record reaches are never there."""

_OWN_BYTES = 2**20
"""A record of this size stays the object it is."""

_SPARE = 1
"""Blocks that are kept for the next records: memory that is new costs a page fault per 4 KiB."""

_JOINED_BYTES = 512 * 1024


class Block:
    """Memory that goes back when the last item in it is gone.

    Mapped by itself and not from the heap: where it lies between other objects the heap cannot
    give it back to the system.
    """

    __slots__ = ("_spare", "memory")

    def __init__(self, memory: memoryview, spare: list[memoryview]) -> None:
        self.memory = memory
        self._spare = spare

    def __del__(self) -> None:
        if len(self._spare) < _SPARE:
            self._spare.append(self.memory)


def _mapped() -> mmap.mmap:
    if hasattr(mmap, "MAP_PRIVATE"):  # shared, the default there, would reach into forked children
        return mmap.mmap(-1, BLOCK_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON)
    return mmap.mmap(-1, BLOCK_BYTES)


class Item(msgspec.Struct, frozen=True, order=True, gc=False):
    """An encoded record: its number in the lane, from 0, and its JSON bytes, which are an object of
    their own or lie in a block.
    """

    index: int
    held: Any
    start: int = 0
    stop: int = -1

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.held) if self.stop < 0 else self.stop - self.start

    @property
    def cost(self) -> int:
        """Bytes of memory it counts for."""
        return self.size + _ITEM_BYTES

    @property
    def begins(self) -> bool:
        """True when it is the first one in its block."""
        return self.start == 0 < self.stop

    @property
    def view(self) -> bytes | memoryview:
        """The bytes where they lie; of no use once the item is gone."""
        if self.stop < 0:
            held: bytes = self.held
            return held
        memory: memoryview = self.held.memory
        return memory[self.start : self.stop]

    @property
    def data(self) -> bytes:
        """The bytes: a copy, if they lie in a block."""
        return bytes(self.view)


class Blocks:
    """Where the records of one lane go. Not locked."""

    def __init__(self) -> None:
        self._spare: list[memoryview] = []
        self._block: Block | None = None
        self._used = 0

    def stored(self, item: Item) -> Item:
        """Copy an item to the end of the block in use, and return the one that lies there."""
        size = item.size
        if size >= _OWN_BYTES:
            return item
        block, start = self._block, self._used
        if block is None or start + size > BLOCK_BYTES:
            del block
            self._block = None  # first: its memory may be the next block's
            self._block = block = Block(self._memory(), self._spare)
            start = 0
        self._used = stop = start + size
        block.memory[start:stop] = item.view
        return Item(item.index, block, start, stop)

    def _memory(self) -> memoryview:
        return self._spare.pop() if self._spare else memoryview(_mapped())


def joined(items: Sequence[Item]) -> Iterator[bytes | memoryview]:
    """Go through the bytes of items in as few pieces as may be.

    Hashing and compressing let go of the interpreter, and taking it back makes the thread that logs
    wait: a few long calls disturb it less than one per line. A piece that was yielded is of no use
    once the items are gone.
    """
    loose: list[bytes | memoryview] = []
    size = 0
    for item in _merged(items):
        if item.size < _JOINED_BYTES:
            loose.append(item.view)
            size += item.size
            if size < _JOINED_BYTES:
                continue
            yield b"".join(loose)
        else:
            if loose:
                yield b"".join(loose)
            yield item.view
        loose, size = [], 0
    if loose:
        yield b"".join(loose)


def _merged(items: Sequence[Item]) -> Iterator[Item]:
    """Make one of neighbours that lie one behind the other."""
    first, stop = None, 0
    for item in items:
        if first is not None and item.held is first.held and item.start == stop > 0:
            stop = item.stop
            continue
        if first is not None:
            yield Item(first.index, first.held, first.start, stop)
        first, stop = item, item.stop
    if first is not None:
        yield Item(first.index, first.held, first.start, stop)
