"""Waiting for room in the queue: the back-pressure of ``alog_*``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio

from prime_async.runs.blocks import Item
from prime_async.runs.records import Encoded

if TYPE_CHECKING:
    from prime_async.runs.core import RunCore

__all__ = ["put_when_there_is_room"]


async def put_when_there_is_room(core: RunCore, encoded: Encoded) -> None:
    """Put a record on the queue once it fits, or after ``put_timeout`` whatever the policy says.

    Raises:
        RunFinishedError: the run takes nothing more.
    """
    needed = Item(0, encoded.data).cost
    with anyio.move_on_after(core.options.put_timeout):
        while not core.queue.fits(needed) and not core.finishing:
            await _room_given_back(core, needed)
    if core.finishing:
        raise core.finished_error()
    core.put(encoded)


async def _room_given_back(core: RunCore, needed: int) -> None:
    loop = asyncio.get_running_loop()
    given = asyncio.Event()
    core.queue.on_room(lambda: loop.is_closed() or loop.call_soon_threadsafe(given.set))
    if not core.queue.fits(needed):  # asked again: it may have been given back meanwhile
        await given.wait()
