"""The ways a process ends while a run is open: the exit of the interpreter, signals, fork."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol

from prime_async import signals

__all__ = ["Leaving", "forget_in_children"]


class Leaving:
    """What is registered for the case that a process ends before its run.

    Args:
        end: called with the seconds it may take.
        name: of the run, for messages.
    """

    def __init__(self, end: Callable[[float], None], name: str) -> None:
        self._end = end
        self._name = name
        self._armed: ExitStack | None = None
        self._lock = threading.Lock()
        self._pid = 0
        self._cancel: Callable[[], None] | None = None

    @property
    def registered(self) -> bool:
        """True in a process whose end is provided for."""
        return self._pid == os.getpid()

    def register(self) -> None:
        """Provide for the end of this process."""
        with self._lock:
            if self._pid == os.getpid():
                return
            self._pid = os.getpid()
            self._armed = None
            self._cancel = signals.at_exit(self._end, name=self._name)
            _at_worker_exit(self._end)

    def arm(self) -> None:
        """Let SIGTERM unwind the program, as Ctrl-C does; in the main thread only."""
        if self._armed is None and threading.current_thread() is threading.main_thread():
            self._armed = ExitStack()
            self._armed.enter_context(signals.armed())

    def cancel(self) -> None:
        """The run has ended first."""
        with self._lock:
            cancel, self._cancel = self._cancel, None
            armed, self._armed = self._armed, None
        if cancel is not None:
            cancel()
        if armed is not None:
            armed.close()

    def abandon(self) -> None:
        """In a forked child: the registrations are the parent's."""
        self._lock = threading.Lock()
        self._cancel = self._armed = None
        self._pid = 0


def _at_worker_exit(end: Callable[[float], None]) -> None:
    """Processes of multiprocessing skip the exit hooks of the interpreter; they have their own."""
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util is None or process is None or process.parent_process() is None:
        return
    util.Finalize(None, end, (signals.EXIT_SECONDS,), exitpriority=100)


class _Forkable(Protocol):
    def after_fork(self) -> None: ...


_OPEN: weakref.WeakSet[_Forkable] = weakref.WeakSet()
_HOOKED = threading.Event()


def forget_in_children(run: _Forkable) -> None:
    """Call ``run.after_fork()`` in every child that this process forks while the run lives."""
    _OPEN.add(run)
    if not _HOOKED.is_set() and hasattr(os, "register_at_fork"):
        _HOOKED.set()
        os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    for run in list(_OPEN):
        run.after_fork()
