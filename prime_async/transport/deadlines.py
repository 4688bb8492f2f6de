"""One deadline over several requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from prime_async.errors import APITimeoutError, UsageError

__all__ = ["check_timeout", "deadline", "time_left"]


@contextmanager
def deadline(seconds: float, what: str) -> Iterator[None]:
    """End the block after the given seconds; ``math.inf`` never does.

    Raises:
        APITimeoutError: the block did not end in time; the message says what it was about.
    """
    with anyio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise APITimeoutError(
            f"{what} did not end within {seconds:g} s", budget="total", seconds=seconds
        )


def time_left(until: float) -> float:
    """Return the seconds until a moment on the clock of the loop, as a timeout: never zero."""
    return max(until - anyio.current_time(), 0.001)


def check_timeout(timeout: float | None, default: float, field: str = "timeout") -> float:
    """Return the seconds a call may take.

    Args:
        field: what the caller calls them.

    Raises:
        UsageError: not a positive number.
    """
    if timeout is None:
        return default
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise UsageError(
            f"{field} is {timeout!r}; it must be a positive number of seconds",
            field=field,
            hint="math.inf means unlimited" if field == "timeout" else None,
        )
    return float(timeout)
