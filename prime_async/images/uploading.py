"""Sending a build context to the address that the platform names."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from prime_async.errors import ProtocolError
from prime_async.images.context import ContextBody
from prime_async.transport import Transport

__all__ = ["upload_context"]

_CONNECTIONS = 1


async def upload_context(url: str, body: ContextBody, timeout: float) -> None:
    """PUT a context.

    The address is the permission to write there: it goes without our key, follows no redirect, and
    its query, which holds the signature, appears in no error.

    Raises:
        ProtocolError: the address is none.
        APIError: it was refused, or did not get through.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ProtocolError("the platform names no address to upload the build context to")
    transport = Transport(
        base_url=f"{parts.scheme}://{parts.netloc}",
        prefix="",
        connections=_CONNECTIONS,
        follow_redirects=False,
    )
    try:
        await transport.request(
            "PUT",
            parts.path or "/",
            params=_query(parts.query),
            body=body,
            timeout=timeout,
            auth=False,
        )
    finally:
        await transport.aclose()


def _query(text: str) -> dict[str, list[str]]:
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        query.setdefault(name, []).append(value)
    return query
