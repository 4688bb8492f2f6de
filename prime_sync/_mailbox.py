"""Callbacks of the user: the loop hands them to the thread that waits for the call.

A callback may block, use thread-locals or call a sync client. On the loop thread that would stop
every client; in the calling thread it runs as if there were no loop at all.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, overload

from prime_async.errors import WrongLoopError

__all__ = ["Mailbox"]

P = ParamSpec("P")
R = TypeVar("R")


class Mailbox:
    """The callbacks of one call, run in order by the thread that waits for it."""

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()
        self._closed = False
        self._pid = os.getpid()
        self.wake: Callable[[], None] = _nobody

    @overload
    def run_callback(self, fn: None) -> None: ...
    @overload
    def run_callback(self, fn: Callable[P, Any]) -> Callable[P, Awaitable[Any]]: ...
    def run_callback(self, fn: Callable[P, Any] | None) -> Callable[P, Awaitable[Any]] | None:
        """Return what the async core is to call, and to await, in place of ``fn``.

        The core gets what ``fn`` returns or raises. Ctrl-C in ``fn`` ends the call.
        """
        if not callable(fn):
            return fn  # None, or what the core refuses by name

        async def post(*args: P.args, **kwargs: P.kwargs) -> Any:
            result = await self._post(functools.partial(fn, *args, **kwargs))
            return await result if inspect.isawaitable(result) else result

        return post

    def run_pending(self) -> None:
        """Run what was posted, in the calling thread.

        Raises:
            WrongLoopError: a callback called ``fork()``, and this is the child.
        """
        while self._jobs:
            self._jobs.popleft()()
            if os.getpid() != self._pid:
                raise WrongLoopError("the call behind this callback goes on in the parent process")

    def close(self) -> None:
        """Nobody waits any more: what is posted from now on is cancelled."""
        self._closed = True
        self._jobs.clear()

    def _post(self, job: Callable[[], R]) -> asyncio.Future[R]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[R] = loop.create_future()
        if self._closed:
            answer.cancel()
        else:
            self._jobs.append(functools.partial(_run, loop, answer, job))
            self.wake()
        return answer


def _run(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[R], job: Callable[[], R]) -> None:
    try:
        result = job()
    except StopIteration as error:  # no future takes it; in a coroutine it becomes this too
        stopped = RuntimeError("the callback raised StopIteration")
        stopped.__cause__ = error
        loop.call_soon_threadsafe(_settle, answer, answer.set_exception, stopped)
    except Exception as error:  # the core's to handle, as if it had called the callback itself
        loop.call_soon_threadsafe(_settle, answer, answer.set_exception, error)
    else:
        loop.call_soon_threadsafe(_settle, answer, answer.set_result, result)


def _settle(answer: asyncio.Future[Any], settle: Callable[[Any], None], outcome: object) -> None:
    if not answer.done():  # the call was cancelled while the callback ran
        settle(outcome)


def _nobody() -> None:
    """No call waits now: the jobs stay until one does."""
