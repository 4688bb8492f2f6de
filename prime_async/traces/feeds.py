"""Feeds: batches out of a source of lines or records, built off the event loop, one at a time.

A source is read ahead (:mod:`prime_async.feeds`): one batch is built and waits until it is taken,
so that an upload never holds more than the batches on their way and one besides.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, Protocol

import anyio.to_thread
from anyio.abc import TaskGroup

from prime_async.feeds import Reader, TaskReader, ThreadReader
from prime_async.traces.batches import Batch, Draft

__all__ = ["AsyncFeed", "Feed", "Taker", "ThreadFeed", "feed_of"]

_NAME = "prime-async upload source"


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


class _Handover(Reader):
    """The place between the reader and the upload: empty, or one batch."""

    _batch: Batch | None = None

    async def next_batch(self) -> Batch | None:
        """See :class:`Feed`."""
        while True:
            self.news.clear()
            if self._batch is not None:
                batch, self._batch = self._batch, None
                self._taken()
                return batch
            if self.ended:
                if self.error is not None:
                    raise self.error
                return None
            await self.news.wait()

    def _taken(self) -> None:
        raise NotImplementedError


class ThreadFeed(_Handover, ThreadReader):
    """Reads a plain iterable in a thread."""

    def __init__(self, items: Callable[[], Iterable[Any]], intake: Taker) -> None:
        super().__init__(items, _NAME)
        self._intake = intake

    def take(self, item: Any) -> bool:
        """Take an item; a batch that it closes is handed over."""
        return self._offer(self._intake.take(item))

    def finish(self) -> None:
        """Hand the last batch over."""
        self._offer(self._intake.finish())

    def _offer(self, draft: Draft | None) -> bool:
        """Hand a batch over and wait until it is taken; False when the upload wants no more."""
        if draft is None:
            return True
        batch = draft.sealed()
        with self.room:
            self._batch = batch
            del batch, draft
            self.tell()
            while self._batch is not None and not self.stopped:
                self.room.wait()
            return not self.stopped

    def _taken(self) -> None:
        with self.room:
            self.room.notify_all()


class AsyncFeed(_Handover, TaskReader):
    """Reads an asynchronous iterable in a task."""

    def __init__(self, items: AsyncIterable[Any], intake: Taker) -> None:
        super().__init__(items, _NAME)
        self._intake = intake

    async def take(self, item: Any) -> None:
        """Take an item; a batch that it closes is handed over."""
        await self._offer(self._intake.take(item))

    async def finish(self) -> None:
        """Hand the last batch over."""
        await self._offer(self._intake.finish())

    async def _offer(self, draft: Draft | None) -> None:
        if draft is None:
            return
        self._batch = await anyio.to_thread.run_sync(draft.sealed)
        del draft
        self.news.set()
        await self.wait_while(lambda: self._batch is not None)

    def _taken(self) -> None:
        self.free.set()


def feed_of(items: Iterable[Any] | AsyncIterable[Any], intake: Taker) -> Feed:
    """Return the feed for a source."""
    if isinstance(items, AsyncIterable):
        return AsyncFeed(items, intake)
    return ThreadFeed(lambda: items, intake)
