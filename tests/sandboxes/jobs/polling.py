"""Waiting in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

__all__ = ["until"]


async def until(true: Callable[[], Any]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.005)
