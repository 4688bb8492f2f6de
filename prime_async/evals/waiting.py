"""Waiting for an evaluation to end: quick at first, then patient."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from prime_async.evals.models import TERMINAL_STATUSES, Evaluation
from prime_async.requests import DAY, check_interval
from prime_async.transport import check_timeout, deadline

__all__ = ["wait_until_terminal"]

_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 10.0
_GROWTH = 1.5


async def wait_until_terminal(
    look: Callable[[], Awaitable[Evaluation]],
    evaluation_id: str,
    poll_interval: float | None,
    timeout: float | None,
) -> Evaluation:
    """Look until the status is final. A given interval is kept to exactly, never shortened."""
    pause = check_interval(poll_interval) or _FIRST_PAUSE
    seconds = check_timeout(timeout, DAY)
    with deadline(seconds, f"waiting for evaluation {evaluation_id}"):
        while True:
            evaluation = await look()
            if (evaluation.status or "").upper() in TERMINAL_STATUSES:
                return evaluation
            await anyio.sleep(pause)
            if poll_interval is None:
                pause = min(_LONGEST_PAUSE, pause * _GROWTH)
    raise AssertionError("the deadline above returns or raises")
