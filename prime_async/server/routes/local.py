"""What only the owner of this machine's platform may do with it."""

from __future__ import annotations

import anyio
from msgspec import Struct

from prime_async.server.answers import answer
from prime_async.server.auth import OWNER_SLUG
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError
from prime_async.server.sandboxes.endings import deleted

__all__ = ["ENDPOINTS"]

_AT_ONCE = 16


class EndAll(Struct, kw_only=True):
    """Answer: how many things were ended."""

    ended: int


async def end_all(call: Call) -> Reply:
    """End every sandbox of every account, so that the platform can be stopped for good."""
    # Twice is the same as once: the key is checked and not needed.
    _ = call.key_text
    if call.caller.account.slug != OWNER_SLUG:
        raise RequestError(403, "not_the_owner", "only the owner of this platform may do that")
    fleet = call.platform.sandboxes.fleet
    living = list(fleet.live)
    limit = anyio.CapacityLimiter(_AT_ONCE)

    async def end(sandbox_id: str) -> None:
        async with limit:
            await fleet.end(sandbox_id, deleted("PLATFORM_STOPPED"))

    async with anyio.create_task_group() as group:
        for sandbox_id in living:
            group.start_soon(end, sandbox_id)
    return answer(EndAll(ended=len(living)))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/local/end-all",
        end_all,
        "End everything that lives in this platform",
        {200: EndAll, 403: ErrorAnswer},
    ),
)
