"""How a command line becomes a running program, with an event loop only when a command needs one.

Parsing is written as coroutines in asyncclick, but nothing in it ever waits. So the driver takes
the first step of the coroutine by hand: help, version, usage errors, completion and commands that
only read files end in that step, and asyncio is never imported. A command that needs the loop stops
at :func:`enter_loop`; the half-run coroutine is then handed to a loop, which goes on from there.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any

__all__ = ["INTERRUPTED", "TERMINATED", "Terminated", "drive", "enter_loop"]

INTERRUPTED = 130
TERMINATED = 143


class Terminated(BaseException):
    """SIGTERM arrived and the command has cleaned up."""


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
        Terminated: SIGTERM; likewise.
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        return int(end.value)
    return _on_a_loop(coroutine)


def _on_a_loop(coroutine: Coroutine[Any, Any, int]) -> int:
    import asyncio

    terminated = False

    async def watched() -> int:
        nonlocal terminated
        task = asyncio.current_task()
        assert task is not None

        def on_terminate() -> None:
            nonlocal terminated
            terminated = True
            task.cancel()

        _listen(asyncio.get_running_loop(), on_terminate)
        return await _resume(coroutine)

    try:
        with asyncio.Runner() as runner:
            return runner.run(watched())
    except asyncio.CancelledError:
        if terminated:
            raise Terminated from None
        raise


def _listen(loop: Any, on_terminate: Any) -> None:
    import signal

    try:
        loop.add_signal_handler(signal.SIGTERM, on_terminate)
    except (NotImplementedError, RuntimeError):
        # Windows loops, and threads that are not the main one, know no signals: the default action
        # stays.
        return


class _resume:  # noqa: N801 - reads as a verb at its one use
    """Awaits a coroutine that has already been started."""

    def __init__(self, coroutine: Coroutine[Any, Any, int]) -> None:
        self.coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, int]:
        return (yield from self.coroutine.__await__())
