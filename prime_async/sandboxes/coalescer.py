"""Many waiters, few requests: keys asked for at about the same time travel together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Generic, TypeVar

import anyio

__all__ = ["BATCH", "Coalescer"]

BATCH = 100
"""Keys in one request."""

_WINDOW = 0.025

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Slot(Generic[V]):
    """What the waiters of one key share."""

    __slots__ = ("error", "taken", "value", "waiters", "wake")

    def __init__(self) -> None:
        self.waiters = 0
        self.taken = False
        self.value: V | None = None
        self.error: Exception | None = None
        self.wake = anyio.Event()

    @property
    def done(self) -> bool:
        return self.error is not None or self.value is not None


class Coalescer(Generic[K, V]):
    """Collects keys for a moment and fetches them together, several requests at a time.

    No task of its own: one of the waiters fetches for a batch, and when it is cancelled another
    one takes over.

    Args:
        fetch: takes at most 100 keys and returns, per key, a value or the error for it; an
            exception it raises is everybody's.
    """

    def __init__(self, fetch: Callable[[list[K]], Awaitable[Mapping[K, V | Exception]]]) -> None:
        self._fetch = fetch
        self._slots: dict[K, _Slot[V]] = {}
        self._collecting = False

    async def get(self, key: K) -> V:
        """Return the value of a key; raises the error for it."""
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = _Slot()
        slot.waiters += 1
        try:
            while not slot.done:
                if slot.taken or self._collecting:
                    await slot.wake.wait()
                else:
                    await self._lead()
        finally:
            slot.waiters -= 1
            if not slot.waiters and not slot.taken and self._slots.get(key) is slot:
                del self._slots[key]
        if slot.error is not None:
            raise slot.error
        assert slot.value is not None
        return slot.value

    async def _lead(self) -> None:
        self._collecting = True
        batch: dict[K, _Slot[V]] = {}
        try:
            if len(self._waiting()) < BATCH:
                await anyio.sleep(_WINDOW)
            batch = dict(self._waiting()[:BATCH])
            for slot in batch.values():
                slot.taken = True
        finally:
            self._collecting = False
            self._pass_on()
        await self._run(batch)

    async def _run(self, batch: dict[K, _Slot[V]]) -> None:
        found: Mapping[K, V | Exception]
        try:
            found = await self._fetch(list(batch))
        except Exception as error:  # handed to everybody who waits for it
            found = dict.fromkeys(batch, error)
        except BaseException:  # cancelled: others go on
            self._put_back(batch)
            raise
        for key, slot in batch.items():
            answer = found.get(key) or LookupError(f"{key} was left out of the answer")
            if isinstance(answer, Exception):
                slot.error = answer
            else:
                slot.value = answer
            del self._slots[key]
            self._wake(slot)

    def _put_back(self, batch: dict[K, _Slot[V]]) -> None:
        for key, slot in batch.items():
            slot.taken = False
            if not slot.waiters:
                del self._slots[key]
        if not self._collecting:
            self._pass_on()

    def _waiting(self) -> list[tuple[K, _Slot[V]]]:
        return [(key, slot) for key, slot in self._slots.items() if not slot.taken]

    def _pass_on(self) -> None:
        """Let the next waiter lead, if there is one."""
        for _, slot in self._waiting():
            self._wake(slot)
            return

    @staticmethod
    def _wake(slot: _Slot[V]) -> None:
        slot.wake.set()
        slot.wake = anyio.Event()
