"""The queue between ``log_*`` and the uploader: bounded in bytes, never waited for."""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable
from itertools import islice

from prime_async.runs.blocks import Blocks, Item

__all__ = ["Lane", "Offered", "RecordQueue"]

_NEIGHBOURS = 64


class Lane(enum.Enum):
    """What is never mixed in one batch. The values name folders of the spool."""

    TRACE = "run.traces"
    EPISODE = "run.episodes"
    SAMPLE = "run.samples"
    METRIC = "run.metrics"
    DISTRIBUTION = "run.distributions"


class Offered(enum.Enum):
    """What became of an item that was offered."""

    CLOSED = "the queue takes nothing more"
    FULL = "full"
    TAKEN = "taken"
    WAKE = "taken, and the one who delivers should look now"


class RecordQueue:
    """Encoded records, first in first out per lane, for any number of producers.

    Bytes count until `release`, so what is on its way belongs to the limit too. Every method takes
    one short lock, for microseconds; lines of traces and episodes are copied under it, into
    `Blocks`.

    Args:
        max_bytes: the limit over all lanes.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._lanes: dict[Lane, deque[Item]] = {lane: deque() for lane in Lane}
        self._blocks = {lane: Blocks() for lane in (Lane.TRACE, Lane.EPISODE)}
        self._sizes: dict[Lane, int] = dict.fromkeys(Lane, 0)
        self._next: dict[Lane, int] = dict.fromkeys(Lane, 0)
        self._ripe: dict[Lane, tuple[int, int]] = dict.fromkeys(Lane, (0, 0))
        self._bytes = 0
        self._waiting: list[Callable[[], object]] = []
        self._closed = False
        self.peak_bytes = 0

    @property
    def bytes(self) -> int:
        """Bytes held, those on their way included."""
        return self._bytes

    @property
    def crowded(self) -> bool:
        """True while half of the room is taken: nothing should wait for company then."""
        return self._bytes * 2 >= self.max_bytes

    def fits(self, cost: int) -> bool:
        """Say whether an item of this cost is taken now, or never will be."""
        return self._bytes + cost <= self.max_bytes or cost > self.max_bytes

    def number(self, lane: Lane) -> int:
        """Give a record of a lane its index."""
        with self._lock:
            index = self._next[lane]
            self._next[lane] = index + 1
            return index

    def ripe_at(self, lane: Lane, size: int, number: int) -> None:
        """Say from which size and number on a lane is worth a batch; see `offer`."""
        self._ripe[lane] = (size, number)

    def numbered(self, lane: Lane) -> int:
        """Return how many records of a lane have got an index."""
        return self._next[lane]

    def offer(self, lane: Lane, item: Item) -> Offered:
        """Put an item at the end, if it fits."""
        cost = item.cost
        with self._lock:
            if self._closed:
                return Offered.CLOSED
            if self._bytes + cost > self.max_bytes:
                return Offered.FULL
            return self._append(lane, item, cost)

    def offer_over(self, lane: Lane, item: Item) -> tuple[Lane, list[Item]] | None:
        """Put an item at the end in place of the oldest waiting ones; return those and their lane.

        It is the item's own lane, or one that holds more than this would then: traces that fill the
        queue give way to a row of metrics, not the rows before it.

        None when that makes not enough room: the rest is on its way, or of smaller lanes.
        """
        cost = item.cost
        with self._lock:
            fullest = max(self._sizes, key=self._sizes.__getitem__)
            loser = fullest if self._sizes[fullest] > self._sizes[lane] + cost else lane
            free = self.max_bytes - self._bytes
            if free + self._sizes[loser] < cost:
                return None
            gone: list[Item] = []
            while free < cost:
                oldest = self._lanes[loser].popleft()
                gone.append(oldest)
                free += oldest.cost
            removed = sum(old.cost for old in gone)
            self._sizes[loser] -= removed
            self._bytes -= removed
            self._append(lane, item, cost)
            return loser, gone

    def close(self) -> None:
        """Take nothing more; what is there stays."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def take(self, lane: Lane, max_bytes: int, max_items: int) -> list[Item]:
        """Take items from the front, up to these limits, one at least where there is one.

        Where a block ends, the batch does, unless it is small: it is one piece of memory then.
        """
        taken: list[Item] = []
        size = 0
        with self._lock:
            waiting = self._lanes[lane]
            while waiting and len(taken) < max_items:
                data = waiting[0].size
                if taken and (size + data > max_bytes or _parted(waiting[0], size, max_bytes)):
                    break
                item = waiting.popleft()
                self._sizes[lane] -= item.cost
                size += data
                taken.append(item)
        return taken

    def release(self, items: list[Item]) -> None:
        """Give back the room of items that were taken."""
        given_back = sum(item.cost for item in items)
        with self._lock:
            self._bytes -= given_back
            waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def waiting(self, lane: Lane) -> tuple[int, int]:
        """Return how many items of a lane wait to be taken, and their bytes."""
        return len(self._lanes[lane]), self._sizes[lane]

    def first(self, lane: Lane) -> int | None:
        """Return the lowest index that waits in a lane.

        Threads that log at the same time may swap places, by no more than their number.
        """
        with self._lock:
            return min(
                (item.index for item in islice(self._lanes[lane], _NEIGHBOURS)), default=None
            )

    def on_room(self, wake: Callable[[], object]) -> None:
        """Call ``wake`` once, from some thread, when room has been given back."""
        with self._lock:
            self._waiting.append(wake)

    def _append(self, lane: Lane, item: Item, cost: int) -> Offered:
        waiting, before = self._lanes[lane], self._sizes[lane]
        blocks = self._blocks.get(lane)
        waiting.append(item if blocks is None else blocks.stored(item))
        self._sizes[lane] = before + cost
        self._bytes += cost
        self.peak_bytes = max(self.peak_bytes, self._bytes)
        size, number = self._ripe[lane]
        now = len(waiting) == number or before < size <= before + cost
        crowding = (self._bytes - cost) * 2 < self.max_bytes <= self._bytes * 2
        return Offered.WAKE if now or crowding else Offered.TAKEN


def _parted(following: Item, size: int, max_bytes: int) -> bool:
    return following.begins and size * 4 >= max_bytes
