"""Feeds: samples from a plain or an asynchronous iterable, read ahead within a bound, without ever
holding the loop.

A plain iterable runs in a thread of its own, because its ``next()`` may block; an asynchronous one
in a task. Either way what has been read is handed over after a short quiet, so that a source that
pauses does not hold back what it gave.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
import time
from collections.abc import AsyncIterable, Iterable
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup

from prime_async.cancelling import is_cancelled
from prime_async.evals.encoding import SLICE_BYTES, TURN_SECONDS, Chunk, SampleEncoder, join
from prime_async.spool import Ranges

__all__ = ["AsyncFeed", "IterableFeed", "SourceFailure"]

_READ_AHEAD = 4 * SLICE_BYTES
"""Encoded bytes a feed holds at most, one sample beyond."""

_LINGER = 0.1
"""Seconds of quiet after which an empty answer tells the push to send what it has."""


_CLOSING = 5.0
"""Seconds an asynchronous iterable has for its own clean-up; a push ends even if that hangs."""


class SourceFailure(Exception):  # noqa: N818 - an envelope, which never leaves the push
    """What the user's iterable raised, whatever it is: ``SystemExit`` in a task group would come
    out as a group, and a ``CancelledError`` pass for the push's own.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class _Feed:
    """The shared half: a bounded store between one producer and the push."""

    rereadable = False
    source = None

    def __init__(self, encoder: SampleEncoder, skip: Ranges) -> None:
        self._encoder = encoder
        self._skip = skip
        self._ready: list[tuple[int, bytes]] = []
        self._bytes = 0
        self._news = asyncio.Event()
        self._ended = False
        self._quiet = False
        self._error: BaseException | None = None
        self.total: int | None = None

    async def next_chunks(self) -> list[Chunk] | None:
        """Return what was read meanwhile, nothing after a quiet, None at the end.

        Raises:
            SourceFailure: the user's iterable raised something; everything before it was handed
                over.
        """
        await self._wait_for_news()
        ended = self._ended  # read before taking: what comes between the two is taken next time
        taken = join(self._take(), self._encoder.limit)
        if taken or not ended:
            self._quiet = self._quiet and not taken
            return taken
        if self._error is not None:
            raise SourceFailure(self._error)
        return None

    async def _wait_for_news(self) -> None:
        with anyio.move_on_after(None if self._quiet else _LINGER):
            while not self._ready and not self._ended:
                self._news.clear()  # it may be about what was taken already
                await self._news.wait()
            return
        self._quiet = True  # said once: the next wait has no limit

    async def leftovers(self) -> list[Chunk]:
        """Return what was taken from the iterable and not handed over; it can be had only here."""
        return join(self._take(), self._encoder.limit)

    def _take(self) -> list[tuple[int, bytes]]:
        raise NotImplementedError


class IterableFeed(_Feed):
    """Reads a plain iterable in a thread."""

    def __init__(self, samples: Iterable[Any], encoder: SampleEncoder, skip: Ranges) -> None:
        super().__init__(encoder, skip)
        self._samples = samples
        self._loop = asyncio.get_running_loop()
        self._room = threading.Condition()
        self._stopped = False
        # A daemon, not a pool worker: next() of a stuck source cannot be interrupted and must not
        # hold up the exit.
        context = contextvars.copy_context()  # the source sees the variables of its caller
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name="prime-async push source", daemon=True
        )

    def start(self, group: TaskGroup) -> None:
        """Begin to read."""
        self._thread.start()

    async def aclose(self) -> None:
        """Stop reading; a source that is inside its ``next()`` is left behind."""
        with self._room:
            self._stopped = True
            self._room.notify_all()

    async def leftovers(self) -> list[Chunk]:
        """Return what is not handed over, giving a sample that is just being encoded its time."""
        if self._thread.is_alive():
            await anyio.to_thread.run_sync(self._thread.join, _LINGER)
        return await super().leftovers()

    def _run(self) -> None:
        index = -1
        try:
            for index, sample in enumerate(self._samples):
                data = None if index in self._skip else self._encoder.encode(index, sample)
                if data is not None and not self._put(index, data):
                    break
            else:
                self.total = index + 1
            if inspect.isgenerator(self._samples):  # given up: its clean-up is not left to chance
                self._samples.close()
        except BaseException as error:  # handed to the push, which raises it in the caller's task
            self._error = error
        self._ended = True
        self._wake()

    def _put(self, index: int, data: bytes) -> bool:
        with self._room:
            first = not self._ready
            self._ready.append((index, data))
            self._bytes += len(data)
            if first:
                self._wake()
            # Waiting with nothing in hand: what was taken from the iterable is never lost here.
            while self._bytes >= _READ_AHEAD and not self._stopped:
                self._room.wait()
            return not self._stopped

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed, and nobody waits
            self._loop.call_soon_threadsafe(self._news.set)

    def _take(self) -> list[tuple[int, bytes]]:
        with self._room:
            taken, self._ready, self._bytes = self._ready, [], 0
            self._room.notify_all()
        return taken


class AsyncFeed(_Feed):
    """Reads an asynchronous iterable in a task."""

    def __init__(self, samples: AsyncIterable[Any], encoder: SampleEncoder, skip: Ranges) -> None:
        super().__init__(encoder, skip)
        self._samples = samples
        self._room = asyncio.Event()
        self._scope = anyio.CancelScope()

    def start(self, group: TaskGroup) -> None:
        """Begin to read."""
        group.start_soon(self._run, name="prime-async push source")

    async def aclose(self) -> None:
        """Stop reading; the iterable is closed in the task that read it."""
        self._scope.cancel()

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._read()
        except BaseException as error:  # handed to the push, which raises it after what came before
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            self._error = error
        finally:
            self._ended = True
            self._news.set()

    async def _read(self) -> None:
        index = -1
        over = time.perf_counter() + TURN_SECONDS
        iterator = aiter(self._samples)
        try:
            async for sample in iterator:
                index += 1
                data = None if index in self._skip else self._encoder.encode(index, sample)
                if data is not None:
                    await self._put(index, data)
                if time.perf_counter() >= over:
                    await anyio.lowlevel.checkpoint()
                    over = time.perf_counter() + TURN_SECONDS
            self.total = index + 1
        finally:
            if callable(close := getattr(iterator, "aclose", None)):
                with anyio.move_on_after(_CLOSING, shield=True):
                    await close()

    async def _put(self, index: int, data: bytes) -> None:
        self._ready.append((index, data))
        self._bytes += len(data)
        self._news.set()
        # Waiting with nothing in hand: what was taken from the iterable is never lost here.
        while self._bytes >= _READ_AHEAD:
            self._room.clear()
            await self._room.wait()

    def _take(self) -> list[tuple[int, bytes]]:
        taken, self._ready, self._bytes = self._ready, [], 0
        self._room.set()
        return taken
