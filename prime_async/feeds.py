"""Reads a source ahead of who uses it: a plain iterable in a thread of its own, because its
``next()`` may block, an asynchronous one in a task.

What becomes of the items is said by the classes made of these: they take one at a time, and wait
where there is no room for more. A source that is given up is closed where it was read.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any

import anyio
from anyio.abc import TaskGroup

from prime_async.cancelling import is_cancelled

__all__ = ["CLOSING_SECONDS", "Reader", "TaskReader", "ThreadReader", "close_source"]

CLOSING_SECONDS = 5.0
"""Seconds a source has for its own clean-up; its user ends even if that hangs."""

_TURN_SECONDS = 0.002


class Reader:
    """What both ways of reading tell.

    Attributes:
        news: set when an item was taken, and at the end; whoever waits for it clears it.
        ended: no more items come.
        error: what the source raised, if it did.
        stopped: no more items are wanted.
    """

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.ended = False
        self.error: BaseException | None = None
        self.stopped = False


class ThreadReader(Reader):
    """Reads a plain iterable in a thread.

    Args:
        items: gives the iterable; called in the thread.
        name: of the thread.

    Attributes:
        room: guards what the thread and the loop share, and is notified when there is room.
    """

    def __init__(self, items: Callable[[], Iterable[Any]], name: str) -> None:
        super().__init__()
        self._items = items
        self._loop = asyncio.get_running_loop()
        self._done = asyncio.Event()
        self.room = threading.Condition()
        # A daemon, not a pool worker: next() of a stuck source cannot be interrupted and must not
        # hold up the exit.
        context = contextvars.copy_context()  # the source sees the variables of its caller
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name=name, daemon=True
        )

    def take(self, item: Any) -> bool:
        """Take an item, in the thread; return whether more are wanted."""
        raise NotImplementedError

    def finish(self) -> None:
        """The source is at its end; in the thread."""

    def start(self, group: TaskGroup) -> None:
        """Begin to read; the group waits until the source is closed."""
        self.begin()
        group.start_soon(self._watch, name=self._thread.name)

    def begin(self) -> None:
        """Begin to read without a group."""
        self._thread.start()

    def stop(self) -> None:
        """Read no more."""
        with self.room:
            self.stopped = True
            self.room.notify_all()

    async def finished(self) -> None:
        """Stop, and wait a while until the thread has closed the source."""
        self.stop()
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            await self._done.wait()

    def tell(self) -> None:
        """Set :attr:`news` from the thread."""
        self._set(self.news)

    async def _watch(self) -> None:
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
                # Taken also when nothing more is wanted: it cannot be had from the source again.
                if not self.take(item) or self.stopped:
                    break
                if time.perf_counter() >= over:
                    time.sleep(0)  # lets the event loop have the interpreter
                    over = time.perf_counter() + _TURN_SECONDS
            else:
                iterator = None
                self.finish()
        except BaseException as error:  # handed to the user, who raises it in the caller's task
            self.error = error
        finally:
            self._close(iterator)
            self.ended = True
            self._set(self._done, self.news)

    def _close(self, iterator: object) -> None:
        if callable(close := getattr(iterator, "close", None)):
            try:
                close()
            except BaseException as error:  # the source's own fault; the first one counts
                self.error = self.error or error

    def _set(self, *events: asyncio.Event) -> None:
        with contextlib.suppress(RuntimeError):  # the loop ended without waiting: nobody listens
            for event in events:
                self._loop.call_soon_threadsafe(event.set)


class TaskReader(Reader):
    """Reads an asynchronous iterable in a task.

    The source may hold task groups and cancel scopes open between its items, which must be left in
    the order they were entered. So this opens none inside them: it is shielded as a whole, and
    :meth:`stop` interrupts a wait for an item once, as ``task.cancel()`` does.

    Args:
        items: the iterable.
        name: of the task.

    Attributes:
        free: set when there may be room.
    """

    def __init__(self, items: AsyncIterable[Any], name: str) -> None:
        super().__init__()
        self._items = items
        self._name = name
        self._scope = anyio.CancelScope(shield=True)
        self._task: asyncio.Task[Any] | None = None
        self.free = asyncio.Event()

    async def take(self, item: Any) -> None:
        """Take an item, and return when there is room for another one."""
        raise NotImplementedError

    async def finish(self) -> None:
        """The source is at its end."""

    def start(self, group: TaskGroup) -> None:
        """Begin to read; the group waits until the source is closed."""
        group.start_soon(self._run, name=self._name)

    def stop(self) -> None:
        """Read no more."""
        if self.stopped or self.ended:
            return
        self.stopped = True
        self._scope.deadline = anyio.current_time() + CLOSING_SECONDS
        self.free.set()
        if self._task is not None:  # it waits for an item
            self._task.cancel()

    async def wait_while(self, full: Callable[[], bool]) -> None:
        """Wait as long as there is no room, or until no more items are wanted."""
        while full() and not self.stopped:
            self.free.clear()
            await self.free.wait()

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._read()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if not is_cancelled():
                self.error = error  # the source's own
            elif not self.stopped or task is None:
                raise
            else:
                task.uncancel()  # it was this reader's own, from stop()
        except BaseException as error:  # handed to the user, who raises it in the caller's task
            self.error = error
        finally:
            self.ended = True
            self.news.set()

    async def _read(self) -> None:
        iterator = aiter(self._items)
        over = time.perf_counter() + _TURN_SECONDS
        try:
            while not self.stopped:
                try:
                    item = await self._next(iterator)
                except StopAsyncIteration:
                    await self.finish()
                    return
                await self.take(item)
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


async def close_source(iterator: object) -> None:
    """Close an asynchronous source, if it can be; its clean-up may be a coroutine or a future."""
    if callable(close := getattr(iterator, "aclose", None)):
        closing = close()
        if isinstance(closing, Awaitable):
            await closing
