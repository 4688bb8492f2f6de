"""Files handed to an object store past the API, at an address that carries its own permission."""

from __future__ import annotations

from urllib.parse import urlsplit

from prime_async.errors import APIError, PayloadTooLargeError, ProtocolError
from prime_async.transport import BytesBody, Transport

__all__ = ["put_file"]

_TRIES = 3
_SECONDS = 300.0


async def put_file(address: str, data: bytes, content_type: str) -> None:
    """PUT a file to a presigned address: no key goes there, and the address goes nowhere else.

    Raises:
        PayloadTooLargeError: the file is too large for the store.
        TransportError: the store cannot be reached.
        ProtocolError: the address is none, or the store does not take the file there. Another
            address may be better.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ProtocolError("the address for the file is not one of http or https")
    origin = f"{parts.scheme}://{parts.netloc}"
    store = Transport(base_url=origin, prefix="", follow_redirects=False, signed=True)
    try:
        await store.request(
            "PUT",
            address[address.index(parts.netloc) + len(parts.netloc) :],
            body=BytesBody(data, content_type),
            timeout=_SECONDS,
            tries=_TRIES,
            auth=False,
        )
    except PayloadTooLargeError:
        raise
    except APIError as error:
        if error.status is None:
            raise
        # Whatever it says of the file, 403 for an old address say, is nothing about the records.
        raise ProtocolError(
            error.message,
            status=error.status,
            method=error.method,
            url=error.url,
            retry_after=error.retry_after,
        ) from error
    finally:
        await store.aclose()
