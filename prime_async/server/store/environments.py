"""The environments hub's records. What an account may see is decided here, in the query itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, func, insert, or_, select

from prime_async.server.auth import Caller
from prime_async.server.identifiers import new_id
from prime_async.server.store.schema import environments as table

__all__ = ["EnvironmentFilter", "find", "find_by_name", "make", "missing", "page"]

_ORDER = {"name": table.c.name, "created_at": table.c.created_at, "updated_at": table.c.updated_at}


@dataclass(frozen=True, slots=True)
class EnvironmentFilter:
    """Which environments a list asks for, and in which order."""

    owner: str | None = None
    visibility: str | None = None
    search: str | None = None
    mine_only: bool = False
    sort_by: str = "name"
    descending: bool = False


def find(connection: Connection, environment_id: str, caller: Caller) -> RowMapping | None:
    """An environment by id, when the caller may see it."""
    query = select(table).where(table.c.id == environment_id, _visible(caller))
    return connection.execute(query).mappings().first()


def find_by_name(
    connection: Connection, owner: str, name: str, caller: Caller | None
) -> RowMapping | None:
    """An environment by owner and name; None as the caller looks past what it may see."""
    query = select(table).where(table.c.owner == owner, table.c.name == name)
    if caller is not None:
        query = query.where(_visible(caller))
    return connection.execute(query).mappings().first()


def missing(connection: Connection, ids: list[str], caller: Caller) -> list[str]:
    """Those of the ids that the caller cannot see."""
    query = select(table.c.id).where(table.c.id.in_(ids), _visible(caller))
    found = set(connection.execute(query).scalars())
    return [one for one in ids if one not in found]


def make(
    connection: Connection,
    owner: str,
    name: str,
    account_id: str,
    team_id: str | None,
    visibility: str,
    now: float,
) -> RowMapping:
    """Insert an environment."""
    row = {
        "id": new_id(),
        "owner": owner,
        "name": name,
        "account_id": account_id,
        "team_id": team_id,
        "visibility": visibility,
        "description": None,
        "created_at": now,
        "updated_at": now,
    }
    return connection.execute(insert(table).values(row).returning(table)).mappings().one()


def page(
    connection: Connection, caller: Caller, wanted: EnvironmentFilter, offset: int, limit: int
) -> tuple[Sequence[RowMapping], int]:
    """One page of environments and how many there are."""
    where = _where(caller, wanted)
    total = connection.execute(select(func.count()).select_from(table).where(where)).scalar_one()
    column: Any = _ORDER[wanted.sort_by]
    order = column.desc() if wanted.descending else column
    query = select(table).where(where).order_by(order, table.c.id).offset(offset).limit(limit)
    return connection.execute(query).mappings().all(), total


def _where(caller: Caller, wanted: EnvironmentFilter) -> ColumnElement[bool]:
    conditions = [_mine(caller) if wanted.mine_only else _visible(caller)]
    if wanted.owner is not None:
        conditions.append(table.c.owner == wanted.owner)
    if wanted.visibility is not None:
        conditions.append(table.c.visibility == wanted.visibility)
    if wanted.search is not None:
        conditions.append(table.c.name.icontains(wanted.search, autoescape=True))
    return and_(*conditions)


def _mine(caller: Caller) -> ColumnElement[bool]:
    own = and_(table.c.account_id == caller.account.id, table.c.team_id.is_(None))
    return or_(own, table.c.team_id.in_(list(caller.teams)))


def _visible(caller: Caller) -> ColumnElement[bool]:
    return or_(_mine(caller), table.c.visibility == "PUBLIC")
