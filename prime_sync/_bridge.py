"""The managed event loop under the sync clients: one daemon thread with one loop per process.

It starts at the first call and ends at exit. A call costs one ``call_soon_threadsafe`` and one
lock, and owns its task: whatever interrupts the wait (Ctrl-C, ``SystemExit``, an error from a
signal handler) cancels the task and gives its clean-up ``CLEANUP_SECONDS``. A forked child starts a
loop of its own and touches nothing that it shares with its parent.

The environment variable ``PRIME_SYNC_TRACEBACK=1`` keeps the frames of this machinery in
tracebacks.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, TypeVar, cast, overload

from prime_async.errors import PrimeError, WrongLoopError
from prime_async.loops import abandon_loop, new_loop
from prime_sync._calls import Call
from prime_sync._frames import trimmed, warn_of_running_loop
from prime_sync._iterators import CloseableIterator
from prime_sync._mailbox import Mailbox
from prime_sync._roots import ROOT
from prime_sync._scopes import Scope

__all__ = ["BRIDGE", "Bridge", "CloseableIterator", "Mailbox"]

CLEANUP_SECONDS = 5.0
"""How long an interrupted call may clean up before the interruption goes on."""

EXIT_SECONDS = 2.0
"""How long everything in flight may take to end when the interpreter exits."""

_LOG = logging.getLogger("prime_sync")

T = TypeVar("T")
U = TypeVar("U")


class Bridge:
    """Runs coroutines for threads without an event loop. All sync clients share ``BRIDGE``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop = asyncio.Event()
        self._calls: set[Call[Any]] = set()
        self._hooked = self._closed = False

    def call(
        self, coro: Coroutine[Any, Any, T], mail: Mailbox | None = None, name: str | None = None
    ) -> T:
        """Run a coroutine on the loop and return what it returns.

        ``mail`` takes the work that the coroutine hands back to this thread; ``name`` is what
        messages call the coroutine, its own name by default.

        Raises:
            WrongLoopError: called on the loop's own thread, where waiting would never end.
            PrimeError: the interpreter is exiting and the loop has ended, or the loop's thread does
                not start.
        """
        call = Call(coro, mail)
        reason: BaseException | None = None
        try:
            loop = self._loop_for(coro, name)
            if mail is not None:
                mail.wake = call.wake
            try:
                loop.call_soon_threadsafe(call.start, loop, self._calls)
                call.wait()
            except BaseException:
                self._interrupt(loop, call)
                raise
            if (reason := call.taken_error()) is not None:
                raise self._reason(reason)
            return call.result
        except BaseException as error:
            error.__traceback__ = trimmed(error.__traceback__)
            raise
        finally:
            del call, reason  # the error's traceback may hold this frame

    def iterate(
        self,
        source: AsyncIterator[T],
        *,
        prefetch: int = 64,
        mail: Mailbox | None = None,
    ) -> CloseableIterator[T]:
        """Iterate over an async iterator, which one task reads ahead: ``prefetch`` items, or 1 MiB
        of text and bytes in them, at most.
        """
        return CloseableIterator(self, source, prefetch, mail)

    @overload
    def scope(
        self, manager: AbstractAsyncContextManager[T], *, mail: Mailbox | None = None
    ) -> AbstractContextManager[T]: ...
    @overload
    def scope(
        self,
        manager: AbstractAsyncContextManager[T],
        wrap: Callable[[T], U],
        *,
        mail: Mailbox | None = None,
    ) -> AbstractContextManager[U]: ...
    def scope(
        self,
        manager: AbstractAsyncContextManager[Any],
        wrap: Callable[[Any], Any] | None = None,
        *,
        mail: Mailbox | None = None,
    ) -> AbstractContextManager[Any]:
        """Enter and leave an async context manager in one task.

        ``wrap`` makes what the block sees out of what the manager gives; without it, that itself.
        """
        return Scope(self, manager, wrap, mail)

    def post(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback on the loop, if there is one, without waiting: for destructors."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # closed, perhaps this very moment
                loop.call_soon_threadsafe(callback, *args)

    def close(self) -> None:
        """End the loop for good. What is in flight is cancelled and has ``EXIT_SECONDS`` to end."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(self._stop.set)
            thread.join(EXIT_SECONDS + 1)

    def _loop_for(
        self, coro: Coroutine[Any, Any, Any], name: str | None
    ) -> asyncio.AbstractEventLoop:
        running = asyncio._get_running_loop()
        try:
            loop = self._loop or self._start()
            if running is loop:
                raise _reentry(name or _name(coro))
            if running is not None:
                warn_of_running_loop(name or _name(coro))
        except BaseException:
            coro.close()
            raise
        return loop

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise _exiting()
            if self._loop is None:
                self._hook()
                loop = new_loop()
                thread = threading.Thread(
                    target=self._serve, args=(loop,), name="prime_sync", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError as error:
                    loop.close()
                    raise _not_started(error) from error
                self._thread, self._loop = thread, loop
            return self._loop

    def _hook(self) -> None:
        if self._hooked:
            return
        self._hooked = True
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """In a forked child: the thread is gone, and the loop and its sockets are the parent's."""
        self._lock = threading.Lock()
        self._stop = asyncio.Event()
        self._calls = set()
        loop, self._loop, self._thread = self._loop, None, None
        if loop is not None:
            abandon_loop(loop)

    def _interrupt(self, loop: asyncio.AbstractEventLoop, call: Call[Any]) -> None:
        if call.mail is not None:
            call.mail.close()
        if loop.is_closed():
            call.coro.close()
        if call.finished or loop is not self._loop:
            return
        loop.call_soon_threadsafe(call.cancel)
        if not call.wait_for_cleanup(CLEANUP_SECONDS):
            _LOG.warning("%s still cleans up after %g s", _name(call.coro), CLEANUP_SECONDS)

    def _reason(self, error: BaseException) -> BaseException:
        """Return what to tell the caller: at exit, a cancelled call is one that came too late."""
        late = self._closed and isinstance(error, asyncio.CancelledError)
        return _exiting() if late else error

    # On the loop thread.

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            # Not run_forever(): anyio ties its worker threads to the task that
            # run_until_complete() runs, and would start new threads for each call without one.
            loop.run_until_complete(self._main())
        finally:
            loop.close()

    async def _main(self) -> None:
        await self._stop.wait()
        try:
            async with asyncio.timeout(EXIT_SECONDS):
                # A task group inside a call ends its own children; cancelling those too, as
                # asyncio.run() does, would cut short the clean-up of the call.
                await _cancel({task for task in _others() if task.get_name() == ROOT})
                # This also closes the connections of clients that nobody has closed.
                await asyncio.get_running_loop().shutdown_asyncgens()
                await _cancel(_others())
        except TimeoutError:
            _LOG.warning("gave up on calls that did not end %g s after exit", EXIT_SECONDS)
        for call in list(self._calls):
            call.fail()


def _others() -> set[asyncio.Task[Any]]:
    tasks = asyncio.all_tasks()
    tasks.remove(cast("asyncio.Task[Any]", asyncio.current_task()))
    return tasks


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _name(coro: Coroutine[Any, Any, Any]) -> str:
    name: str = getattr(coro, "__qualname__", type(coro).__qualname__)
    frame = getattr(coro, "cr_frame", None)
    owner = frame.f_locals.get("self") if frame is not None else None
    # The class that users know, which may have inherited the method.
    return name if owner is None else f"{type(owner).__qualname__}.{name.rpartition('.')[2]}"


def _reentry(name: str) -> WrongLoopError:
    return WrongLoopError(
        "a blocking call on the event loop thread of the sync clients would never end",
        hint=f"async code uses the async client: {name}",
    )


def _exiting() -> PrimeError:
    return PrimeError(
        "the interpreter is exiting and the sync clients are closed",
        hint="call them before, or from an atexit handler registered after the first call",
    )


def _not_started(error: RuntimeError) -> PrimeError:
    if "shutdown" in str(error):  # Python 3.12 starts no thread while it exits
        return _exiting()
    return PrimeError(
        f"the thread of the sync clients does not start: {error}",
        hint="the process may have no room for one; a subinterpreter allows none",
    )


BRIDGE = Bridge()
