"""Work that the loop hands to the thread that waits for a call: callbacks, iterators of the user.

A user's code may block, use thread-locals or call a sync client. On the loop thread that would stop
every client; in the calling thread it runs as if there were no loop at all.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from typing import Any, ParamSpec, TypeVar, cast, overload

from prime_async.errors import WrongLoopError

__all__ = ["Mailbox"]

# One hand-over of a user's iterator: at most so many items, and ended after so long, because the
# first items of a slow source are worth sending now.
_FEED_ITEMS = 32
_FEED_SECONDS = 0.005

_AT_REST = (AsyncIterable, Sequence, Mapping, Set, os.PathLike)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Mailbox:
    """The jobs of one call, run in order by the thread that waits for it."""

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()
        self._closed = False
        self._pid = os.getpid()
        self.wake: Callable[[], None] = _nobody

    @overload
    def run_callback(self, fn: None) -> None: ...
    @overload
    def run_callback(self, fn: Callable[P, R]) -> Callable[P, Any]: ...
    def run_callback(self, fn: Callable[P, R] | None) -> Callable[P, Any] | None:
        """Return what the async core may call in place of ``fn``, to await the result or not.

        An error in ``fn`` ends the call and is raised from it.
        """
        if fn is None:
            return None

        def post(*args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
            return self._post(lambda: fn(*args, **kwargs))

        return post

    def feed(self, source: T) -> T:
        """Return what the async core may read in place of ``source``.

        An iterator becomes an async iterator. What can be read without running the user's code
        (a list, a path) and what is asynchronous already stays as it is.
        """
        if not isinstance(source, Iterable) or isinstance(source, _AT_REST):
            return source
        return cast("T", self._pull(source))

    def run_pending(self) -> None:
        """Run what was posted, in the calling thread.

        Raises:
            WrongLoopError: a job called ``fork()``, and this is the child.
        """
        while self._jobs:
            self._jobs.popleft()()
            if os.getpid() != self._pid:
                raise WrongLoopError("the call behind this callback goes on in the parent process")

    def close(self) -> None:
        """Nobody waits any more: what is posted from now on is cancelled."""
        self._closed = True
        self._jobs.clear()

    def _post(self, job: Callable[[], R]) -> asyncio.Future[R]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[R] = loop.create_future()
        if self._closed:
            answer.cancel()
        else:
            self._jobs.append(lambda: _answer(loop, answer, job()))
            self.wake()
        return answer

    async def _pull(self, source: Iterable[T]) -> AsyncIterator[T]:
        iterator: Iterator[T] | None = None

        def take() -> tuple[list[T], Exception | None]:
            nonlocal iterator
            iterator = iterator or iter(source)
            return _take(iterator)

        error: Exception | None = None
        while error is None:
            items, error = await self._post(take)
            if not items:
                break
            for item in items:
                yield item
        if error is not None:
            raise error


def _take(iterator: Iterator[T]) -> tuple[list[T], Exception | None]:
    """Read the items of one hand-over; an error comes after the items before it."""
    items: list[T] = []
    deadline = time.monotonic() + _FEED_SECONDS
    try:
        for item in iterator:
            items.append(item)
            if len(items) >= _FEED_ITEMS or time.monotonic() >= deadline:
                break
    except Exception as error:  # for the reader, on the loop, to raise
        return items, error
    return items, None


def _answer(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[R], value: R) -> None:
    loop.call_soon_threadsafe(_settle, answer, value)


def _settle(answer: asyncio.Future[R], value: R) -> None:
    if not answer.done():  # the call was cancelled while the job ran
        answer.set_result(value)


def _nobody() -> None:
    """No call waits now: the jobs stay until one does."""
