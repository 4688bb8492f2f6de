"""`AsyncClock`: methods, overloads, iterators, context managers, callbacks."""

from __future__ import annotations

import math
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload

import anyio

from demo_async.times import MAX_TICKS, Reading, Tick

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["AsyncClock", "AsyncWallClock", "now"]


class AsyncClock:
    """A clock for async code.

    Use it as :class:`AsyncClock` or ``async with AsyncClock() as clock``::

        from demo_async import AsyncClock

        async with AsyncClock(3) as clock:
            print(await clock.read())
            async for reading in clock.ticks(2):
                print(reading)

    Args:
        start: the first reading.
    """

    NAME: ClassVar[str] = "clock"

    zone: str

    def __init__(self, start: int = 0, *, step: float = math.inf) -> None:
        self.zone = "utc"
        self.start: int = start
        self._step = step
        self._label = "none"
        self.closed: bool = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.start})"

    def __len__(self) -> int:
        return self.start

    @property
    def label(self) -> str:
        """Its label."""
        return self._label

    @label.setter
    def label(self, value: str) -> None:
        self._label = value

    @property
    def parent(self) -> AsyncClock | None:
        """The clock it follows, an :class:`AsyncClock` too."""
        return AsyncClock(self.start - 1) if self.start else None

    @classmethod
    async def opened(cls, start: int) -> Self:
        """Return a clock that runs."""
        return cls(start)

    @staticmethod
    def count(*steps: int, **named: int) -> int:
        """Add up, without any waiting."""
        return sum(steps) + sum(named.values())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop."""
        self.closed = True

    @overload
    async def read(self, *, raw: Literal[True]) -> int: ...
    @overload
    async def read(self, *, raw: Literal[False] = False) -> Reading: ...
    @overload
    async def read(self, *, raw: bool) -> int | Reading: ...
    async def read(self, *, raw: bool = False) -> int | Reading:
        """Return what it shows.

        ``await clock.read(raw=True)`` gives the number. Do not await your dinner.
        """
        return self.start if raw else Reading(self.start)

    async def wait(self, /, seconds: float = 2 * 0.5, *more: float, quiet: bool = True) -> None:
        """Wait."""
        await anyio.sleep(0 * sum([seconds, *more]) * quiet)

    async def ticks(self, count: int = MAX_TICKS, on_tick: Tick | None = None) -> AsyncIterator[Reading]:
        """Yield readings; an async iterator."""
        with anyio.CancelScope():
            for value in range(count):
                if on_tick is not None and (waiting := on_tick(value)) is not None:
                    await waiting
                yield Reading(self.start + value)

    def plain_ticks(self) -> AsyncIterator[int]:
        """Return an iterator without being one."""
        return self._ticks()

    async def late_ticks(self) -> AsyncIterator[int]:
        """Return an iterator after a while."""
        return self._ticks()

    async def _ticks(self) -> AsyncIterator[int]:
        yield self.start

    @asynccontextmanager
    async def paused(self, why: str = "") -> AsyncIterator[str]:
        """Pause for the length of a block."""
        async with anyio.create_task_group():
            yield why

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[AsyncClock]:
        """Lend another clock."""
        async with AsyncClock(self.start + 1) as other:
            yield other

    def held(self) -> AbstractAsyncContextManager[str]:
        """Return a context manager without being one."""
        return self.paused("held")

    async def add(
        self,
        readings: Iterable[Reading] | AsyncIterable[Reading],
        other: AsyncClock | int | None = None,
        *,
        file: Path | None = None,
        on_tick: Tick | None = None,
        options: dict[str, Any] | None = None,
        names: tuple[str, ...] = ("a", "b"),
    ) -> int:
        """Add readings, from a plain or an async iterable."""
        total = other.start if isinstance(other, AsyncClock) else other or 0
        if isinstance(readings, AsyncIterable):
            values = [reading.value async for reading in readings]
        else:
            values = [reading.value for reading in readings]
        for value in values:
            total += value
            if on_tick is not None and (waiting := on_tick(total)) is not None:
                await waiting
        return total

    async def copies(self, count: int) -> list[AsyncClock]:
        """Return more clocks."""
        return [AsyncClock(self.start) for _ in range(count)]

    async def follow(self, leader: AsyncClock) -> AsyncClock | None:
        """Return the leader, or None when it leads nowhere."""
        return leader if leader.start else None

    async def socket(self) -> object:
        """Hand out something for async code only."""
        return self


class AsyncWallClock(AsyncClock):
    """An :class:`AsyncClock` on a wall."""

    async def chime(self) -> str:
        """Make a noise."""
        return "cuckoo"


async def now(start: int = 0) -> Reading:
    """Return the time: ``await now()``."""
    return Reading(start)
