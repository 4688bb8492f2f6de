"""Ends what is owned elsewhere when this process is told to end.

``armed()`` is held while something remote is owned. Within it Ctrl-C and SIGTERM unwind the program
as an exception does, so that context managers can delete what they made; the exit code is the
usual 130 or 143. Only the default reaction is replaced: a handler of the user, or of
``asyncio.run`` for Ctrl-C, is left alone, and it goes on working when it calls ours. A second
signal ends the process at once.

``at_exit()`` registers what an interpreter that exits has to end. Nothing helps against ``kill
-9``: that is what leases on the platform are for.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import asyncio

__all__ = ["EXIT_SECONDS", "armed", "at_exit", "deferred", "delivered"]

EXIT_SECONDS = 10.0
"""How long everything registered with ``at_exit`` may take together."""

_LOG = logging.getLogger("prime_async.signals")
_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


class _Watch:
    """The signals of this process while something is owned."""

    def __init__(self) -> None:
        self.holds: list[bool] = []
        self.replaced: dict[int, Any] = {}
        self.deferring = 0
        self.waiting: int | None = None
        self.delivered = False
        self.number: int | None = None
        self.pid = 0

    def arm(self, blocking: bool) -> None:
        self.holds.append(blocking)
        self.pid = os.getpid()
        if len(self.holds) == 1:
            self.delivered = False
        for number, default in _DEFAULTS.items():
            if signal.getsignal(number) is default:
                self.replaced[number] = default
                signal.signal(number, self.on_signal)

    def disarm(self, blocking: bool) -> None:
        del self.holds[len(self.holds) - 1 - self.holds[::-1].index(blocking)]
        if self.holds or not _in_main_thread():
            return
        for number, default in self.replaced.items():
            # Somebody who put a handler above ours in the meantime keeps it.
            if signal.getsignal(number) == self.on_signal:
                signal.signal(number, default)
        self.replaced.clear()

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        # Nothing is owned here: called by a handler that was put above ours, or in a forked child,
        # which owns nothing of its parent's.
        idle = not self.holds or self.pid != os.getpid()
        if idle or self.delivered or self.waiting is not None:
            _default_action(number, frame)
        elif self.deferring:
            self.waiting = number
        else:
            self.deliver(number)

    def deliver(self, number: int) -> None:
        self.delivered = True
        self.number = number
        loop = _running_loop()
        if loop is None or self.holds[-1:] == [True]:
            raise _exit_for(number)
        loop.call_soon_threadsafe(_unwind, loop, number)


_WATCH = _Watch()


@contextmanager
def armed(*, blocking: bool = False) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM unwind the program within the block instead of cutting it off.

    Under a running event loop the main task is cancelled and, when it has ended, the loop's runner
    raises ``KeyboardInterrupt`` or ``SystemExit(143)``; without one these are raised in the main
    thread. Outside the main thread, which alone receives signals, this does nothing.

    Args:
        blocking: the main thread waits within the block by other means than an event loop: raise
            there even if a loop runs below it, as in a notebook.
    """
    if not _in_main_thread():
        yield
        return
    _WATCH.arm(blocking)
    try:
        yield
    finally:
        _WATCH.disarm(blocking)


@contextmanager
def deferred() -> Iterator[None]:
    """Hold a first signal back until the block has ended: for clean-up that blocks."""
    if not _in_main_thread():
        yield
        return
    _WATCH.deferring += 1
    try:
        yield
    finally:
        _WATCH.deferring -= 1
        number = _WATCH.waiting
        if number is not None and not _WATCH.deferring:
            _WATCH.waiting = None
            _WATCH.deliver(number)


def delivered() -> int | None:
    """Return the signal that unwinds this process, as far as `armed` had it in hand, or None."""
    return _WATCH.number if _WATCH.delivered and _WATCH.pid == os.getpid() else None


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    if "asyncio" not in sys.modules:
        return None
    import asyncio

    return asyncio._get_running_loop()


def _exit_for(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def _default_action(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGINT:
        signal.default_int_handler(number, frame)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _unwind(loop: asyncio.AbstractEventLoop, number: int) -> None:
    """Cancel the main task only, and once: it cancels what it has started.

    Cancelling all tasks, as the end of ``asyncio.run`` does, would cancel the members of task
    groups twice, the second time in the middle of their clean-up.
    """

    def leave(*_: object) -> NoReturn:
        raise _exit_for(number)

    main = _main_task(loop)
    if main is None:
        leave()
    main.add_done_callback(leave)
    main.cancel()


def _main_task(loop: asyncio.AbstractEventLoop) -> asyncio.Task[Any] | None:
    """The task that ``run_until_complete`` waits for, told by the callback that ends the loop."""
    import asyncio

    for task in asyncio.all_tasks(loop):
        for callback, _ in getattr(task, "_callbacks", None) or ():
            name = getattr(callback, "__name__", "")
            if name == "_run_until_complete_cb" or callback.__module__ == "uvloop.loop":
                return task
    return None


_EXITS: dict[object, tuple[int, str, Callable[[float], None]]] = {}


def at_exit(end: Callable[[float], None], *, name: str) -> Callable[[], None]:
    """Register what to end when the interpreter exits; returns what takes it back.

    It runs after all non-daemon threads have ended, the latest first, in the process that
    registered it and not in its forked children. Python has no default executor any more at that
    point, so ``end`` must not resolve host names through an event loop.

    Args:
        end: called once with the seconds that are left of ``EXIT_SECONDS``, which it must keep; an
            error is logged.
        name: what it is called in the log.
    """
    token = object()
    _EXITS[token] = (os.getpid(), name, end)

    def cancel() -> None:
        _EXITS.pop(token, None)

    # Again at the end of the line: exit hooks run in reverse, and what ``end`` uses must be there.
    atexit.unregister(_end_all)
    atexit.register(_end_all)
    return cancel


def _end_all() -> None:
    deadline = time.monotonic() + EXIT_SECONDS
    entries = [entry for entry in reversed(_EXITS.values()) if entry[0] == os.getpid()]
    _EXITS.clear()
    while entries:
        left = deadline - time.monotonic()
        if left <= 0:
            names = ", ".join(name for _, name, _ in entries)
            _LOG.error("not ended within %g s at exit: %s", EXIT_SECONDS, names)
            return
        _, name, end = entries.pop(0)
        try:
            end(left)
        except Exception:
            _LOG.exception("could not end %s at exit", name)
