"""Waiting for what other processes do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import to_thread

__all__ = ["POLL_SECONDS", "until"]

T = TypeVar("T")

POLL_SECONDS = 0.02


async def until(look: Callable[[], T]) -> T:
    """Return the first true answer of ``look``, which runs in a thread; limits are the caller's."""
    # Another process is looked at: there is no event of ours to wait for.
    while not (found := await to_thread.run_sync(look)):  # noqa: ASYNC110
        await anyio.sleep(POLL_SECONDS)
    return found
