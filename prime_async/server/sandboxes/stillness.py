"""Sandboxes whose processes stand still while their files are read.

Everything in a sandbox is stopped (SIGSTOP) and goes on afterwards (SIGCONT): signals work on every
kernel and with any control groups. Commands that start in between are not stopped, and a process
that its user had stopped before goes on too.
"""

from __future__ import annotations

import logging
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import anyio

from prime_async.server.logs import log_event
from prime_async.server.runtimes.errors import SandboxEndedError, SandboxRuntimeError
from prime_async.server.runtimes.protocol import RunningSandbox

__all__ = ["Stillness"]

_EVERYTHING = -1


class Stillness:
    """Counts who wants a sandbox to stand still: it goes on when the last one is done."""

    def __init__(self) -> None:
        self._wanted: Counter[str] = Counter()

    @asynccontextmanager
    async def of(self, sandboxes: Iterable[RunningSandbox]) -> AsyncIterator[None]:
        """Let some sandboxes stand still for a block.

        Raises:
            SandboxRuntimeError: one could not be stopped.
        """
        stopped: list[RunningSandbox] = []
        try:
            for running in sandboxes:
                stopped.append(running)
                self._wanted[running.id] += 1
                await running.signal(_EVERYTHING, signal.SIGSTOP)
            yield
        finally:
            with anyio.CancelScope(shield=True):
                for running in stopped:
                    await self._let_go(running)

    async def _let_go(self, running: RunningSandbox) -> None:
        self._wanted[running.id] -= 1
        if self._wanted[running.id] > 0:
            return
        del self._wanted[running.id]
        await self.wake(running)

    async def wake(self, running: RunningSandbox) -> None:
        """Let everything in a sandbox go on."""
        try:
            await running.signal(_EVERYTHING, signal.SIGCONT)
        except SandboxEndedError:
            return
        except SandboxRuntimeError as error:
            log_event(logging.ERROR, "sandbox_stands_still", sandbox=running.id, error=error)
