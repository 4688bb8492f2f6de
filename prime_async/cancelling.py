"""Whose a ``CancelledError`` is: of who ends a task, or of something that the task waited for."""

from __future__ import annotations

import asyncio

__all__ = ["is_cancelled"]


def is_cancelled() -> bool:
    """Say whether somebody asked the current task to end; to be asked where the error arrived.

    Where nobody did, a ``CancelledError`` comes out of code of the user that awaited something
    cancelled: an error like any other, which must not end a task in silence.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
