"""Async iterators for plain code: one task runs the source from its first step to its clean-up.

A cancel scope or task group inside the source must be left by the task that entered it, and one
hop between threads per item would cost a hundred times the item.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from prime_async.errors import PrimeError, WrongLoopError
from prime_sync._calls import Later
from prime_sync._frames import trimmed, unwrapped
from prime_sync._roots import ROOT

if TYPE_CHECKING:
    from prime_sync._bridge import Bridge
    from prime_sync._mailbox import Mailbox

__all__ = ["CloseableIterator"]

CLOSE_SECONDS = 5.0
"""How long the source of an iterator may take to clean up."""

PREFETCH_BYTES = 2**20
"""Bytes that are read ahead at most, one item beyond: outputs of jobs may be large."""

_LOG = logging.getLogger("prime_sync")

T = TypeVar("T")


class CloseableIterator(Iterator[T]):
    """An iterator whose items are fetched in the background, a bounded number of them, and of
    their bytes, ahead.

    ``close()`` ends it early; so do leaving a ``with`` block over it and dropping the last
    reference to it. Threads may share it: each item goes to one of them.
    """

    __slots__ = ("_bridge", "_closed", "_lock", "_mail", "_pid", "_pump", "_ready")

    def __init__(
        self,
        bridge: Bridge,
        source: AsyncIterator[T],
        prefetch: int,
        mail: Mailbox | None,
    ) -> None:
        self._bridge = bridge
        self._pump = _Pump(source, prefetch)
        self._ready: deque[T] = deque()
        self._mail = mail
        self._closed = False
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a callback of the source may ask for an item too

    def __next__(self) -> T:
        try:
            while True:
                try:
                    return self._ready.popleft()
                except IndexError:  # nothing there, or another thread was quicker
                    pass
                with self._own_lock():
                    self._refill()
        except BaseException as error:
            error.__traceback__ = trimmed(error.__traceback__)
            raise

    def close(self) -> None:
        """Stop the source and let it clean up; does nothing the second time."""
        if not self._closed:
            self._closed = True
            self._ready.clear()
            self._bridge.call(Later(self._pump.stop), self._mail, self._pump.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self._bridge.post(self._pump.cancel)

    def _own_lock(self) -> threading.RLock:
        if self._pid != os.getpid():  # a forked child: who holds the lock may not exist here
            self._pid, self._lock = os.getpid(), threading.RLock()
        return self._lock

    def _refill(self) -> None:
        if self._ready:
            return
        if self._closed:
            raise StopIteration
        try:
            items = self._bridge.call(Later(self._pump.fetch), self._mail, self._pump.name)
        except PrimeError:  # refused: wrong thread, wrong process, or too late
            raise
        except BaseException:
            self.close()  # as an interruption inside a generator ends the generator
            raise
        self._ready.extend(items)
        if not items:
            self._closed = True
            raise self._pump.taken_error() or StopIteration


class _Pump(Generic[T]):
    """The part of an iterator that lives on the loop.

    It does not know the iterator, which can so be dropped while the source still waits.
    """

    def __init__(self, source: AsyncIterator[T], prefetch: int) -> None:
        self.name: str = getattr(source, "__qualname__", type(source).__qualname__)
        self.error: BaseException | None = None
        self._source = source
        self._prefetch = prefetch
        self._buffer: list[T] = []
        self._size = 0
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    async def fetch(self) -> list[T]:
        """Wait for an item and take all that are ready; none at the end."""
        loop = asyncio.get_running_loop()
        if self._task is None:
            self._task = loop.create_task(self._run(), name=ROOT)
        elif self._task.get_loop() is not loop:
            raise WrongLoopError("this iterator belongs to the parent process of a fork")
        await self._filled.wait()
        items, self._buffer, self._size = self._buffer, [], 0
        if not self._ended:
            self._filled.clear()
        self._room.set()
        return items

    async def stop(self) -> None:
        """Cancel the task and wait for the source's clean-up; raise what that raises."""
        if self._task is None:
            await self._close_source()
        elif self._task.get_loop() is asyncio.get_running_loop() and not self._ended:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
            if not self._ended:
                _LOG.warning("%s still cleans up after %g s", self.name, CLOSE_SECONDS)
            error = self.taken_error()
            if error is not None and not isinstance(error, asyncio.CancelledError):
                raise error

    def taken_error(self) -> BaseException | None:
        """Hand the error over, once; see :meth:`Call.taken_error`."""
        error, self.error = self.error, None
        return error

    def cancel(self) -> None:
        """Cancel the task and wait for nothing."""
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            self._task.cancel()

    async def _run(self) -> None:
        try:
            try:
                await self._copy()
            finally:
                await self._close_source()
        except asyncio.CancelledError:
            self.error = asyncio.CancelledError()  # without frames, which would hold this object
            raise
        except BaseException as error:  # raised where the reader is, after the items before it
            self.error = unwrapped(error)
        finally:
            self._ended = True
            self._filled.set()

    async def _copy(self) -> None:
        async for item in self._source:
            self._buffer.append(item)
            self._size += _weight(item)
            self._filled.set()
            if len(self._buffer) >= self._prefetch or self._size >= PREFETCH_BYTES:
                self._room.clear()
                await self._room.wait()

    async def _close_source(self) -> None:
        aclose = getattr(self._source, "aclose", None)
        if aclose is not None:
            await aclose()


def _weight(item: object) -> int:
    """Return the size of an item's text or bytes, its own or that in the fields of a Struct."""
    if isinstance(item, str | bytes):
        return len(item)
    found = (getattr(item, name) for name in getattr(item, "__struct_fields__", ()))
    return sum(len(value) for value in found if isinstance(value, str | bytes))
