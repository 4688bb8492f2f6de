"""Many waiters, few requests: keys asked for at about the same time travel together.

A key is looked at once (:meth:`Coalescer.get`) or again and again until what is found will do
(:meth:`Coalescer.watch`). Each watched key has a clock of its own, quick at first and then patient,
whose moments lie on beats that all keys share: however many are waited for, the keys of one beat
are asked for in as few requests as can hold them.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from typing import Generic, TypeAlias

import anyio

from prime_async.errors import APIConnectionError, PrimeError
from prime_async.sandboxes.background import Background
from prime_async.sandboxes.waiters import AGAIN, NO_VALUE, Answer, K, V, Waiter

__all__ = ["BATCH", "Batch", "Coalescer"]

BATCH = 100
"""Keys in one request."""

_WINDOW = 0.025
_BEAT = 0.1
_PAUSES = (1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 48)
"""Beats between the looks at one key; each divides those that follow, so that their beats meet."""

_EARLY = 2
"""Beats that a key may be looked at before its time, where a request has room."""

Fetch: TypeAlias = "Callable[[Batch[K, V]], Awaitable[Mapping[K, Answer[V]]]]"


class _Slot(Generic[K, V]):
    """What the waiters of one key share."""

    __slots__ = ("batch", "key", "looks", "patient", "until", "waiters")

    def __init__(self, key: K) -> None:
        self.key = key
        self.looks = 0
        self.patient = 0  # waiters that want a pause of their own
        self.until: Callable[[V], bool] | None = None  # what all wait for, if it is the same
        self.waiters: dict[Waiter[K, V], None] = {}
        self.batch: Batch[K, V] | None = None  # None while it is to be looked at soon

    def add(self, waiter: Waiter[K, V]) -> None:
        """Take a waiter."""
        if not self.waiters:
            self.until = waiter.until
        elif self.until is not waiter.until:
            self.until = None
        self.waiters[waiter] = None
        self.patient += waiter.least > 0

    def drop(self, waiter: Waiter[K, V]) -> None:
        """Forget a waiter."""
        if self.waiters.pop(waiter, waiter) is None:
            self.patient -= waiter.least > 0
        if not self.waiters:
            self.until = None

    @property
    def wish(self) -> int:
        """Beats between two looks that all waiters want at least."""
        if not self.patient or self.patient < len(self.waiters):
            return 0
        return max(1, math.ceil(min(waiter.least for waiter in self.waiters) / _BEAT))


class Batch(list[K], Generic[K, V]):
    """The keys of one request. It stays together from look to look while nothing happens.

    Attributes:
        found: what the fetch returned when it was last asked for these keys, if it was. A fetch
            that knows that nothing has changed returns the same object: that spares looking
            through it.
    """

    __slots__ = ("found", "looks", "lost", "scope", "settled", "slots", "wanted", "wish")

    def __init__(self, slots: list[_Slot[K, V]]) -> None:
        super().__init__([slot.key for slot in slots])
        self.slots = slots
        self.found: Mapping[K, Answer[V]] | None = None
        self.looks = 0  # of each of its keys; 0 where they differ
        self.wish = 0
        self.settled = False  # all waiters have seen `found` and go on waiting
        self.lost = 0  # keys that are not waited for here any more
        self.wanted = 0
        self.scope: anyio.CancelScope | None = None  # while the request is under way
        for slot in slots:
            slot.batch = self

    def part(self) -> list[_Slot[K, V]]:
        """Return the keys that are left, for another batch to take."""
        left = [slot for slot in self.slots if slot.batch is self and slot.waiters]
        for slot in left:
            slot.looks = self.looks or slot.looks
        return left


class Coalescer(Generic[K, V]):
    """Fetches keys together, several requests at a time.

    Its one task runs while anybody waits; it is owned by ``background``.

    Args:
        fetch: takes at most 100 keys of one lane and returns, per key, a value, the error for it,
            or :class:`Later`; an exception it raises is everybody's. It may return
            :attr:`Batch.found` when it knows that nothing has changed.
        background: owns the task; by default one of its own.
        lanes: tells, before requests are made, what the lane of a key is (keys of different lanes
            never share a request), or None while there is one lane.
        name: of the task.

    Attributes:
        batches, keys, most_keys: requests, the keys in all of them, and the most in one.
    """

    def __init__(
        self,
        fetch: Fetch[K, V],
        background: Background | None = None,
        *,
        lanes: Callable[[], Callable[[K], Hashable] | None] = lambda: None,
        name: str = "coalescer",
    ) -> None:
        self._fetch = fetch
        self._background = background or Background()
        self._lanes = lanes
        self._name = name
        self._phase = random.uniform(0, 10)  # noqa: S311 - spreads load, guards nothing
        self.batches = 0
        self.keys = 0
        self.most_keys = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reset()

    def _reset(self) -> None:
        self._slots: dict[K, _Slot[K, V]] = {}
        self._soon: list[_Slot[K, V]] = []
        self._soon_at = math.inf
        self._by_beat: dict[int, list[Batch[K, V]]] = {}
        self._beats: list[int] = []
        self._changed = asyncio.Event()
        self._wakes_at = math.inf

    async def get(self, key: K) -> V:
        """Look at a key once; raises the error for it."""
        return await self._wait(key, None, 0.0)

    async def watch(self, key: K, until: Callable[[V], bool], *, least: float = 0.0) -> V:
        """Look at a key until a value will do; raises the error for it.

        Args:
            until: says whether a value will do.
            least: seconds between two looks at least; others who watch the key may want more.
        """
        return await self._wait(key, until, least)

    async def _wait(self, key: K, until: Callable[[V], bool] | None, least: float) -> V:
        over = asyncio.Event()
        waiter = self.subscribe(key, until, lambda _: over.set(), least=least)
        try:
            await over.wait()
        finally:
            self.leave(waiter)
        return waiter.result()

    def subscribe(
        self,
        key: K,
        until: Callable[[V], bool] | None,
        told: Callable[[Waiter[K, V]], None],
        *,
        least: float = 0.0,
    ) -> Waiter[K, V]:
        """Begin to wait for a key; ``told`` is called when it is done, until :meth:`leave`."""
        self._belong_to_loop()
        waiter: Waiter[K, V] = Waiter(key, until, least, told)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = _Slot(key)
            self._look_soon(slot)
        elif slot.batch is not None:
            self._join(slot, slot.batch, once=until is None)
        slot.add(waiter)
        self._background.run(self._name, self._drive)
        return waiter

    def _join(self, slot: _Slot[K, V], batch: Batch[K, V], *, once: bool) -> None:
        """Prepare a key in a batch for one more waiter."""
        batch.settled = False
        if batch.scope is not None:
            batch.wanted += not slot.waiters
        elif once:  # the next look may be far away
            slot.looks = batch.looks
            batch.lost += 1
            self._look_soon(slot)

    def leave(self, waiter: Waiter[K, V]) -> None:
        """Wait no longer; harmless when the wait is over."""
        slot = self._slots.get(waiter.key)
        if slot is None or waiter not in slot.waiters:
            return
        slot.drop(waiter)
        batch = slot.batch
        if batch is not None and waiter.least > 0:
            batch.settled = False
        if slot.waiters:
            return
        if batch is None or batch.scope is None:
            self._drop(slot)
            if batch is not None:
                batch.lost += 1
        else:
            batch.wanted -= 1
            if not batch.wanted:
                batch.scope.cancel()

    def is_watched(self, key: K) -> bool:
        """Whether somebody goes on looking at a key until something will do."""
        slot = self._slots.get(key)
        return slot is not None and any(one.until is not None for one in slot.waiters)

    def _belong_to_loop(self) -> None:
        """Forget the waiters of a loop that is gone."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            self._reset()

    # The task.

    async def _drive(self) -> None:
        try:
            while self._slots:
                async with anyio.create_task_group() as group:
                    while self._slots:
                        beat = self._beat_at(anyio.current_time())
                        for batch in self._due(beat):
                            batch.scope, batch.wanted = anyio.CancelScope(), len(batch)
                            group.start_soon(self._look, batch, beat)
                        await self._until_due()
        finally:
            self._fail_all()

    def _due(self, beat: int) -> list[Batch[K, V]]:
        """Take what is due: batches that have stayed whole as they are, other keys in new ones."""
        whole: list[Batch[K, V]] = []
        partial: list[Batch[K, V]] = []
        while self._beats and self._beats[0] <= beat:
            for batch in self._by_beat.pop(heapq.heappop(self._beats)):
                full = len(batch) == BATCH and not batch.lost
                (whole if full else partial).append(batch)
        soon = self._take_soon(due=bool(whole or partial))
        room = -(len(soon) + sum(map(len, partial))) % BATCH
        partial += self._take_early(beat, room)
        if len(partial) == 1 and not soon and not partial[0].lost:
            return whole + partial
        for batch in partial:
            soon += batch.part()
        return whole + [Batch(slots) for slots in self._groups(soon)]

    def _take_soon(self, *, due: bool) -> list[_Slot[K, V]]:
        """Take the keys whose window is over, or as many as fill requests."""
        if due or anyio.current_time() >= self._soon_at:
            soon, self._soon, self._soon_at = self._soon, [], math.inf
        else:
            full = len(self._soon) // BATCH * BATCH
            soon, self._soon = self._soon[:full], self._soon[full:]
        return [slot for slot in soon if slot.waiters]

    def _take_early(self, beat: int, room: int) -> list[Batch[K, V]]:
        """Take batches that are due soon into a request that has room: it saves them their own."""
        taken: list[Batch[K, V]] = []
        for due in sorted(self._beats):
            if not room or due > beat + _EARLY:
                break
            left: list[Batch[K, V]] = []
            for batch in self._by_beat[due]:
                fits = len(batch) <= room
                (taken if fits else left).append(batch)
                room -= len(batch) if fits else 0
            self._by_beat[due] = left
        return taken

    def _groups(self, slots: list[_Slot[K, V]]) -> Iterator[list[_Slot[K, V]]]:
        lane = self._lanes() if slots else None
        if lane is None:
            lanes: dict[Hashable, list[_Slot[K, V]]] = {None: slots}
        else:
            lanes = defaultdict(list)
            for slot in slots:
                lanes[lane(slot.key)].append(slot)
        for members in lanes.values():
            for start in range(0, len(members), BATCH):
                yield members[start : start + BATCH]

    async def _until_due(self) -> None:
        beat = self._moment_of(self._beats[0]) if self._beats else math.inf
        soon = -math.inf if len(self._soon) >= BATCH else self._soon_at
        self._wakes_at = min(beat, soon)
        if self._wakes_at > anyio.current_time():
            with anyio.move_on_at(self._wakes_at):
                await self._changed.wait()
        self._changed.clear()
        self._wakes_at = -math.inf  # awake: nobody has to wake it

    async def _look(self, batch: Batch[K, V], beat: int) -> None:
        self.batches += 1
        self.keys += len(batch)
        self.most_keys = max(self.most_keys, len(batch))
        assert batch.scope is not None
        found: Mapping[K, Answer[V]] = {}
        with batch.scope as scope:
            try:
                found = await self._fetch(batch)
            except Exception as error:  # handed to everybody who waits for it
                found = dict.fromkeys(batch, error)
        batch.scope = None
        if scope.cancelled_caught:
            found = dict.fromkeys(batch, AGAIN)
        late = max(beat, self._beat_at(anyio.current_time()))
        if found is batch.found and batch.settled and batch.wanted == len(batch):
            batch.looks = min(batch.looks + 1, len(_PAUSES))
            self._line_up(batch, beat, late)
        else:
            self._answered(batch, beat, late, found)

    def _answered(
        self, batch: Batch[K, V], beat: int, late: int, found: Mapping[K, Answer[V]]
    ) -> None:
        """Tell the waiters; line up again the keys that are still waited for."""
        alike: defaultdict[tuple[int, int], list[_Slot[K, V]]] = defaultdict(list)
        for slot in batch.slots:
            answer = found.get(slot.key)
            # That all who wait go on waiting is the most frequent case by far.
            until = slot.until
            goes_on = until is not None and not isinstance(answer, NO_VALUE) and not until(answer)
            if goes_on or self._tell(slot, answer):
                slot.looks = min((batch.looks or slot.looks) + 1, len(_PAUSES))
                alike[slot.looks, slot.wish].append(slot)
        for (looks, wish), slots in alike.items():
            whole = len(slots) == len(batch)
            again = batch if whole else Batch(slots)
            again.looks, again.wish = looks, wish
            again.found, again.settled = (found, True) if whole else (None, False)
            self._line_up(again, beat, late)

    def _tell(self, slot: _Slot[K, V], answer: Answer[V] | None) -> bool:
        """Tell each waiter of a key; say whether it goes on being looked at beat by beat."""
        if answer is None:
            answer = LookupError(f"{slot.key} was left out of the answer")
        if answer is not AGAIN:
            for waiter in [waiter for waiter in slot.waiters if waiter.takes(answer)]:
                slot.drop(waiter)
        if not slot.waiters:
            self._drop(slot)
        elif answer is AGAIN:
            self._look_soon(slot)
        else:
            return True
        return False

    # When keys are due.

    def _look_soon(self, slot: _Slot[K, V]) -> None:
        slot.batch = None
        if not self._soon:
            self._soon_at = anyio.current_time() + _WINDOW
        self._soon.append(slot)
        full = len(self._soon) >= BATCH
        self._wake(-math.inf if full else self._soon_at)

    def _line_up(self, batch: Batch[K, V], beat: int, late: int) -> None:
        """Find the next beat for a batch that was asked for on one and answered on a later one."""
        pause = _PAUSES[batch.looks - 1]
        due = beat + batch.wish if batch.wish else (beat // pause + 1) * pause
        if due <= late:
            due = (late // pause + 1) * pause
        line = self._by_beat.get(due)
        if line is None:
            line = self._by_beat[due] = []
            heapq.heappush(self._beats, due)
            self._wake(self._moment_of(due))
        line.append(batch)

    def _beat_at(self, moment: float) -> int:
        # A thousandth of a beat early: a clock that wakes a little too soon still counts.
        return math.floor((moment + self._phase) / _BEAT + 0.001)

    def _moment_of(self, beat: int) -> float:
        return beat * _BEAT - self._phase

    def _wake(self, moment: float) -> None:
        if moment < self._wakes_at:
            self._changed.set()

    def _drop(self, slot: _Slot[K, V]) -> None:
        del self._slots[slot.key]
        if not self._slots:
            self._changed.set()

    def _fail_all(self) -> None:
        """End the waits that are left when the task is cancelled: the client is closed."""
        for slot in list(self._slots.values()):
            for waiter in list(slot.waiters):
                waiter.takes(_closed())
        self._slots.clear()


def _closed() -> PrimeError:
    return APIConnectionError(
        "the client was closed while this call was under way",
        hint="close a client when its calls have ended",
    )
