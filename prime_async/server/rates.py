"""How many requests an account may send in a time: who sends more is asked to wait."""

from __future__ import annotations

import math

from prime_async.server.clock import Clock
from prime_async.server.failures import RequestError

__all__ = ["Rate"]

_KEPT = 1024
"""Accounts above which those that have not sent anything lately are forgotten."""


class Rate:
    """A bucket per account, which fills at a steady pace up to the requests of one second.

    Args:
        per_second: the pace; None for none, then nobody waits.
    """

    def __init__(self, per_second: float | None, clock: Clock) -> None:
        self._pace = per_second
        self._clock = clock
        self._full = max(1.0, per_second or 0.0)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, account: str) -> None:
        """Count a request.

        Raises:
            RequestError: 429 ``rate_limited``, with the seconds after which one fits; it did not
                count.
        """
        if self._pace is None:
            return
        now = self._clock.now()
        left = self._filled(account, now)
        if left < 1.0:
            seconds = math.ceil((1.0 - left) / self._pace)
            raise RequestError(
                429,
                "rate_limited",
                f"this platform takes {self._pace:g} requests a second: send again in {seconds} s",
                headers={"Retry-After": str(seconds)},
            )
        self._left[account] = (left - 1.0, now)
        if len(self._left) > _KEPT:
            self._forget(now)

    def _filled(self, account: str, now: float) -> float:
        left, at = self._left.get(account, (self._full, now))
        return min(self._full, left + max(0.0, now - at) * (self._pace or 0.0))

    def _forget(self, now: float) -> None:
        full = [one for one in self._left if self._filled(one, now) >= self._full]
        for account in full:
            del self._left[account]
