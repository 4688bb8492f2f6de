"""Measures how long an event loop is held: the longest single step, in processor time.

A wall clock would measure the other programs of a busy machine; what a step burns of its thread's
own time is the library's doing.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["Steps", "measured_steps"]


class Steps:
    """The longest step of every thread's event loop, by the name of the thread, in seconds."""

    def __init__(self) -> None:
        self.longest: dict[str, float] = {}
        self.what: dict[str, str] = {}

    def note(self, seconds: float, handle: asyncio.Handle) -> None:
        """Remember a step if it is the longest of its thread."""
        name = threading.current_thread().name
        if seconds > self.longest.get(name, 0.0):
            self.longest[name] = seconds
            self.what[name] = repr(handle)


@contextmanager
def measured_steps() -> Iterator[Steps]:
    """Measure every step of every loop inside the block.

    The step that leaves the block is none of them: where the last thing measured may take long,
    ``await asyncio.sleep(0)`` before that.
    """
    steps = Steps()
    run = asyncio.Handle._run

    def measured(self: asyncio.Handle) -> None:
        began = time.thread_time()
        run(self)
        steps.note(time.thread_time() - began, self)

    # What the test run itself holds is not the library's to collect.
    gc.collect()
    gc.freeze()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio.Handle, "_run", measured)
            yield steps
    finally:
        gc.unfreeze()
