"""Data of the demo: no twin, handed on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

__all__ = ["MAX_TICKS", "Reading", "Tick", "parse"]

MAX_TICKS = 1_000

Tick = Callable[[int], Awaitable[None] | None]


@dataclass
class Reading:
    """What a clock shows."""

    value: int


def parse(text: str) -> Reading:
    """Read a reading."""
    return Reading(int(text))
