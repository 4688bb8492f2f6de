"""One call through the bridge: its task on the loop, and the lock that its caller waits on."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from prime_sync._frames import unwrapped
from prime_sync._mailbox import Mailbox
from prime_sync._roots import ROOT

__all__ = ["Call", "Later"]

# A signal interrupts a wait for a lock everywhere but on Windows, where Ctrl-C is seen between two
# short waits.
_SLICE = 0.1 if sys.platform == "win32" else -1.0

T = TypeVar("T")


class Later(Coroutine[Any, Any, T]):
    """A coroutine that is made when it is first run.

    Ctrl-C between making a coroutine and handing it over would leave one that was never awaited,
    and Python warns of that.
    """

    __slots__ = ("_coro", "_make")

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make = make
        self._coro: Coroutine[Any, Any, T] | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self._made().__await__()

    def send(self, value: Any) -> Any:
        return self._made().send(value)

    def throw(self, *error: Any) -> Any:
        return self._made().throw(*error)

    def close(self) -> None:
        if self._coro is not None:
            self._coro.close()

    def _made(self) -> Coroutine[Any, Any, T]:
        if self._coro is None:
            self._coro = self._make()
        return self._coro


class Call(Generic[T]):
    """A coroutine on its way through the loop."""

    def __init__(self, coro: Coroutine[Any, Any, T], mail: Mailbox | None) -> None:
        self.coro = coro
        self.mail = mail
        self.lock = threading.Lock()
        self.lock.acquire()
        self.task: asyncio.Task[None] | None = None
        self.running = self.interrupted = self.finished = False
        self.error: BaseException | None = None
        self.result: T

    # On the loop thread.

    def start(self, loop: asyncio.AbstractEventLoop, calls: set[Call[Any]]) -> None:
        """Make the task."""
        self.task = loop.create_task(self._run(calls), name=ROOT)
        calls.add(self)

    async def _run(self, calls: set[Call[Any]]) -> None:
        self.running = True
        try:
            if self.interrupted:
                self.coro.close()
                raise asyncio.CancelledError
            self.result = await self.coro
        except asyncio.CancelledError:
            self.error = asyncio.CancelledError()  # without frames, which would hold this object
            raise
        except BaseException as error:
            # For the caller to raise: SystemExit leaving a task would end the loop for everybody.
            self.error = unwrapped(error)
        finally:
            calls.discard(self)
            self._finish()

    def cancel(self) -> None:
        """End the task; ``finished`` turns true once it has cleaned up."""
        if self.task is None:
            self.fail()  # interrupted before the hand-over
        elif self.running:
            self.task.cancel()
        else:
            self.interrupted = True  # a task cancelled before its first step never gets to _run()

    def fail(self) -> None:
        """Finish a call that has not run and will not."""
        self.coro.close()
        self.error = asyncio.CancelledError()
        self._finish()

    def _finish(self) -> None:
        self.finished = True
        self.wake()

    def wake(self) -> None:
        """Let the caller look at its mail, or at the result."""
        # Only the loop thread releases and only the caller acquires, so an unlocked lock is a
        # wake-up that was not taken yet.
        if self.lock.locked():
            self.lock.release()

    # On the caller's thread.

    def wait(self) -> None:
        """Wait until the coroutine has ended, running what comes by mail."""
        while True:
            while not self.lock.acquire(timeout=_SLICE):
                pass
            finished = self.finished  # before the mail: what was posted before the end is run too
            if self.mail is not None:
                self.mail.run_pending()
            if finished:
                return

    def taken_error(self) -> BaseException | None:
        """Hand the error over: from its frames it would lead back here, to be found by the garbage
        collector only.
        """
        error, self.error = self.error, None
        return error

    def wait_for_cleanup(self, seconds: float) -> bool:
        """Wait at most so long for a cancelled call; return whether it has ended."""
        deadline = time.monotonic() + seconds
        while not self.finished and (left := deadline - time.monotonic()) > 0:
            self.lock.acquire(timeout=left if _SLICE < 0 else min(left, _SLICE))
        return self.finished
