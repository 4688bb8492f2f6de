"""Pauses between looks at something that is getting ready: short at first, then patient."""

from __future__ import annotations

import anyio

__all__ = ["FIRST_PAUSE", "LONGEST_PAUSE", "until_beat"]

FIRST_PAUSE = 0.1
"""Seconds between the first two looks; each pause is twice the one before."""

LONGEST_PAUSE = 6.4
"""Seconds; the first pause doubled six times, so that the beats of all pauses meet."""


def until_beat(pause: float, phase: float) -> float:
    """Return the seconds until the next multiple of the pause: all waiters of a client look at the
    same moments, so that their looks are one request.

    Args:
        phase: moves those moments, so that clients do not all look at once.
    """
    return pause - (anyio.current_time() + phase) % pause
