"""The few tasks of a client that outlive a call: renewing leases, writing the token file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["Background"]

_LOGGER = logging.getLogger("prime_async.sandboxes")


class Background:
    """Owns tasks by name, one each; they end with :meth:`aclose`, or with their loop."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def run(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the work unless it runs already on this loop; an error in it is logged."""
        loop = asyncio.get_running_loop()
        task = self._tasks.get(name)
        if task is not None and not task.done() and task.get_loop() is loop:
            return
        task = loop.create_task(work(), name=f"prime-async {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda ended: self._ended(name, ended))

    async def aclose(self) -> None:
        """Cancel what runs on this loop and wait until it has ended."""
        loop = asyncio.get_running_loop()
        mine = [task for task in self._tasks.values() if task.get_loop() is loop]
        self._tasks.clear()
        for task in mine:
            task.cancel()
        if mine:
            await asyncio.wait(mine)

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOGGER.error("%s ended: %s", task.get_name(), error, exc_info=error)
