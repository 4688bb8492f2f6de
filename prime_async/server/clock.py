"""The server's clock: injected where behaviour depends on time, so that tests do not wait."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

import anyio

__all__ = ["Clock", "SystemClock", "timestamp"]


class Clock(Protocol):
    """A source of wall-clock time."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def timestamp(seconds: float) -> str:
    """Write seconds since the epoch as the wire does: ISO 8601 in UTC, milliseconds, ``Z``."""
    moment = datetime.fromtimestamp(seconds, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
