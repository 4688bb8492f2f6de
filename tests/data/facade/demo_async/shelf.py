"""`AsyncShelf`: resources that are clients themselves, in a module of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator

from demo_async.clocks import AsyncClock

__all__ = ["AsyncShelf"]


class AsyncShelf:
    """Holds a clock."""

    def __init__(self, clock: AsyncClock | str | None = None) -> None:
        self._clock = clock if isinstance(clock, AsyncClock) else AsyncClock(len(clock or ""))

    @property
    def clock(self) -> AsyncClock:
        """The clock on it."""
        return self._clock

    def __aiter__(self) -> AsyncIterator[int]:
        return self._clock.plain_ticks()
