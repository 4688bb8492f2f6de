"""The access to many sandboxes at once (ours): a token for each, in one request."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from prime_async.sandboxes.models import BatchAccessResponse
from prime_async.server.answers import answer
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.routes.sandboxes import check_key, find_by_id, gateway_access

__all__ = ["ENDPOINTS"]

_BATCH = 100


class AccessBody(Struct, kw_only=True):
    """Body: the sandboxes."""

    sandbox_ids: Annotated[list[str], Meta(min_length=1, max_length=_BATCH)]


async def access_many(call: Call) -> Reply:
    """Hand out a token for the gateway of each sandbox that there is, as for a single one."""
    check_key(call)
    body: AccessBody = call.body
    found: list[dict[str, Any]] = []
    errors: list[dict[str, str]] = []
    for sandbox_id in body.sandbox_ids:
        row = find_by_id(call, sandbox_id)
        if row is None:
            message = f"no sandbox {sandbox_id}"
            errors.append({"sandbox_id": sandbox_id, "code": "NOT_FOUND", "message": message})
        else:
            found.append({"sandbox_id": sandbox_id, **gateway_access(call, row)})
    return answer({"accesses": found, "errors": errors})


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/sandbox/auth:batchGet",
        access_many,
        "Get tokens for the gateways of many sandboxes (ours)",
        {200: BatchAccessResponse},
        body=AccessBody,
    ),
)
