"""Requests about one thing that has a name: a 404 says what is missing."""

from __future__ import annotations

from typing import Any

from prime_async.api import AsyncAPIClient
from prime_async.errors import NotFoundError
from prime_async.transport import Response

__all__ = ["send_about"]


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
