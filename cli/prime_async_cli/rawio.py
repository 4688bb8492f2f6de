"""Bytes between this process's streams and somewhere else, unchanged and at once.

Standard output may block for as long as its reader likes (``| less``), and so may standard input.
Neither may hold the loop, nor the end of the program: output is written by a daemon thread, and
input is read only when there is some.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from queue import SimpleQueue
from types import TracebackType
from typing import NamedTuple, Self

import anyio
from anyio import to_thread

from prime_async_cli.streams import OutputError

__all__ = ["Outlet", "read_input"]

_PIECE = 64 * 1024


class _Order(NamedTuple):
    descriptor: int
    data: bytes
    done: asyncio.Future[None]


class Outlet:
    """Writes to standard output and standard error, in the order of the calls; for a block.

    Attributes:
        gone: the reader of standard output has left; nothing is written there any more.
    """

    def __init__(self) -> None:
        self.gone = False
        self._deaf: set[int] = set()
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._orders.put(None)

    async def write(self, descriptor: int, data: bytes) -> None:
        """Write all of it.

        Raises:
            BrokenPipeError: the reader of standard output has left; one of standard error is not
                missed.
            OutputError: standard output cannot be written for another reason.
        """
        if not data or descriptor in self._deaf:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="output", daemon=True)
            self._thread.start()
        done = asyncio.get_running_loop().create_future()
        self._orders.put(_Order(descriptor, data, done))
        try:
            await done
        except BrokenPipeError:
            self._deaf.add(descriptor)
            if descriptor == 1:
                self.gone = True
                raise
        except OSError as error:
            self._deaf.add(descriptor)
            if descriptor == 1:
                raise OutputError(error.strerror or str(error)) from error

    def _work(self) -> None:
        while order := self._orders.get():
            problem: OSError | None = None
            try:
                _write_all(order.descriptor, order.data)
            except OSError as error:
                problem = error
            _tell(order.done, problem)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _tell(done: asyncio.Future[None], problem: OSError | None) -> None:
    def settle() -> None:
        if done.done():  # nobody waits any more
            return
        if problem is None:
            done.set_result(None)
        else:
            done.set_exception(problem)

    loop = done.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)


async def read_input(descriptor: int = 0) -> AsyncIterator[bytes]:
    """Yield what comes in as it comes, to its end."""
    watched = True
    while True:
        if watched:
            try:
                await anyio.wait_readable(descriptor)
            except PermissionError:  # a plain file: always ready, and unknown to epoll
                watched = False
        if watched:
            piece = os.read(descriptor, _PIECE)
        else:
            piece = await to_thread.run_sync(os.read, descriptor, _PIECE)
        if not piece:
            return
        yield piece
