"""How a block ends, and so how its run does."""

from __future__ import annotations

import asyncio
import signal

from prime_async import signals
from prime_async.runs.options import DeliveryOptions, RunStatus

__all__ = ["ended_by", "reason_of"]


def reason_of(error: BaseException | str) -> str:
    """Return the reason that an exception is: ``Type: message``."""
    if isinstance(error, str):
        return error
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def ended_by(
    error: BaseException | None, options: DeliveryOptions
) -> tuple[RunStatus, str | None, float]:
    """Return status, reason and seconds for the delivery, of a block that this exception leaves.

    Who is told to stop has the time of an exit and no more; what is not delivered by then is kept.
    """
    if error is None:
        return RunStatus.COMPLETED, None, options.finish_timeout
    told = isinstance(error, KeyboardInterrupt | asyncio.CancelledError | SystemExit)
    if told and signals.delivered() == signal.SIGTERM:
        return RunStatus.CRASHED, "ended by SIGTERM", options.exit_timeout
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return RunStatus.COMPLETED, None, options.finish_timeout
        return RunStatus.FAILED, f"SystemExit: {error.code}", options.finish_timeout
    if told:
        return RunStatus.CANCELLED, "interrupted", options.exit_timeout
    return RunStatus.FAILED, reason_of(error), options.finish_timeout
