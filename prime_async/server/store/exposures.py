"""Exposed ports in the store. What an account may see is decided here, in the query itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, and_, delete, func, insert, or_, select

from prime_async.server.auth import Caller
from prime_async.server.store.schema import exposures as table
from prime_async.server.store.schema import sandboxes

__all__ = ["count", "create", "find", "find_same", "forget", "of_caller", "of_sandbox", "tcp"]


def create(connection: Connection, row: Mapping[str, Any]) -> RowMapping:
    """Insert an exposure."""
    made = connection.execute(insert(table).values(dict(row)).returning(*table.c))
    return made.mappings().one()


def find(connection: Connection, exposure_id: str) -> RowMapping | None:
    """An exposure by its id."""
    return connection.execute(select(table).where(table.c.id == exposure_id)).mappings().first()


def find_same(
    connection: Connection, sandbox_id: str, port: int, protocol: str
) -> RowMapping | None:
    """The exposure of a port of a sandbox."""
    same = (table.c.sandbox_id == sandbox_id) & (table.c.port == port)
    query = select(table).where(same & (table.c.protocol == protocol))
    return connection.execute(query).mappings().first()


def of_sandbox(connection: Connection, sandbox_id: str) -> Sequence[RowMapping]:
    """The exposures of a sandbox, the oldest first."""
    query = select(table).where(table.c.sandbox_id == sandbox_id).order_by(table.c.number)
    return connection.execute(query).mappings().all()


def of_caller(connection: Connection, caller: Caller) -> Sequence[RowMapping]:
    """The exposures of all sandboxes of the caller and his teams, the oldest first."""
    own = and_(sandboxes.c.account_id == caller.account.id, sandboxes.c.team_id.is_(None))
    mine = or_(own, sandboxes.c.team_id.in_(list(caller.teams)))
    query = (
        select(table)
        .join(sandboxes, sandboxes.c.id == table.c.sandbox_id)
        .where(mine)
        .order_by(table.c.number)
    )
    return connection.execute(query).mappings().all()


def tcp(connection: Connection) -> Sequence[RowMapping]:
    """All exposures that are listeners of this platform."""
    return connection.execute(select(table).where(table.c.protocol == "TCP")).mappings().all()


def count(connection: Connection) -> int:
    """How many there are."""
    total: int = connection.execute(select(func.count()).select_from(table)).scalar_one()
    return total


def forget(connection: Connection, exposure_id: str) -> None:
    """Note that a port is exposed no more."""
    connection.execute(delete(table).where(table.c.id == exposure_id))
