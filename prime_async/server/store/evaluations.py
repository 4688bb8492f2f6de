"""Evaluations in the store. What an account may see is decided here, in the query itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from prime_async.evals.requests import EnvironmentReference
from prime_async.server.auth import Caller
from prime_async.server.store.schema import environments, evaluation_environments
from prime_async.server.store.schema import evaluations as table

__all__ = ["Filter", "Stored", "change", "create", "find", "page", "remove"]


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored evaluation: its columns and its environments as (id, owner, name), in order."""

    row: RowMapping
    environments: Sequence[tuple[str, str | None, str | None]]

    @property
    def number(self) -> int:
        """The row's number, which other tables refer to."""
        number: int = self.row["number"]
        return number


@dataclass(frozen=True, slots=True)
class Filter:
    """Which evaluations a list asks for; ``environment`` is a name or owner/name."""

    environment: str | None = None
    suite_id: str | None = None
    team_id: str | None = None


def mine(caller: Caller) -> ColumnElement[bool]:
    """The evaluations of an account and of its teams."""
    own = and_(table.c.account_id == caller.account.id, table.c.team_id.is_(None))
    return or_(own, table.c.team_id.in_(list(caller.teams)))


def find(
    connection: Connection, evaluation_id: str, caller: Caller, *, public: bool = False
) -> Stored | None:
    """An evaluation the caller may change, or (``public``) may at least read."""
    allowed = or_(mine(caller), table.c.is_public) if public else mine(caller)
    query = select(table).where(table.c.id == evaluation_id, allowed)
    row = connection.execute(query).mappings().first()
    return None if row is None else _with_environments(connection, [row])[0]


def create(
    connection: Connection, row: Mapping[str, Any], references: Sequence[EnvironmentReference]
) -> Stored:
    """Insert an evaluation and its environments."""
    made = connection.execute(insert(table).values(dict(row)).returning(table.c.number))
    number: int = made.scalar_one()
    links = [
        {
            "evaluation": number,
            "position": position,
            "environment_id": reference.id,
            "version_id": reference.version_id,
        }
        for position, reference in enumerate(references)
    ]
    if links:
        connection.execute(insert(evaluation_environments), links)
    stored = connection.execute(select(table).where(table.c.number == number)).mappings().one()
    return _with_environments(connection, [stored])[0]


def change(connection: Connection, number: int, values: Mapping[str, Any]) -> Stored:
    """Change columns of an evaluation."""
    connection.execute(update(table).where(table.c.number == number).values(dict(values)))
    row = connection.execute(select(table).where(table.c.number == number)).mappings().one()
    return _with_environments(connection, [row])[0]


def remove(connection: Connection, number: int) -> None:
    """Delete an evaluation; its samples are out of reach at once and purged afterwards."""
    links = evaluation_environments
    connection.execute(delete(links).where(links.c.evaluation == number))
    connection.execute(delete(table).where(table.c.number == number))


def page(
    connection: Connection, caller: Caller, wanted: Filter, skip: int, limit: int
) -> tuple[list[Stored], int]:
    """One page of evaluations, newest first, and how many there are."""
    where = _where(caller, wanted)
    total = connection.execute(select(func.count()).select_from(table).where(where)).scalar_one()
    query = select(table).where(where).order_by(table.c.number.desc()).offset(skip).limit(limit)
    rows = connection.execute(query).mappings().all()
    return _with_environments(connection, rows), total


def _where(caller: Caller, wanted: Filter) -> ColumnElement[bool]:
    team = caller.team(wanted.team_id)
    conditions = [mine(caller) if team is None else table.c.team_id == team]
    if wanted.suite_id is not None:
        conditions.append(table.c.suite_id == wanted.suite_id)
    if wanted.environment is not None:
        conditions.append(table.c.number.in_(_in_environment(wanted.environment)))
    return and_(*conditions)


def _in_environment(name: str) -> Any:
    owner, slash, short = name.rpartition("/")
    named = environments.c.name == short
    if slash:
        named = and_(named, environments.c.owner == owner)
    links = evaluation_environments
    return (
        select(links.c.evaluation)
        .join(environments, environments.c.id == links.c.environment_id)
        .where(named)
    )


def _with_environments(connection: Connection, rows: Sequence[RowMapping]) -> list[Stored]:
    by_number = _environments_of(connection, [row["number"] for row in rows])
    return [Stored(row, by_number.get(row["number"], [])) for row in rows]


def _environments_of(
    connection: Connection, numbers: Collection[int]
) -> dict[int, list[tuple[str, str | None, str | None]]]:
    links = evaluation_environments
    query = (
        select(
            links.c.evaluation, links.c.environment_id, environments.c.owner, environments.c.name
        )
        .outerjoin(environments, environments.c.id == links.c.environment_id)
        .where(links.c.evaluation.in_(list(numbers)))
        .order_by(links.c.evaluation, links.c.position)
    )
    found: dict[int, list[tuple[str, str | None, str | None]]] = {}
    for number, environment_id, owner, name in connection.execute(query):
        found.setdefault(number, []).append((environment_id, owner, name))
    return found
