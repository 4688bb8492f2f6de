"""The uploader: one daemon thread per process with one event loop, on which all runs deliver.

It starts with the first run, so the loop of the user is never touched, and uploads go on while that
loop is blocked or gone. A forked child gets an uploader of its own when it first needs one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

import anyio
import anyio.to_thread

from prime_async import signals
from prime_async.loops import abandon_loop, new_loop
from prime_async.traces.errors import PrimeTracesError

__all__ = ["Uploader", "in_thread", "uploader"]

_LOG = logging.getLogger("prime_async.runs")

_CLEANUP_SECONDS = 2.0
"""How long what is cancelled at the end of the process may clean up."""

T = TypeVar("T")


class _Job(NamedTuple):
    """Work for the loop."""

    work: Callable[[], Coroutine[Any, Any, Any]]
    future: concurrent.futures.Future[Any]
    name: str


class Uploader:
    """The thread and its loop. There is one at a time, handed out by :func:`uploader`."""

    def __init__(self) -> None:
        self._loop = new_loop()
        self._jobs: deque[_Job] = deque()
        self._called = asyncio.Event()
        self._stopping = False
        self._ready = threading.Event()
        self.exiting = False
        """True once the interpreter exits, when no thread can be started any more."""
        self._thread = threading.Thread(
            target=self._serve, name="prime-async-uploader", daemon=True
        )

    def start(self) -> None:
        """Start the thread and wait until its loop takes work (a fraction of a millisecond)."""
        self._thread.start()
        self._ready.wait()

    def call(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback on the loop soon, from any thread; without effect once it has ended."""
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            _LOG.debug("the uploader has ended: %r is not called", callback)

    def submit(
        self, work: Callable[[], Coroutine[Any, Any, T]], name: str
    ) -> concurrent.futures.Future[T]:
        """Carry out work on the loop; cancelling the future cancels it.

        Raises:
            PrimeTracesError: the interpreter exits and the uploader has ended.
        """
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        try:
            self._jobs.append(_Job(work, future, name))
            self._loop.call_soon_threadsafe(self._called.set)
        except RuntimeError as error:
            raise PrimeTracesError("the interpreter is exiting and uploads have ended") from error
        return future

    def close(self, seconds: float) -> None:
        """End the thread, and what is still on its loop, within the given seconds."""
        self.call(self._stop)
        self._thread.join(seconds)
        if self._thread.is_alive():
            _LOG.warning("the uploader did not end within %g s", seconds)

    def abandon(self) -> None:
        """In a forked child: forget the loop of the parent without touching what is shared."""
        abandon_loop(self._loop)

    def _stop(self) -> None:
        self._stopping = True
        self._called.set()

    async def _carry_out(self, job: _Job) -> None:
        future = job.future
        with anyio.CancelScope() as scope:
            future.add_done_callback(
                lambda done: self.call(scope.cancel) if done.cancelled() else None
            )
            try:
                result = await job.work()
            except Exception as error:
                _settle(future.set_exception, error)
            else:
                _settle(future.set_result, result)
        if not future.done():
            future.cancel()

    # On the thread.

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._ready.set()
            asyncio.set_event_loop(None)
            self._loop.close()

    async def _main(self) -> None:
        async with anyio.create_task_group() as group:
            self._ready.set()
            while not self._stopping:
                await self._called.wait()
                self._called.clear()
                while self._jobs:
                    job = self._jobs.popleft()
                    group.start_soon(self._carry_out, job, name=job.name)
            group.cancel_scope.cancel()
        with anyio.move_on_after(_CLEANUP_SECONDS):
            await self._loop.shutdown_asyncgens()  # closes connections nobody has closed


def _settle(settle: Callable[[T], None], outcome: T) -> None:
    """Give a future its outcome, unless whoever waited has gone."""
    try:
        settle(outcome)
    except concurrent.futures.InvalidStateError:
        _LOG.debug("nobody waits for the outcome any more")


class _Place:
    """Where the uploader of this process is."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.current: Uploader | None = None
        self.pid = 0

    def get(self) -> Uploader:
        # Read once: another thread may be making one.
        current = self.current
        if current is not None and self.pid == os.getpid():
            return current
        with self.lock:
            if self.current is None or self.pid != os.getpid():
                self.current, self.pid = _started(), os.getpid()
            return self.current

    def forget(self) -> None:
        current, self.current = self.current, None
        self.lock = threading.Lock()
        if current is not None:
            current.abandon()


_PLACE = _Place()
_HOOKED = threading.Event()


def uploader() -> Uploader:
    """Return the uploader of this process, starting it when there is none."""
    return _PLACE.get()


async def in_thread(work: Callable[..., T], *args: Any) -> T:
    """Run blocking work in a worker thread; inline while the interpreter exits."""
    current = _PLACE.current
    if current is not None and current.exiting:
        return work(*args)
    return await anyio.to_thread.run_sync(work, *args)


def _started() -> Uploader:
    if not _HOOKED.is_set():
        _HOOKED.set()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_PLACE.forget)
    made = Uploader()
    made.start()
    signals.at_exit(made.close, name="the uploader of runs")
    return made
