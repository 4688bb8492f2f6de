"""The meters measure what they say."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time

from tests.meters import LoopLag, TracedPeak, open_descriptors, open_sockets


async def test_lag_sees_a_stall() -> None:
    """A blocking call of 60 ms is seen as a stall of about that length."""
    async with LoopLag() as lag:
        time.sleep(0.06)
    assert 0.05 <= lag.worst < 0.5


async def test_lag_of_an_idle_loop_is_small() -> None:
    """Waiting without blocking is no stall."""
    async with LoopLag(0.001) as lag:
        await asyncio.sleep(0.05)
    assert lag.ticks > 5
    assert lag.worst < 0.05


def test_peak_rss_sees_memory_that_is_gone_again() -> None:
    """A buffer freed inside the block counts all the same (in a quiet process of its own)."""
    code = (
        "from tests.meters import PeakRss\n"
        "with PeakRss() as peak:\n"
        "    block = bytearray(b'x') * (64 << 20)\n"
        "    del block\n"
        "print(peak.growth)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 60 << 20 < int(done.stdout) < 80 << 20


def test_traced_peak_counts_python_objects() -> None:
    """Allocations inside the block count at their peak."""
    with TracedPeak() as peak:
        block = bytearray(8 << 20)
        del block
    assert 8 << 20 <= peak.growth < 9 << 20


def test_open_sockets_are_counted() -> None:
    """One socket more is one descriptor more."""
    descriptors, sockets = open_descriptors(), open_sockets()
    with socket.socket():
        assert open_descriptors() - descriptors == 1
        assert open_sockets() - sockets == 1
