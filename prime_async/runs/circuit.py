"""Whether a sink is used: one failure costs a batch, three in a row end it or pause it."""

from __future__ import annotations

import logging
import math
from time import monotonic
from typing import Literal

__all__ = ["PAUSE_SECONDS", "STRIKES", "Circuit"]

STRIKES = 3
"""Failures in a row after which a sink is not used any more."""

PAUSE_SECONDS = 300.0
"""How long the sink of a training run pauses; that of an evaluation is retired until the finish."""

_LOG = logging.getLogger("prime_async.runs")
_FIRST_RETRY, _MAX_RETRY = 2.0, 30.0


class Circuit:
    """Counts the failures of one sink. Used on the uploader's loop only.

    Batches that were on their way together when the platform went away are one failure: a strike
    counts only for a batch that was begun after the strike before it.

    Args:
        name: of the sink, for the log.
        pause: seconds until a retired sink is tried again; ``math.inf`` is never.
    """

    def __init__(self, name: str, pause: float) -> None:
        self._name = name
        self._pause = pause
        self._strikes = 0
        self._epoch = 0
        self._closed_until = 0.0
        self._retry_at = 0.0
        self._probing = False

    @property
    def state(self) -> Literal["working", "paused", "retired"]:
        """Whether batches are sent, kept until a moment, or kept until the finish."""
        if self._closed_until == 0.0:
            return "working"
        return "retired" if math.isinf(self._closed_until) else "paused"

    @property
    def striking(self) -> bool:
        """True while the last batch failed."""
        return self._strikes > 0

    def may_send(self) -> bool:
        """Say whether a batch may be begun now; after a pause, one at a time until it succeeds."""
        if self._closed_until == 0.0:
            return True
        return not self._probing and monotonic() >= self._closed_until

    def may_replay(self) -> bool:
        """Say whether what was kept may be tried again now."""
        return self.may_send() and monotonic() >= self._retry_at

    def seconds_to_wait(self) -> float:
        """Return the seconds until `may_replay` can be true; ``math.inf`` if never."""
        if self._probing:
            return math.inf
        return max(0.0, max(self._closed_until, self._retry_at) - monotonic())

    def begin(self) -> int:
        """Note that a batch is sent; the ticket goes to `strike`."""
        self._probing = self._closed_until != 0.0
        return self._epoch

    def succeed(self) -> None:
        """Note that a batch arrived."""
        if self._closed_until != 0.0:
            _LOG.info("run_sink name=%s: works again", self._name)
        self._strikes = 0
        self._closed_until = self._retry_at = 0.0
        self._probing = False

    def strike(self, ticket: int, error: Exception) -> None:
        """Note that a batch failed for a reason that may pass."""
        self._probing = False
        if ticket < self._epoch:
            return
        self._epoch += 1
        self._strikes += 1
        self._retry_at = monotonic() + min(_MAX_RETRY, _FIRST_RETRY * 2.0 ** (self._strikes - 1))
        if self._closed_until != 0.0 or self._strikes >= STRIKES:
            self._retire(f"{self._strikes} failures in a row, the last: {error}")

    def retire(self, error: Exception) -> None:
        """Note that a batch failed for a reason that every further batch would meet."""
        self._probing = False
        self._epoch += 1
        self._retire(str(error))

    def give_another_chance(self) -> None:
        """At the finish: let one batch try, whatever was before."""
        if self._closed_until != 0.0:
            self._closed_until = monotonic()
        self._retry_at = 0.0

    def _retire(self, why: str) -> None:
        first = self._closed_until == 0.0
        self._closed_until = monotonic() + self._pause
        if first:
            what = "not used until the finish" if math.isinf(self._pause) else "paused"
            _LOG.warning(
                "run_sink name=%s: %s, records are kept on disk: %s", self._name, what, why
            )
