"""The environments hub as evaluations need it: lookup, resolve (get or create), details, list.

Every account and team owns the environments under its slug. An owner that no account or team here
has (as in results that were made on another platform) may be written by anyone: whoever resolves
``owner/name`` first has it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import Connection, RowMapping

from prime_async.server.answers import Answer, answer
from prime_async.server.auth import Caller
from prime_async.server.clock import timestamp
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError
from prime_async.server.identifiers import NAME_PATTERN
from prime_async.server.store import accounts, environments
from prime_async.server.store.environments import EnvironmentFilter

__all__ = ["ENDPOINTS"]

Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
Visibility = Literal["PUBLIC", "PRIVATE"]


class LookupRequest(Struct, kw_only=True):
    """Body of a lookup."""

    id: str


class ResolveRequest(Struct, kw_only=True):
    """Body of resolve: the name, and at most one of the three ways to name the owner (else the
    account).
    """

    name: Name
    visibility: Visibility | None = None
    owner_slug: Name | None = None
    team_slug: Name | None = None
    team_id: str | None = None


class ListQuery(Struct, kw_only=True):
    """Query of the hub's list."""

    offset: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    sort_by: Literal["name", "created_at", "updated_at"] = "name"
    sort_order: Literal["asc", "desc"] = "asc"
    owner: str | None = None
    visibility: Visibility | UnsetType = UNSET
    search: str | None = None
    mine_only: bool = False


class Owner(Struct, kw_only=True):
    """Who an environment belongs to."""

    name: str


class EnvironmentDetails(Struct, kw_only=True):
    """An environment; there are no versions on this platform yet."""

    id: str
    name: str
    owner: Owner
    visibility: Visibility
    description: str | None
    metadata: dict[str, Any]
    semantic_version: str | None
    latest_version: dict[str, Any] | None
    tags: list[str]
    stars: int
    created_at: str
    updated_at: str
    created: bool | None = None


class Details(Struct, kw_only=True):
    """Answer of lookup, resolve (with ``created``) and details."""

    data: EnvironmentDetails


class EnvironmentPage(Struct, kw_only=True):
    """Answer of the hub's list."""

    data: list[EnvironmentDetails]
    total_count: int
    offset: int
    limit: int


async def lookup(call: Call) -> Reply:
    """Say whether an id exists."""
    body: LookupRequest = call.body
    caller = call.caller

    def read(connection: Connection) -> Answer:
        row = environments.find(connection, body.id, caller)
        if row is None:
            raise _not_found(f"no environment has the id {body.id[:100]}")
        return answer(Details(data=_details(row)))

    return await call.commit(read)


async def resolve(call: Call) -> Reply:
    """Find an environment by owner and name, or make it."""
    body: ResolveRequest = call.body
    caller = call.caller
    now = call.platform.clock.now()

    def write(connection: Connection) -> Answer:
        owner, team_id = _owner(connection, body, caller)
        row = environments.find_by_name(connection, owner, body.name, None)
        if row is not None:
            if environments.find(connection, row["id"], caller) is None:
                raise RequestError(
                    403, "environment_taken", f"{owner}/{body.name} is another account's"
                )
            return answer(Details(data=_details(row, created=False)))
        made = environments.make(
            connection,
            owner,
            body.name,
            caller.account.id,
            team_id,
            body.visibility or "PRIVATE",
            now,
        )
        return answer(Details(data=_details(made, created=True)))

    return await call.commit(write)


def _owner(connection: Connection, body: ResolveRequest, caller: Caller) -> tuple[str, str | None]:
    """The owner's slug to write under, and the team it stands for."""
    team_id = caller.team(body.team_id)
    if team_id is not None:
        return caller.teams[team_id].slug, team_id
    slug = body.team_slug or body.owner_slug or caller.account.slug
    for team in caller.teams.values():
        if team.slug == slug:
            return slug, team.team_id
    if body.team_slug is not None:
        raise RequestError(404, "team_not_found", "no team with this slug is yours")
    if slug != caller.account.slug and accounts.is_taken(connection, slug):
        raise RequestError(403, "owner_refused", f"you cannot make environments of {slug}")
    return slug, None


async def details(call: Call) -> Reply:
    """Read an environment by owner, name and version; only ``latest`` exists here."""
    owner, name, version = (call.path[part] for part in ("owner", "name", "version"))
    row = call.platform.database.point(
        lambda reader: environments.find_by_name(reader, owner, name, call.caller)
    )
    if row is None:
        raise _not_found(f"no environment {owner}/{name}")
    if version != "latest":
        raise RequestError(404, "version_not_found", f"{owner}/{name} has no version {version}")
    return answer(Details(data=_details(row)))


async def list_page(call: Call) -> Reply:
    """Read one page of the hub."""
    query: ListQuery = call.query
    caller = call.caller
    wanted = EnvironmentFilter(
        query.owner or None,
        query.visibility or None,
        query.search or None,
        query.mine_only,
        query.sort_by,
        query.sort_order == "desc",
    )

    def read(connection: Connection) -> Answer:
        rows, total = environments.page(connection, caller, wanted, query.offset, query.limit)
        page = [_details(row) for row in rows]
        return answer(
            EnvironmentPage(data=page, total_count=total, offset=query.offset, limit=query.limit)
        )

    return await call.platform.database.scan(read)


def _details(row: RowMapping, *, created: bool | None = None) -> EnvironmentDetails:
    return EnvironmentDetails(
        id=row["id"],
        name=row["name"],
        owner=Owner(name=row["owner"]),
        visibility=row["visibility"],
        description=row["description"],
        metadata={"description": row["description"]},
        semantic_version=None,
        latest_version=None,
        tags=[],
        stars=0,
        created_at=timestamp(row["created_at"]),
        updated_at=timestamp(row["updated_at"]),
        created=created,
    )


def _not_found(message: str) -> RequestError:
    return RequestError(404, "environment_not_found", message)


_ERRORS = {404: ErrorAnswer, 409: ErrorAnswer}

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/environmentshub/",
        list_page,
        "List environments",
        {200: EnvironmentPage},
        query=ListQuery,
    ),
    Endpoint(
        "POST",
        "/environmentshub/lookup",
        lookup,
        "Look an environment up by id",
        {200: Details, **_ERRORS},
        body=LookupRequest,
    ),
    Endpoint(
        "POST",
        "/environmentshub/resolve",
        resolve,
        "Find or make an environment by name",
        {200: Details, 403: ErrorAnswer, **_ERRORS},
        body=ResolveRequest,
    ),
    Endpoint(
        "GET",
        "/environmentshub/{owner}/{name}/@{version}",
        details,
        "Read an environment by owner and name",
        {200: Details, 404: ErrorAnswer},
    ),
)
