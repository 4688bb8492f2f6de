"""Making something once: a request with an unknown outcome is not sent again but looked after."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import anyio

from prime_async.api import AsyncAPIClient
from prime_async.errors import APIError
from prime_async.transport import IDEMPOTENCY, check_timeout, time_left

__all__ = ["SETTLE_SECONDS", "make_once"]

SETTLE_SECONDS = 10.0
"""Seconds to find out what became of a request, beyond those of the call."""

T = TypeVar("T")


async def make_once(
    api: AsyncAPIClient,
    send: Callable[[float], Awaitable[T]],
    look: Callable[[float], Awaitable[Mapping[str, T]]],
    timeout: float | None,
) -> T:
    """Send a request that makes something and return what it made.

    A platform that recognises a repeated key is simply asked again, by the transport. With any
    other, what is there before is compared with what is there once the outcome is unknown: one
    new thing is the one that was made.

    Args:
        send: sends it, with a key, within so many seconds.
        look: returns, by id, all that it could have made, within so many seconds.
        timeout: seconds for both; default 60.

    Raises:
        APIError: of the request; still ``.ambiguous`` when looking did not tell.
    """
    transport = await api.connect()
    until = anyio.current_time() + check_timeout(timeout, transport.timeout)
    before = None if IDEMPOTENCY in transport.features else await look(time_left(until))
    try:
        return await send(time_left(until))
    except APIError as error:
        made = [] if before is None or not error.ambiguous else await _made_since(before, look)
        if len(made) != 1:
            raise
        return made[0]


async def _made_since(
    before: Mapping[str, T], look: Callable[[float], Awaitable[Mapping[str, T]]]
) -> list[T]:
    try:
        found = await look(SETTLE_SECONDS)
    except APIError:
        return []  # the first error is the one to be told
    return [thing for name, thing in found.items() if name not in before]
