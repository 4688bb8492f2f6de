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


class Living(Struct, kw_only=True):
    """Answer: the ids of the sandboxes that run."""

    sandboxes: list[str]


class EndAll(Living, kw_only=True):
    """Answer: how many things were ended, and which."""

    ended: int


async def living(call: Call) -> Reply:
    """Name the sandboxes of every account that run here, and go on when the platform stops."""
    _only_owner(call)
    return answer(Living(sandboxes=sorted(call.platform.sandboxes.fleet.live)))


async def end_all(call: Call) -> Reply:
    """End every sandbox of every account, so that the platform can be stopped for good."""
    # Twice is the same as once: the key is checked and not needed.
    _ = call.key_text
    _only_owner(call)
    fleet = call.platform.sandboxes.fleet
    ending = fleet.ids
    limit = anyio.CapacityLimiter(_AT_ONCE)

    async def end(sandbox_id: str) -> None:
        async with limit:
            await fleet.end(sandbox_id, deleted("PLATFORM_STOPPED"))

    async with anyio.create_task_group() as group:
        for sandbox_id in ending:
            group.start_soon(end, sandbox_id)
    return answer(EndAll(ended=len(ending), sandboxes=ending))


def _only_owner(call: Call) -> None:
    if call.caller.account.slug != OWNER_SLUG:
        raise RequestError(403, "not_the_owner", "only the owner of this platform may do that")


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/local/living",
        living,
        "Name what lives in this platform",
        {200: Living, 403: ErrorAnswer},
    ),
    Endpoint(
        "POST",
        "/local/end-all",
        end_all,
        "End everything that lives in this platform",
        {200: EndAll, 403: ErrorAnswer},
    ),
)
