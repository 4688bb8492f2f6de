"""Who the key belongs to, and its teams."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from prime_async.server.answers import answer
from prime_async.server.clock import timestamp
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer

__all__ = ["ENDPOINTS"]


class WhoamiQuery(Struct, kw_only=True):
    """Query of whoami: the team to ask for."""

    teamId: str | None = None  # noqa: N815  # spelled so on the wire


class TeamsQuery(Struct, kw_only=True):
    """Query of the teams list."""

    offset: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class User(Struct, kw_only=True):
    """An account; there are no limits on this platform."""

    id: str
    email: str
    name: str
    slug: str
    scope: dict[str, Any] | None = None
    account_limits: dict[str, Any] = {}
    key_limits: dict[str, Any] = {}


class Whoami(Struct, kw_only=True):
    """Answer of whoami."""

    data: User


class Team(Struct, kw_only=True, rename="camel"):
    """A team and the caller's role in it."""

    team_id: str
    name: str
    slug: str
    role: str
    created_at: str


class Teams(Struct, kw_only=True):
    """Answer of the teams list."""

    data: list[Team]
    total_count: int
    offset: int
    limit: int


async def whoami(call: Call) -> Reply:
    """Name the account of the key."""
    query: WhoamiQuery = call.query
    call.caller.team(query.teamId)
    account = call.caller.account
    user = User(id=account.id, email=account.email, name=account.name, slug=account.slug)
    return answer(Whoami(data=user))


async def teams(call: Call) -> Reply:
    """List the teams of the account."""
    query: TeamsQuery = call.query
    everything = [
        Team(
            team_id=one.team_id,
            name=one.name,
            slug=one.slug,
            role=one.role,
            created_at=timestamp(one.created_at),
        )
        for one in call.caller.teams.values()
    ]
    page = everything[query.offset : query.offset + query.limit]
    return answer(
        Teams(data=page, total_count=len(everything), offset=query.offset, limit=query.limit)
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/user/whoami",
        whoami,
        "Who the key belongs to",
        {200: Whoami, 404: ErrorAnswer},
        query=WhoamiQuery,
    ),
    Endpoint("GET", "/user/teams", teams, "The account's teams", {200: Teams}, query=TeamsQuery),
)
