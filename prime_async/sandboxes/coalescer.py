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
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import anyio

from prime_async.errors import APIConnectionError, PrimeError
from prime_async.sandboxes.background import Background

__all__ = ["AGAIN", "BATCH", "Answer", "Coalescer", "Later", "Waiter"]

BATCH = 100
"""Keys in one request."""

_WINDOW = 0.025
_BEAT = 0.1
_PAUSES = (1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 48)
"""Beats between the looks at one key; each divides those that follow, so that their beats meet."""

_EARLY = 2
"""Beats that a key may be looked at before its time, where a request has room."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing could be found out this time: who watches goes on, who asked once gets the error."""

    error: Exception


class _Again:
    """The key belongs into another lane: look at it there, at once."""


AGAIN = _Again()

_NO_VALUE = (Later, Exception, _Again, type(None))

Answer: TypeAlias = V | Exception | Later | _Again
"""What is found for one key."""

Fetch: TypeAlias = Callable[[list[K]], Awaitable[Mapping[K, Answer[V]]]]


class Waiter(Generic[K, V]):
    """Somebody who waits for a key; made by :meth:`Coalescer.subscribe`.

    Attributes:
        key: what is waited for.
        done: whether there is a result.
    """

    __slots__ = ("_error", "_told", "_value", "done", "key", "least", "until")

    def __init__(
        self,
        key: K,
        until: Callable[[V], bool] | None,
        least: float,
        told: Callable[[Waiter[K, V]], None],
    ) -> None:
        self.key = key
        self.until = until
        self.least = least
        self.done = False
        self._told = told
        self._value: V | None = None
        self._error: Exception | None = None

    def result(self) -> V:
        """Return the value that was found; raises the error in its place."""
        if self._error is not None:
            raise self._error
        assert self._value is not None
        return self._value

    def takes(self, answer: Answer[V]) -> bool:
        """Take an answer if it ends the wait."""
        if isinstance(answer, Later):
            if self.until is not None:
                return False
            self._error = answer.error
        elif isinstance(answer, Exception):
            self._error = answer
        elif isinstance(answer, _Again) or not (self.until is None or self.until(answer)):
            return False
        else:
            self._value = answer
        self.done = True
        self._told(self)
        return True


class _Slot(Generic[K, V]):
    """What the waiters of one key share."""

    __slots__ = ("due", "flight", "key", "looks", "patient", "until", "waiters")

    def __init__(self, key: K) -> None:
        self.key = key
        self.looks = 0
        self.patient = 0  # waiters that want a pause of their own
        self.until: Callable[[V], bool] | None = None  # what all wait for, if it is the same
        self.due: int | None = None
        self.waiters: dict[Waiter[K, V], None] = {}
        self.flight: _Flight | None = None

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
        if self.patient < len(self.waiters):
            return 0
        return max(1, math.ceil(min(waiter.least for waiter in self.waiters) / _BEAT))


class _Line(Generic[K, V]):
    """The keys that are due on one beat."""

    __slots__ = ("beat", "slots")

    def __init__(self, beat: int) -> None:
        self.beat = beat
        self.slots: list[_Slot[K, V]] = []


class _Flight:
    """One request under way; it is given up when nobody waits for any of its keys."""

    __slots__ = ("beat", "scope", "wanted")

    def __init__(self, wanted: int, beat: int) -> None:
        self.wanted = wanted
        self.beat = beat
        self.scope = anyio.CancelScope()


