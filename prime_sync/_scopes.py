"""Async context managers for plain code: one task enters, waits for the ``with`` block and leaves.

Cancel scopes and task groups must be left by the task that entered them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from prime_async import signals
from prime_sync._frames import trimmed, unwrapped
from prime_sync._roots import ROOT

if TYPE_CHECKING:
    from prime_sync._bridge import Bridge
    from prime_sync._mailbox import Mailbox

__all__ = ["Scope"]

_ENTERED: set[asyncio.Task[None]] = set()


class Scope(AbstractContextManager[Any]):
    """A ``with`` block over an async context manager.

    Its exact type is that of ``Bridge.scope()``.
    """

    def __init__(
        self,
        bridge: Bridge,
        manager: AbstractAsyncContextManager[Any],
        wrap: Callable[[Any], Any] | None,
        mail: Mailbox | None,
    ) -> None:
        self._bridge = bridge
        self._manager = manager
        self._wrap = wrap
        self._mail = mail
        self._name: str = getattr(manager, "func", type(manager)).__qualname__
        self._failure: BaseException | None = None
        self._armed: ExitStack
        self._owner: asyncio.Task[None]
        self._entered: asyncio.Future[Any]
        self._left: asyncio.Future[BaseException | None]

    def __enter__(self) -> Any:
        # What is entered owns something elsewhere: SIGTERM unwinds the block, as Ctrl-C does.
        with ExitStack() as stack:
            stack.enter_context(signals.armed(blocking=True))
            try:
                value = self._bridge.call(self._enter(), self._mail, self._name)
            except BaseException as error:
                error.__traceback__ = trimmed(error.__traceback__)
                raise
            self._armed = stack.pop_all()
        return value if self._wrap is None else self._wrap(value)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        try:
            with self._armed, signals.deferred():
                failure = self._bridge.call(self._leave(error), self._mail, self._name)
            if failure is None:
                return error is not None  # the manager swallowed it
            if failure is not error:
                raise failure
        except BaseException as other:
            other.__traceback__ = trimmed(other.__traceback__)
            raise
        failure.__traceback__ = traceback  # without the frames of its way through the task
        return False

    async def _enter(self) -> Any:
        loop = asyncio.get_running_loop()
        self._entered, self._left = loop.create_future(), loop.create_future()
        self._owner = loop.create_task(self._own(), name=ROOT)
        # Whoever keeps only what was entered has not left it: it is left at exit.
        _ENTERED.add(self._owner)
        self._owner.add_done_callback(_ENTERED.discard)
        await self._wait_for({self._owner, self._entered})
        if self._failure is not None:
            raise self._failure
        return self._entered.result()

    async def _leave(self, error: BaseException | None) -> BaseException | None:
        if self._owner.get_loop() is not asyncio.get_running_loop():
            return error  # a forked child: what was entered is the parent's, which will leave it
        if not self._left.done():
            self._left.set_result(error)
        await self._wait_for({self._owner})
        return self._failure

    async def _wait_for(self, any_of: set[asyncio.Future[Any]]) -> None:
        try:
            await asyncio.wait(any_of, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._owner.cancel()
            await asyncio.wait({self._owner})
            raise

    async def _own(self) -> None:
        try:
            async with self._manager as value:
                self._entered.set_result(value)
                error = await self._left
                if error is not None:
                    raise error
        except asyncio.CancelledError:
            self._failure = asyncio.CancelledError()  # without frames, which would hold this object
            raise
        except BaseException as failure:
            # Raised where the block is; SystemExit leaving a task would end the loop for everybody.
            self._failure = unwrapped(failure)
