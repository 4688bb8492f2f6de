"""How long a transfer may take: in all, and without moving."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

__all__ = ["STILL_SECONDS", "OnProgress", "Pace", "TransferProgress", "default_seconds"]

DEFAULT_SECONDS = 300.0
STILL_SECONDS = 60.0
"""Seconds without a byte that end a transfer."""

_SLOWEST = 2**20


@dataclass(frozen=True, slots=True)
class TransferProgress:
    """How far a transfer is: bytes that are over, and all of them where that is known."""

    done: int
    total: int | None


OnProgress = Callable[[TransferProgress], Awaitable[None] | None]


def default_seconds(size: int | None) -> float:
    """Return the time a transfer has by default: 300 seconds and one for each MiB."""
    return DEFAULT_SECONDS + (size or 0) / _SLOWEST


class Pace:
    """Watches one transfer.

    Args:
        seconds: it may take in all; None is the default for its size.
        total: its bytes, where known.
        progress: called after each window.

    Attributes:
        scope: what ends it; enter it around the transfer.
        failure: what ended it on this side, or None.
    """

    def __init__(
        self, seconds: float | None, total: int | None, progress: OnProgress | None
    ) -> None:
        self._began = anyio.current_time()
        self._given = seconds is not None
        self._progress = progress
        self.failure: Exception | None = None
        self.seconds = default_seconds(total) if seconds is None else seconds
        self.total = total
        self.scope = anyio.CancelScope()
        self._push()

    @property
    def over(self) -> bool:
        """Whether it ended the transfer."""
        return self.scope.cancelled_caught

    @property
    def why(self) -> str | None:
        """What ended it, when that was not the whole time."""
        if anyio.current_time() >= self._deadline():
            return None
        return f"no byte moved for {STILL_SECONDS:g} s"

    def know(self, total: int) -> None:
        """Note the size once it is known; the default time grows with it."""
        self.total = total
        if not self._given:
            self.seconds = default_seconds(total)

    def fail(self, error: Exception) -> None:
        """End the transfer for a reason on this side, to be raised when it has ended."""
        self.failure = self.failure or error
        self.scope.cancel()

    def left(self) -> float:
        """Seconds that are left in all."""
        return max(0.001, self._deadline() - anyio.current_time())

    async def moved(self, done: int) -> None:
        """Note that bytes moved, and tell who wants to know."""
        self._push()
        if self._progress is None:
            return
        try:
            answer = self._progress(TransferProgress(done, self.total))
            if inspect.isawaitable(answer):
                await answer
        except Exception as error:  # raised where the transfer was asked for
            self.fail(error)
            raise
        self._push()

    def settle(self) -> None:
        """Note that all bytes are over: the other side may take the rest of the time."""
        self.scope.deadline = self._deadline()

    def _deadline(self) -> float:
        return self._began + self.seconds

    def _push(self) -> None:
        self.scope.deadline = min(self._deadline(), anyio.current_time() + STILL_SECONDS)
