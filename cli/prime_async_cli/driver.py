"""How a command line becomes a running program, with an event loop only when a command needs one.

Parsing is written as coroutines in asyncclick, but nothing in it ever waits. So the driver takes
the first step of the coroutine by hand: help, version, usage errors, completion and commands that
only read files end in that step, and asyncio is never imported. A command that needs the loop stops
at :func:`enter_loop`; the half-run coroutine is then handed to a loop, which goes on from there.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any

__all__ = ["drive", "enter_loop"]


class _Pause:
    """Gives control back once; an event loop takes it for an ordinary turn."""

    def __await__(self) -> Generator[None]:
        yield


async def enter_loop() -> None:
    """Go on only under a running event loop."""
    await _Pause()


def drive(coroutine: Coroutine[Any, Any, int]) -> int:
    """Run to the end and return the exit code.

    Raises:
        KeyboardInterrupt: Ctrl-C; the command was cancelled and has cleaned up.
        SystemExit: SIGTERM; likewise, with the code 143.
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        return int(end.value)
    return _on_a_loop(coroutine)


def _on_a_loop(coroutine: Coroutine[Any, Any, int]) -> int:
    import asyncio

    from prime_async.signals import armed

    async def rest() -> int:
        return await _resume(coroutine)

    with asyncio.Runner() as runner, armed():
        return runner.run(rest())


class _resume:  # noqa: N801 - reads as a verb at its one use
    """Awaits a coroutine that has already been started."""

    def __init__(self, coroutine: Coroutine[Any, Any, int]) -> None:
        self.coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, int]:
        return (yield from self.coroutine.__await__())
