"""The runtime of this server: entered when the first sandbox needs it, left when the server ends.

Entering starts processes, which a platform that only stores evaluations never needs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from prime_async.errors import ConfigError
from prime_async.server.logs import log_event
from prime_async.server.runtimes.errors import RuntimeUnavailableError
from prime_async.server.tasks import Tasks

if TYPE_CHECKING:
    from prime_async.server.runtimes.protocol import Runtime, RuntimeReport

__all__ = ["MakeRuntime", "RuntimeHost", "make_runtime"]

MakeRuntime = Callable[[], "Runtime"]


class RuntimeHost:
    """Holds the one runtime.

    Args:
        make: makes it; None is the one that is chosen later.
        tasks: where it lives, since it has to be entered and left by one task.
    """

    def __init__(self, make: MakeRuntime | None, tasks: Tasks) -> None:
        self._make = make
        self._tasks = tasks
        self._entered: asyncio.Future[Runtime] | None = None
        self.report: RuntimeReport | None = None

    def choose(self, folder: Path, name: str) -> None:
        """Say which runtime it is to be, unless one was given."""
        if self._make is None:
            self._make = lambda: make_runtime(folder, name)

    async def get(self) -> Runtime:
        """The runtime, ready for use.

        Raises:
            RuntimeUnavailableError: it cannot run on this machine.
        """
        if self._entered is None:
            self._entered = asyncio.get_running_loop().create_future()
            self._tasks.start(self._live, self._entered)
        # Shielded: a caller that goes away must not take the runtime from the others.
        return await asyncio.shield(self._entered)

    async def _live(self, entered: asyncio.Future[Runtime]) -> None:
        try:
            assert self._make is not None, "a runtime is chosen at the start"
            runtime = self._make()
            report = self.report = await runtime.probe()
            if not report.usable:
                raise RuntimeUnavailableError(report)
            async with runtime:
                log_event(
                    logging.INFO, "runtime_ready", runtime=runtime.name, isolates=report.isolates
                )
                entered.set_result(runtime)
                await anyio.sleep_forever()
        except Exception as error:
            # Not for good: the next sandbox tries to enter it anew.
            self._entered = None
            if entered.done():
                raise
            entered.set_exception(error)
        finally:
            entered.cancel()


def make_runtime(folder: Path, name: str) -> Runtime:
    """Make the runtime of this name.

    Args:
        folder: of its sandboxes.

    Raises:
        ConfigError: there is none of that name.
    """
    # Imported here: only a platform with sandboxes needs one.
    if name == "bubblewrap":
        from prime_async.server.runtimes.bubblewrap import BubblewrapRuntime

        return BubblewrapRuntime(folder)
    if name == "process":
        from prime_async.server.runtimes.process import ProcessRuntime

        log_event(logging.WARNING, "sandboxes_not_isolated", runtime=name)
        return ProcessRuntime(folder)
    raise ConfigError(f"there is no runtime {name!r}", hint="bubblewrap or process")
