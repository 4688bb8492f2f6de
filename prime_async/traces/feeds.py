"""Feeds: batches out of a source of lines or records, built off the event loop, one at a time.

A plain iterable is read in a thread of its own, because its ``next()`` may block; an asynchronous
one in a task. Either builds one batch and waits until that is taken, so that an upload never holds
more than the batches on their way and one besides. A source that is given up is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from prime_async.cancelling import is_cancelled
from prime_async.traces.batches import Batch, Draft

__all__ = ["CLOSING_SECONDS", "AsyncFeed", "Feed", "Taker", "ThreadFeed", "close_source", "feed_of"]

CLOSING_SECONDS = 5.0
"""Seconds a source has for its own clean-up; an upload ends even if that hangs."""

_TURN_SECONDS = 0.002


class Taker(Protocol):
    """Makes batches of what a feed reads."""

    def take(self, item: Any) -> Draft | None:
        """Take the next item; return the batch that it closes, if it does."""
        ...

    def finish(self) -> Draft | None:
        """Return the batch that is open at the end, or None."""
        ...


class Feed(Protocol):
    """Gives the batches of one source, in order."""

    def start(self, group: TaskGroup) -> None:
        """Begin to read."""
        ...

    async def next_batch(self) -> Batch | None:
        """Return the next batch, None at the end.

        Raises:
            Exception: whatever the source raised, after everything before it was handed over.
        """
        ...

    def stop(self) -> None:
        """Read no more; the group waits until the source is closed."""
        ...


class _Handover:
    """The place between the reader and the upload: empty, or one batch."""

    def __init__(self, intake: Taker) -> None:
        self._intake = intake
        self._batch: Batch | None = None
        self._news = asyncio.Event()
        self._ended = False
        self._error: BaseException | None = None

    async def next_batch(self) -> Batch | None:
        """See :class:`Feed`."""
        while True:
            self._news.clear()
            if self._batch is not None:
                batch, self._batch = self._batch, None
                self._taken()
                return batch
            if self._ended:
                if self._error is not None:
                    raise self._error
                return None
            await self._news.wait()

    def _taken(self) -> None:
        raise NotImplementedError


class ThreadFeed(_Handover):
    """Reads a plain iterable in a thread."""

    def __init__(self, items: Callable[[], Iterable[Any]], intake: Taker) -> None:
        super().__init__(intake)
        self._items = items
        self._loop = asyncio.get_running_loop()
        self._room = threading.Condition()
        self._stopped = False
        self._done = asyncio.Event()
        # A daemon, not a pool worker: next() of a stuck source cannot be interrupted and must not
        # hold up the exit.
        context = contextvars.copy_context()  # the source sees the variables of its caller
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name="prime-async upload source", daemon=True
        )

    def start(self, group: TaskGroup) -> None:
        """See :class:`Feed`."""
        self.begin()
        group.start_soon(self._watch, name="prime-async upload source")

    def begin(self) -> None:
        """Begin to read without a group; :meth:`finished` must be awaited then."""
        self._thread.start()

    def stop(self) -> None:
        """See :class:`Feed`."""
        with self._room:
            self._stopped = True
            self._room.notify_all()

    async def finished(self) -> None:
        """Stop, and wait a while until the thread has closed the source."""
        self.stop()
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            await self._done.wait()

    async def _watch(self) -> None:
        """Hold the group open until the source is closed, however the upload ends."""
        try:
            await self._done.wait()
        finally:
            await self.finished()

    def _run(self) -> None:
        iterator: Iterator[Any] | None = None
        try:
            iterator = iter(self._items())
            over = time.perf_counter() + _TURN_SECONDS
            for item in iterator:
                if self._stopped or not self._offer(self._intake.take(item)):
                    break
                if time.perf_counter() >= over:
                    time.sleep(0)  # lets the event loop have the interpreter
                    over = time.perf_counter() + _TURN_SECONDS
            else:
                iterator = None
                self._offer(self._intake.finish())
        except BaseException as error:  # handed to the upload, which raises it in the caller's task
            self._error = error
        finally:
            self._close(iterator)
            self._ended = True
            self._tell(self._done, self._news)

    def _offer(self, draft: Draft | None) -> bool:
        """Hand a batch over and wait until it is taken; False when the upload wants no more."""
        if draft is None:
            return True
        batch = draft.sealed()
        with self._room:
            self._batch = batch
            del batch, draft
            self._tell(self._news)
            while self._batch is not None and not self._stopped:
                self._room.wait()
            return not self._stopped

    def _close(self, iterator: object) -> None:
        if callable(close := getattr(iterator, "close", None)):
            try:
                close()
            except BaseException as error:  # the source's own fault; the first one counts
                self._error = self._error or error

    def _tell(self, *events: asyncio.Event) -> None:
        with contextlib.suppress(RuntimeError):  # the loop ended without waiting: nobody listens
            for event in events:
                self._loop.call_soon_threadsafe(event.set)

    def _taken(self) -> None:
        with self._room:
            self._room.notify_all()


class AsyncFeed(_Handover):
    """Reads an asynchronous iterable in a task.

    The source may hold task groups and cancel scopes open between its items, which must be left in
    the order they were entered. So this opens none inside them: it is shielded as a whole, and
    :meth:`stop` interrupts a wait for an item once, as ``task.cancel()`` does.
    """

    def __init__(self, items: AsyncIterable[Any], intake: Taker) -> None:
        super().__init__(intake)
        self._items = items
        self._scope = anyio.CancelScope(shield=True)
        self._free = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        self._stopped = False

    def start(self, group: TaskGroup) -> None:
        """See :class:`Feed`."""
        group.start_soon(self._run, name="prime-async upload source")

    def stop(self) -> None:
        """See :class:`Feed`."""
        if self._stopped or self._ended:
            return
        self._stopped = True
        self._scope.deadline = anyio.current_time() + CLOSING_SECONDS
        self._free.set()
        if self._task is not None:  # it waits for an item
            self._task.cancel()

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._read()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if not is_cancelled():
                self._error = error  # the source's own
            elif not self._stopped or task is None:
                raise
            else:
                task.uncancel()  # it was this feed's own, from stop()
        except BaseException as error:  # handed to the upload, which raises it in the caller's task
            self._error = error
        finally:
            self._ended = True
            self._news.set()

    async def _read(self) -> None:
        iterator = aiter(self._items)
        over = time.perf_counter() + _TURN_SECONDS
        try:
            while not self._stopped:
                try:
                    item = await self._next(iterator)
                except StopAsyncIteration:
                    await self._offer(self._intake.finish())
                    return
                await self._offer(self._intake.take(item))
                if time.perf_counter() >= over:
                    await asyncio.sleep(0)
                    over = time.perf_counter() + _TURN_SECONDS
        finally:
            await close_source(iterator)

    async def _next(self, iterator: AsyncIterator[Any]) -> Any:
        self._task = asyncio.current_task()
        try:
            return await anext(iterator)
        finally:
            self._task = None

    async def _offer(self, draft: Draft | None) -> None:
        """Hand a batch over and wait until it is taken, or the upload wants no more."""
        if draft is None:
            return
        self._batch = await anyio.to_thread.run_sync(draft.sealed)
        del draft
        self._news.set()
        while self._batch is not None and not self._stopped:
            self._free.clear()
            await self._free.wait()

    def _taken(self) -> None:
        self._free.set()


async def close_source(iterator: object) -> None:
    """Close an asynchronous source, if it can be; its clean-up may be a coroutine or a future."""
    if callable(close := getattr(iterator, "aclose", None)):
        closing = close()
        if isinstance(closing, Awaitable):
            await closing


def feed_of(items: Iterable[Any] | AsyncIterable[Any], intake: Taker) -> Feed:
    """Return the feed for a source."""
    if isinstance(items, AsyncIterable):
        return AsyncFeed(items, intake)
    return ThreadFeed(lambda: items, intake)
