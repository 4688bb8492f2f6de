"""Work that outlives the request that asked for it: one task owns it all and ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, TypeVarTuple, Unpack

import anyio
from anyio.abc import TaskGroup

from prime_async.server.failures import RequestError
from prime_async.server.logs import log_event

__all__ = ["Tasks"]

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class Tasks:
    """The server's background work.

    A task group has to be left by the task that entered it, which neither a handler nor the
    application's start and end can promise: the owner is a task of its own.
    """

    def __init__(self) -> None:
        self._group: TaskGroup | None = None
        self._owner: asyncio.Task[None] | None = None
        self._handed: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()

    async def open(self) -> None:
        """Start taking work."""
        opened = asyncio.Event()
        self._owner = asyncio.create_task(self._own(opened), name="prime-async-tasks")
        await opened.wait()

    async def close(self) -> None:
        """Cancel everything and wait until it has ended."""
        group, self._group = self._group, None
        owner, self._owner = self._owner, None
        if group is not None and owner is not None:
            group.cancel_scope.cancel()
            await owner

    def start(
        self, work: Callable[[Unpack[Arguments]], Awaitable[None]], *args: *Arguments
    ) -> None:
        """Run something in the background; an error of it is logged.

        May be called from a callback of the event loop too.

        Raises:
            RequestError: 503, the platform is shutting down.
        """
        if self._group is None:
            raise RequestError(503, "shutting_down", "the platform is shutting down")
        if asyncio.current_task() is None:
            # A task group takes work from tasks only: the owner passes this on.
            self._handed.put_nowait(partial(work, *args))
        else:
            self._group.start_soon(_logged, work, *args)

    async def finish(
        self, work: Callable[[Unpack[Arguments]], Awaitable[Result]], *args: *Arguments
    ) -> Result:
        """Run something to its end, also when the caller is cancelled before, and return what it
        returns.
        """
        outcome: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                result = await work(*args)
            except BaseException as error:
                if outcome.cancelled():
                    raise
                if isinstance(error, asyncio.CancelledError):
                    outcome.cancel()
                    raise
                outcome.set_exception(error)
            else:
                if not outcome.cancelled():
                    outcome.set_result(result)

        self.start(run)
        return await outcome

    async def _own(self, opened: asyncio.Event) -> None:
        async with anyio.create_task_group() as self._group:
            opened.set()
            while True:
                self._group.start_soon(_logged, await self._handed.get())


async def _logged(work: Callable[[Unpack[Arguments]], Awaitable[None]], *args: *Arguments) -> None:
    try:
        await work(*args)
    except Exception as error:
        name = getattr(getattr(work, "func", work), "__qualname__", repr(work))
        log_event(logging.ERROR, "background_work_failed", work=name, error=error)
