"""Feeds: samples from a plain or an asynchronous iterable, read ahead within a bound, without ever
holding the loop (:mod:`prime_async.feeds`).

What has been read is handed over after a short quiet, so that a source that pauses does not hold
back what it gave.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from prime_async.evals.encoding import SLICE_BYTES, Chunk, SampleEncoder, join
from prime_async.feeds import Reader, TaskReader, ThreadReader
from prime_async.spool import Ranges

__all__ = ["AsyncFeed", "IterableFeed", "SourceFailure"]

_READ_AHEAD = 4 * SLICE_BYTES
"""Encoded bytes a feed holds at most, one sample beyond."""

_LINGER = 0.1
"""Seconds of quiet after which an empty answer tells the push to send what it has."""

_NAME = "prime-async push source"


class SourceFailure(Exception):  # noqa: N818 - an envelope, which never leaves the push
    """What the user's iterable raised, whatever it is: ``SystemExit`` in a task group would come
    out as a group, and a ``CancelledError`` pass for the push's own.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class _Feed(Reader):
    """The shared half: a bounded store between one producer and the push."""

    rereadable = False
    source = None

    def _hold(self, encoder: SampleEncoder, skip: Ranges) -> None:
        self._encoder = encoder
        self._skip = skip
        self._index = -1
        self._ready: list[tuple[int, bytes]] = []
        self._bytes = 0
        self._quiet = False
        self.total: int | None = None

    def _encoded(self, sample: Any) -> bytes | None:
        """The next sample's text; None when it is left out."""
        self._index += 1
        return None if self._index in self._skip else self._encoder.encode(self._index, sample)

    def _keep(self, data: bytes) -> None:
        self._ready.append((self._index, data))
        self._bytes += len(data)

    def _full(self) -> bool:
        return self._bytes >= _READ_AHEAD

    async def next_chunks(self) -> list[Chunk] | None:
        """Return what was read meanwhile, nothing after a quiet, None at the end.

        Raises:
            SourceFailure: the user's iterable raised something; everything before it was handed
                over.
        """
        await self._wait_for_news()
        ended = self.ended  # read before taking: what comes between the two is taken next time
        taken = join(self._take(), self._encoder.limit)
        if taken or not ended:
            self._quiet = self._quiet and not taken
            return taken
        if self.error is not None:
            raise SourceFailure(self.error)
        return None

    async def _wait_for_news(self) -> None:
        with anyio.move_on_after(None if self._quiet else _LINGER):
            while not self._ready and not self.ended:
                self.news.clear()  # it may be about what was taken already
                await self.news.wait()
            return
        self._quiet = True  # said once: the next wait has no limit

    async def leftovers(self) -> list[Chunk]:
        """Return what was taken from the iterable and not handed over; it can be had only here."""
        return join(self._take(), self._encoder.limit)

    def _take(self) -> list[tuple[int, bytes]]:
        raise NotImplementedError


class IterableFeed(_Feed, ThreadReader):
    """Reads a plain iterable in a thread."""

    def __init__(self, samples: Iterable[Any], encoder: SampleEncoder, skip: Ranges) -> None:
        super().__init__(lambda: samples, _NAME)
        self._hold(encoder, skip)

    def start(self, group: TaskGroup) -> None:
        """Begin to read; the group does not wait for the thread."""
        self.begin()

    async def aclose(self) -> None:
        """Stop reading; a source that is inside its ``next()`` is left behind."""
        self.stop()

    async def leftovers(self) -> list[Chunk]:
        """Return what is not handed over, giving a sample that is just being encoded its time."""
        with anyio.move_on_after(_LINGER):
            while not self.ended:
                self.news.clear()
                await self.news.wait()
        return await super().leftovers()

    def take(self, item: Any) -> bool:
        """Encode a sample, and wait for room behind it."""
        data = self._encoded(item)
        if data is None:
            return True
        with self.room:
            first = not self._ready
            self._keep(data)
            if first:
                self.tell()
            # Waiting with nothing in hand: what was taken from the iterable is never lost here.
            while self._full() and not self.stopped:
                self.room.wait()
            return not self.stopped

    def finish(self) -> None:
        """Note how many there were."""
        self.total = self._index + 1

    def _take(self) -> list[tuple[int, bytes]]:
        with self.room:
            taken, self._ready, self._bytes = self._ready, [], 0
            self.room.notify_all()
        return taken


class AsyncFeed(_Feed, TaskReader):
    """Reads an asynchronous iterable in a task."""

    def __init__(self, samples: AsyncIterable[Any], encoder: SampleEncoder, skip: Ranges) -> None:
        super().__init__(samples, _NAME)
        self._hold(encoder, skip)

    async def aclose(self) -> None:
        """Stop reading; the iterable is closed in the task that read it."""
        self.stop()

    async def take(self, item: Any) -> None:
        """Encode a sample, and wait for room behind it."""
        data = self._encoded(item)
        if data is not None:
            self._keep(data)
            self.news.set()
            # Waiting with nothing in hand: what was taken from the iterable is never lost here.
            await self.wait_while(self._full)

    async def finish(self) -> None:
        """Note how many there were."""
        self.total = self._index + 1

    def _take(self) -> list[tuple[int, bytes]]:
        taken, self._ready, self._bytes = self._ready, [], 0
        self.free.set()
        return taken