class Coalescer(Generic[K, V]):
    """Fetches keys together, several requests at a time.

    Its one task runs while anybody waits; it is owned by ``background``.

    Args:
        fetch: takes at most 100 keys of one lane and returns, per key, a value, the error for it,
            or :class:`Later`; an exception it raises is everybody's.
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
        self._by_beat: dict[int, _Line[K, V]] = {}
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
        elif slot.flight is not None and not slot.waiters:
            slot.flight.wanted += 1
        elif slot.flight is None and slot.looks and until is None:
            self._look_soon(slot)  # watched, and its next look may be far away
        slot.add(waiter)
        self._background.run(self._name, self._drive)
        return waiter

    def leave(self, waiter: Waiter[K, V]) -> None:
        """Wait no longer; harmless when the wait is over."""
        slot = self._slots.get(waiter.key)
        if slot is None or waiter not in slot.waiters:
            return
        slot.drop(waiter)
        if slot.waiters:
            return
        if slot.flight is None:
            self._drop(slot)
        else:
            slot.flight.wanted -= 1
            if not slot.flight.wanted:
                slot.flight.scope.cancel()

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
                        for flight, slots in self._due():
                            group.start_soon(self._look, flight, slots)
                        await self._until_due()
        finally:
            self._fail_all()

    def _due(self) -> Iterator[tuple[_Flight, list[_Slot[K, V]]]]:
        """Take the keys that are due, in groups for one request each."""
        now = anyio.current_time()
        beat = self._beat_at(now)
        slots: dict[_Slot[K, V], None] = {}
        while self._beats and self._beats[0] <= beat:
            self._take(slots, self._beats[0])
        if slots or now >= self._soon_at:
            soon, self._soon, self._soon_at = self._soon, [], math.inf
        else:  # full requests need not wait for more keys
            full = len(self._soon) // BATCH * BATCH
            soon, self._soon = self._soon[:full], self._soon[full:]
        slots.update((slot, None) for slot in soon if slot.waiters and slot.flight is None)
        # A request that has room takes keys that are due soon: it saves them one of their own.
        while -len(slots) % BATCH and self._beats and self._beats[0] <= beat + _EARLY:
            self._take(slots, self._beats[0], -len(slots) % BATCH)
        for group in self._groups(list(slots)):
            flight = _Flight(len(group), beat)
            for slot in group:
                slot.flight, slot.due = flight, None
            yield flight, group

    def _take(self, slots: dict[_Slot[K, V], None], beat: int, most: int | None = None) -> None:
        """Take the keys of the next beat, or some of them."""
        there = self._by_beat[beat].slots
        due = [slot for slot in there[:most] if slot.due == beat and slot.waiters]
        slots.update(dict.fromkeys(due))
        del there[:most]
        if not there:
            del self._by_beat[heapq.heappop(self._beats)]

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

    async def _look(self, flight: _Flight, slots: list[_Slot[K, V]]) -> None:
        self.batches += 1
        self.keys += len(slots)
        self.most_keys = max(self.most_keys, len(slots))
        found: Mapping[K, Answer[V]] = {}
        with flight.scope:
            try:
                found = await self._fetch([slot.key for slot in slots])
            except Exception as error:  # handed to everybody who waits for it
                found = dict.fromkeys((slot.key for slot in slots), error)
        if flight.scope.cancelled_caught:
            found = dict.fromkeys((slot.key for slot in slots), AGAIN)
        self._answered(flight, slots, found)

    def _answered(
        self, flight: _Flight, slots: list[_Slot[K, V]], found: Mapping[K, Answer[V]]
    ) -> None:
        """Tell the waiters; line up again the keys that are still waited for."""
        late = max(flight.beat, self._beat_at(anyio.current_time()))
        lines: dict[int, _Line[K, V]] = {}
        for slot in slots:
            slot.flight = None
            answer = found.get(slot.key)
            # That all who wait go on waiting is the most frequent case by far.
            until = slot.until
            goes_on = until is not None and not isinstance(answer, _NO_VALUE) and not until(answer)
            if not goes_on and not self._tell(slot, answer):
                continue
            looks = slot.looks = slot.looks + 1
            line = lines.get(looks)
            if line is None or slot.patient:
                line = self._line_after(flight.beat, late, slot)
                if not slot.patient:
                    lines[looks] = line
            slot.due = line.beat
            line.slots.append(slot)

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
        if not self._soon:
            self._soon_at = anyio.current_time() + _WINDOW
        self._soon.append(slot)
        full = len(self._soon) >= BATCH
        self._wake(-math.inf if full else self._soon_at)

    def _line_after(self, beat: int, late: int, slot: _Slot[K, V]) -> _Line[K, V]:
        """Find the beat for a key that was looked at on one beat and answered on a later one."""
        pause = _PAUSES[min(slot.looks, len(_PAUSES)) - 1]
        due = (beat // pause + 1) * pause
        if slot.patient and (wish := slot.wish):
            due = beat + wish
        if due <= late:
            due = (late // pause + 1) * pause
        line = self._by_beat.get(due)
        if line is None:
            line = self._by_beat[due] = _Line(due)
            heapq.heappush(self._beats, due)
            self._wake(self._moment_of(due))
        return line

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
