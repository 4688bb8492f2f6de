"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio


class FakeClock:
    """``now`` moves by ``advance`` only; sleepers wake when their time has come."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._sleepers: list[tuple[float, asyncio.Event]] = []
        self._asleep = asyncio.Event()

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self._now + seconds, woken))
        self._asleep.set()
        await woken.wait()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
        due = [one for one in self._sleepers if one[0] <= self._now]
        self._sleepers = [one for one in self._sleepers if one[0] > self._now]
        if not self._sleepers:
            self._asleep.clear()
        for _, woken in due:
            woken.set()

    async def slept(self) -> None:
        """Wait until somebody sleeps on this clock."""
        await self._asleep.wait()
