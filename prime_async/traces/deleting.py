"""Deletes, which are repeated only where the first try provably did nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prime_async.errors import APIError
from prime_async.traces.codes import BUSY_CODES
from prime_async.traces.errors import AmbiguousDeleteError
from prime_async.transport import Replay, Response, Transport

__all__ = ["delete"]

_TRIES = 3


async def delete(
    transport: Transport, path: str, params: Mapping[str, Any] | None, timeout: float | None
) -> Response:
    """Send a DELETE.

    A repeated delete of something that is gone answers 404, like one of something that never was:
    so it is sent again only when it never arrived, or when the service itself says that it did
    nothing (429, or 503 with one of its own codes).

    Raises:
        AmbiguousDeleteError: it may have been carried out, and no answer tells.
        APIError: the child of the answer's status.
    """
    try:
        return await transport.request(
            "DELETE",
            path,
            params=params,
            timeout=timeout,
            replay=Replay.NEVER,
            refused_by=BUSY_CODES,
            tries=_TRIES,
        )
    except APIError as error:
        if error.ambiguous:
            raise _ambiguous(error) from error
        raise


def _ambiguous(error: APIError) -> AmbiguousDeleteError:
    return AmbiguousDeleteError(
        f"it is not known whether the delete was carried out: {error.message}",
        status=error.status,
        code=error.code,
        detail=error.detail,
        request_id=error.request_id,
        method=error.method,
        url=error.url,
        retry_after=error.retry_after,
        ambiguous=True,
        hint="delete it again: 404 means that it is gone",
    )
