"""When a request may be repeated, how long to wait, and how many repeats the process may spend."""

from __future__ import annotations

import datetime
import email.utils
import enum
import math
import random
import re
import time
from dataclasses import dataclass

from prime_async.errors import UsageError

__all__ = [
    "MAX_RETRY_AFTER",
    "Replay",
    "RetryBudget",
    "RetryPolicy",
    "parse_retry_after",
    "process_budget",
]

MAX_RETRY_AFTER = 60.0
"""Seconds of ``Retry-After`` that are waited for; beyond that the error says how long."""

RETRYABLE_STATUSES = frozenset({408, 429, 502, 503, 504})

_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?")

SAFE_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})


class Replay(enum.Enum):
    """Whether sending the same request twice does the same as sending it once."""

    AUTO = "auto"
    """By method: GET, HEAD, PUT and DELETE are safe; others are not, unless a key says otherwise.
    """
    SAFE = "safe"
    """A read in the clothes of a POST, or a write whose repeat is known to change nothing."""
    NEVER = "never"
    """Sent again only when it provably never arrived or was refused unexecuted (429)."""


def is_safe(method: str, replay: Replay) -> bool:
    """Say whether a request may be repeated without any promise of the platform."""
    return replay is Replay.SAFE or (replay is Replay.AUTO and method in SAFE_METHODS)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how soon.

    Attributes:
        tries: requests at most per call, the first one included (default 4).
        first_delay: seconds before the second try, doubled after each (default 0.5).
        max_delay: seconds at which the doubling ends (default 8).
        jitter: each delay is drawn from ``[(1 - jitter) * delay, delay]``; default 1.0 (full
            jitter), which spreads a crowd best.

    Raises:
        UsageError: a value is out of range.
    """

    tries: int = 4
    first_delay: float = 0.5
    max_delay: float = 8.0
    jitter: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.tries, int) or isinstance(self.tries, bool) or self.tries < 1:
            raise UsageError(
                f"tries is {self.tries!r}; it must be a whole number, at least 1", field="tries"
            )
        for field, highest in (("first_delay", math.inf), ("max_delay", math.inf), ("jitter", 1)):
            value = getattr(self, field)
            if not isinstance(value, int | float) or not 0 <= value <= highest:
                bounds = "from 0 to 1" if highest == 1 else "at least 0"
                raise UsageError(f"{field} is {value!r}; it must be {bounds}", field=field)

    def delay(self, attempt: int, retry_after: float | None) -> float:
        """Seconds to wait after the given failed attempt (counted from 1); the platform's wish
        comes first.
        """
        if retry_after is not None:
            return retry_after
        delay = min(self.max_delay, self.first_delay * 2.0 ** (attempt - 1))
        return delay * (1 - self.jitter * random.random())  # noqa: S311 - spreads load, guards nothing


class RetryBudget:
    """Limits repeats over the whole process, so that an outage is not answered by a storm.

    A bucket of tokens: a repeat takes one, a success gives back a tenth, and time refills ten a
    second.
    """

    def __init__(
        self, capacity: float = 500.0, *, per_second: float = 10.0, per_success: float = 0.1
    ) -> None:
        self._capacity = capacity
        self._per_second = per_second
        self._per_success = per_success
        self._tokens = capacity
        self._seen = time.monotonic()

    def take(self) -> bool:
        """Spend one repeat; False when none is left."""
        now = time.monotonic()
        self._tokens = min(self._capacity, self._tokens + (now - self._seen) * self._per_second)
        self._seen = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def succeeded(self) -> None:
        """Note a success."""
        self._tokens = min(self._capacity, self._tokens + self._per_success)


process_budget = RetryBudget()
"""The budget every transport of this process shares."""


def parse_retry_after(text: str | None) -> float | None:
    """Read a ``Retry-After`` header: seconds or an HTTP date; None when absent or unreadable, never
    negative.
    """
    if text is None:
        return None
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # the zone "-0000" and the old forms without one mean UTC
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0.0, moment.timestamp() - time.time())
