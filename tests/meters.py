"""Meters: event-loop lag, memory, open descriptors. Tests and benchmarks share them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["LoopLag", "PeakRss", "TracedPeak", "open_descriptors", "open_sockets", "rss_bytes"]

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_DESCRIPTORS = Path("/proc/self/fd")


class LoopLag:
    """LAG of the field reports: a task that sleeps in a loop and keeps its worst overshoot.

    Attributes:
        worst: seconds by which the latest wake-up was late.
        ticks: how often the task woke up; 0 means that nothing was measured.
    """

    def __init__(self, interval: float = 0.005) -> None:
        self.interval = interval
        self.worst = 0.0
        self.ticks = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._measure())
        await asyncio.sleep(0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._task is not None
        # One more tick, so that a stall just before the end is seen as well.
        await asyncio.sleep(self.interval)
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _measure(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            before = clock()
            await asyncio.sleep(self.interval)
            self.worst = max(self.worst, clock() - before - self.interval)
            self.ticks += 1


def rss_bytes() -> int:
    """Return the resident memory of this process (0 where /proc has no such file)."""
    return _status("VmRSS")


class PeakRss:
    """Growth of the peak resident memory of this process inside a block, as the kernel saw it.

    Attributes:
        start, growth: bytes.
    """

    def __init__(self) -> None:
        self.start = 0
        self.growth = 0

    def __enter__(self) -> Self:
        gc.collect()
        # 5 resets the kernel's high-water mark, so that no sampling thread is needed.
        _CLEAR_REFS.write_text("5")
        self.start = rss_bytes()
        return self

    def __exit__(self, *_: object) -> None:
        self.growth = max(0, _status("VmHWM") - self.start)


def _status(name: str) -> int:
    if not _STATUS.exists():
        return 0
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


class TracedPeak:
    """Growth of the peak of Python's own allocations inside a block (which runs 2-4 times slower).

    Attributes:
        growth: bytes.
    """

    def __init__(self) -> None:
        self.growth = 0
        self._start = 0

    def __enter__(self) -> Self:
        gc.collect()
        tracemalloc.start()
        self._start = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        return self

    def __exit__(self, *_: object) -> None:
        self.growth = max(0, tracemalloc.get_traced_memory()[1] - self._start)
        tracemalloc.stop()


def open_descriptors() -> int:
    """Count the open file descriptors of this process."""
    return sum(1 for _ in _targets())


def open_sockets() -> int:
    """Count the open sockets of this process."""
    return sum(target.startswith("socket:") for target in _targets())


def _targets() -> Iterator[str]:
    for name in os.listdir(_DESCRIPTORS):
        # The descriptor that lists the folder is gone by now.
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(_DESCRIPTORS / name)
