"""Refusals as OTLP has them: a ``Status``, in the encoding of the request.

In JSON it stands beside the common form, so that both kinds of clients find what they look for.
"""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from prime_async.server.failures import RequestError
from prime_async.server.otlp.schema import message_class

__all__ = ["PROTOBUF", "refusal_response"]

PROTOBUF = "application/x-protobuf"

_UNKNOWN, _INVALID_ARGUMENT = 2, 3
_CODES = {
    401: 16,  # unauthenticated
    403: 7,  # permission denied
    408: 4,  # deadline exceeded
    429: 8,  # resource exhausted
    503: 14,  # unavailable
}


def refusal_response(request: web.Request, failure: RequestError) -> web.Response:
    """The answer of a refused export."""
    code = _CODES.get(failure.status, _INVALID_ARGUMENT if failure.status < 500 else _UNKNOWN)
    body, media = _encoded(request, failure, code)
    return web.Response(
        status=failure.status, body=body, content_type=media, headers=failure.headers
    )


def _encoded(request: web.Request, failure: RequestError, code: int) -> tuple[bytes, str]:
    if request.content_type == PROTOBUF:
        status: Any = message_class("Refusal")(code=code, message=failure.message)
        return status.SerializeToString(), PROTOBUF
    common = msgspec.json.decode(failure.body())
    status = {"code": code, "message": failure.message, **common}
    return msgspec.json.encode(status), "application/json"
