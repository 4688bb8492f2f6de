"""Going through pages: the next one is fetched while the second half of this one is worked on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Generic, Protocol, TypeVar

from prime_async.requests import PageClock

__all__ = ["Page", "through_pages"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Page(Protocol[T_co]):
    """A page of a list; one without items may have a next page all the same."""

    @property
    def items(self) -> Sequence[T_co]: ...

    @property
    def next_cursor(self) -> str | None: ...


Fetch = Callable[[str | None, float], Coroutine[Any, Any, Page[T]]]
"""Fetches the page at a cursor, within the given seconds."""


async def through_pages(
    fetch: Fetch[T], cursor: str | None, timeout: float | None
) -> AsyncIterator[T]:
    """Yield the items of all pages, in order.

    Args:
        fetch: fetches a page.
        cursor: where to begin; None is the first page.
        timeout: seconds for all of it; default a day, and 60 for each page.
    """
    clock, ahead = PageClock(timeout), _Ahead[T]()
    try:
        page = await fetch(cursor, clock.next())
        while True:
            following = page.next_cursor
            for place, item in enumerate(page.items):
                # Not before half of it: whoever looks at the first few items asks for no more.
                if place == len(page.items) // 2 and following is not None:
                    ahead.begin(fetch(following, clock.next()))
                yield item
            if following is None:
                return
            page = await (ahead.take() if page.items else fetch(following, clock.next()))
    finally:
        await ahead.aclose()


class _Ahead(Generic[T]):
    """Owns the one request for the next page; it ends with :meth:`aclose`."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Page[T]] | None = None

    def begin(self, fetching: Coroutine[Any, Any, Page[T]]) -> None:
        """Fetch a page beside the caller."""
        self._task = asyncio.get_running_loop().create_task(fetching, name="prime-async next page")

    async def take(self) -> Page[T]:
        """Wait for that page."""
        assert self._task is not None
        task, self._task = self._task, None
        return await task

    async def aclose(self) -> None:
        """Cancel what is under way, and wait until it has ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            if not self._task.cancelled():
                self._task.exception()  # looked at: nobody else will
