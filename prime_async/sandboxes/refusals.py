"""A request that a platform may not know: left alone for a while after a refusal, then tried again.

One refusal may come from a proxy that stumbled: the next try is soon. Each further one in a row
doubles the pause, so that a platform without the request is hardly bothered.
"""

from __future__ import annotations

import time

__all__ = ["Refusals"]

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0


class Refusals:
    """Says whether a request is worth a try."""

    def __init__(self) -> None:
        self._pause = _FIRST_PAUSE
        self._until = 0.0

    @property
    def worth_a_try(self) -> bool:
        """Whether the last refusal is long enough ago."""
        return time.monotonic() >= self._until

    def refused(self) -> None:
        """Note that the platform does not know the request."""
        self._until = time.monotonic() + self._pause
        self._pause = min(_LONGEST_PAUSE, self._pause * 2)

    def accepted(self) -> None:
        """Note that it knows it."""
        self._pause = _FIRST_PAUSE
