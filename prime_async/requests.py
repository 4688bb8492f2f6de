"""What every method does: check numbers, leave out what is not given, send, type the answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import anyio
import msgspec

from prime_async.api import AsyncAPIClient
from prime_async.errors import NotFoundError, UsageError
from prime_async.models import Record
from prime_async.transport import DEFAULT_TIMEOUT, Response, check_timeout, time_left

__all__ = [
    "DAY",
    "PageClock",
    "check_interval",
    "check_range",
    "given",
    "read_record",
    "send_about",
]

R = TypeVar("R", bound=Record)

DAY = 86_400.0
"""Seconds: the default of calls that wait, push, go through pages or through what is on disk."""


def given(body: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the fields that are None: on this wire, leaving out means leaving alone."""
    return {key: value for key, value in body.items() if value is not None}


def read_record(response: Response, model: type[R]) -> R:
    """Read the object of an answer as a model.

    Raises:
        ProtocolError: the answer does not fit; the message names the field.
    """
    try:
        return model.from_wire(response.json())
    except msgspec.ValidationError as error:
        raise response.broken(f"does not fit {model.__name__}: {error}") from error


def check_range(field: str, value: int, lowest: int, highest: int | None = None) -> None:
    """Check a whole number.

    Raises:
        UsageError: names the field and its bounds.
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < lowest or (highest is not None and value > highest):
        bounds = f"at least {lowest}" if highest is None else f"{lowest} to {highest}"
        raise UsageError(f"{field} is {value!r}; it must be a whole number, {bounds}", field=field)


def check_interval(seconds: float | None) -> float | None:
    """Check the seconds between two looks; None is left to whoever looks.

    Raises:
        UsageError: not a positive, finite number.
    """
    if seconds is None:
        return None
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 < seconds < math.inf:
        raise UsageError(
            f"poll_interval is {seconds!r}; it must be a positive number of seconds",
            field="poll_interval",
        )
    return float(seconds)


async def send_about(
    api: AsyncAPIClient, what: str, method: str, path: str, **options: Any
) -> Response:
    """Send a request.

    Args:
        what: the thing it is about, such as ``checkpoint ckpt_1``.
        options: those of :meth:`~prime_async.transport.Transport.request`.

    Raises:
        NotFoundError: there is no such thing.
        APIError: any other refusal.
    """
    transport = await api.connect()
    try:
        return await transport.request(method, path, **options)
    except NotFoundError as error:
        raise NotFoundError(
            f"there is no {what}",
            status=404,
            code=error.code,
            detail=error.detail,
            request_id=error.request_id,
            method=error.method,
            url=error.url,
        ) from error


class PageClock:
    """The time of an iteration over pages: so long in all, and no page longer than a plain call.

    Args:
        timeout: seconds for all of it; default 86,400 (a day), and 60 for each page.

    Raises:
        UsageError: `timeout` is not a positive number.
    """

    def __init__(self, timeout: float | None) -> None:
        self._page = math.inf if timeout is not None else DEFAULT_TIMEOUT
        self._until = anyio.current_time() + check_timeout(timeout, DAY)

    def next(self) -> float:
        """Return the seconds the next page may take."""
        return min(self._page, time_left(self._until))
