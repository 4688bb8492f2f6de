"""Identifiers made here: a readable prefix and a ULID.

``push_01JDZ3N8Q4T5V6W7X8Y9ZABCDE``: 48 bits of milliseconds and 80 random bits in Crockford
base32, so ids sort by the time they were made, need no escaping in paths, headers and URLs, and
never meet those of another machine.
"""

from __future__ import annotations

import os
import re
import threading
import time

from prime_async.errors import UsageError

__all__ = ["new_id"]

_PREFIX = re.compile(r"[a-z][a-z0-9]{0,15}")


class _Clock:
    """The last value handed out by this process; the next one is always greater."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.last = 0
        self.lock = threading.Lock()

    def next(self) -> int:
        milliseconds = time.time_ns() // 1_000_000
        fresh = (milliseconds << 80) | int.from_bytes(os.urandom(10))
        with self.lock:
            # A second id in the same millisecond, or after the clock was set back, counts on from
            # the last one.
            self.last = fresh if fresh > self.last else self.last + 1
            return self.last


_clock = _Clock()


def new_id(prefix: str) -> str:
    """Return a new id such as ``push_01J…``: the prefix, an underscore, 26 characters of Crockford
    base32.

    Ids made by one process are strictly increasing as text, over all of its threads. Safe to call
    after a fork: the child starts from fresh randomness.

    Args:
        prefix: 1 to 16 lower-case letters and digits, a letter first.

    Raises:
        UsageError: the prefix is anything else.
    """
    global _clock
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(f"{prefix!r} is not a prefix for an id", field="prefix")
    from ulid import ULID

    clock = _clock
    if clock.pid != os.getpid():
        # Counting on from the parent's last value would repeat the ids that the parent makes next;
        # its lock may also have been held by a thread that does not exist in this process.
        clock = _clock = _Clock()
    return f"{prefix}_{ULID.from_int(clock.next())}"
