"""Waiting for an evaluation to end: quick at first, then patient."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from prime_async.errors import UsageError
from prime_async.evals.models import TERMINAL_STATUSES, Evaluation
from prime_async.transport import check_timeout, deadline

__all__ = ["wait_until_terminal"]

_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 10.0
_GROWTH = 1.5
_DEFAULT_TIMEOUT = 86_400.0


async def wait_until_terminal(
    look: Callable[[], Awaitable[Evaluation]],
    evaluation_id: str,
    poll_interval: float | None,
    timeout: float | None,
) -> Evaluation:
    """Look until the status is final. A given interval is kept to exactly, never shortened."""
    if poll_interval is not None and not (
        isinstance(poll_interval, int | float) and poll_interval > 0
    ):
        raise UsageError(
            f"poll_interval is {poll_interval!r}; it must be a positive number of seconds",
            field="poll_interval",
        )
    seconds = check_timeout(timeout, _DEFAULT_TIMEOUT)
    pause = poll_interval or _FIRST_PAUSE
    with deadline(seconds, f"waiting for evaluation {evaluation_id}"):
        while True:
            evaluation = await look()
            if (evaluation.status or "").upper() in TERMINAL_STATUSES:
                return evaluation
            await anyio.sleep(pause)
            if poll_interval is None:
                pause = min(_LONGEST_PAUSE, pause * _GROWTH)
    raise AssertionError("the deadline above returns or raises")
