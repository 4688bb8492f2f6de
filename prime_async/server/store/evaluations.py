"""Evaluations in the store. What an account may see is decided here, in the query itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from prime_async.evals.requests import EnvironmentReference
from prime_async.server.auth import Caller
from prime_async.server.failures import RequestError
from prime_async.server.store.schema import environments
from prime_async.server.store.schema import evaluation_environments as links
from prime_async.server.store.schema import evaluations as table

__all__ = ["Access", "Filter", "Stored", "access", "change", "create", "find", "page", "remove"]


PAGE_BYTES = 64 * 1024 * 1024
"""Metadata and metrics in one page of evaluations."""

_SIZE = func.coalesce(func.length(table.c.metadata), 0) + func.coalesce(
    func.length(table.c.metrics), 0
)


class EnvironmentName(NamedTuple):
    """An environment of an evaluation; owner and name are None when the hub has lost it."""

    id: str
    owner: str | None
    name: str | None

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}" if self.owner else self.id


# Statements on the way of every request are built once: building one costs more than running it.
_BY_ID = select(table).where(table.c.id == bindparam("id"))
_BY_NUMBER = select(table).where(table.c.number == bindparam("number"))
_ACCESS = select(
    table.c.number, table.c.account_id, table.c.team_id, table.c.is_public, table.c.total_samples
).where(table.c.id == bindparam("id"))
_ENVIRONMENTS = (
    select(links.c.evaluation, links.c.environment_id, environments.c.owner, environments.c.name)
    .outerjoin(environments, environments.c.id == links.c.environment_id)
    .where(links.c.evaluation.in_(bindparam("numbers", expanding=True)))
    .order_by(links.c.evaluation, links.c.position)
)
_NO_ENVIRONMENTS: Sequence[EnvironmentName] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored evaluation: its columns and its environments, in order."""

    row: RowMapping
    environments: Sequence[EnvironmentName]

    @property
    def number(self) -> int:
        """The row's number, which other tables refer to."""
        number: int = self.row["number"]
        return number


@dataclass(frozen=True, slots=True)
class Access:
    """The number of an evaluation that the caller may use, and how many samples it holds."""

    number: int
    total_samples: int


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
    row = connection.execute(_BY_ID, {"id": evaluation_id}).mappings().first()
    if row is None or not _allowed(row, caller, public=public):
        return None
    return _with_environments(connection, [row])[0]


def access(
    connection: Connection, evaluation_id: str, caller: Caller, *, public: bool = False
) -> Access | None:
    """What :func:`find` finds, without reading all of it."""
    row = connection.execute(_ACCESS, {"id": evaluation_id}).mappings().first()
    if row is None or not _allowed(row, caller, public=public):
        return None
    return Access(row["number"], row["total_samples"])


def _allowed(row: RowMapping, caller: Caller, *, public: bool) -> bool:
    team = row["team_id"]
    mine = row["account_id"] == caller.account.id if team is None else team in caller.teams
    return mine or (public and row["is_public"])


def create(
    connection: Connection, row: Mapping[str, Any], references: Sequence[EnvironmentReference]
) -> Stored:
    """Insert an evaluation and its environments."""
    made = connection.execute(insert(table).values(dict(row)).returning(table.c.number))
    number: int = made.scalar_one()
    rows = [
        {
            "evaluation": number,
            "position": position,
            "environment_id": reference.id,
            "version_id": reference.version_id,
        }
        for position, reference in enumerate(references)
    ]
    if rows:
        connection.execute(insert(links), rows)
    return _by_number(connection, number)


def change(connection: Connection, number: int, values: Mapping[str, Any]) -> Stored:
    """Change columns of an evaluation."""
    connection.execute(update(table).where(table.c.number == number).values(dict(values)))
    return _by_number(connection, number)


def _by_number(connection: Connection, number: int) -> Stored:
    row = connection.execute(_BY_NUMBER, {"number": number}).mappings().one()
    return _with_environments(connection, [row])[0]


def remove(connection: Connection, number: int) -> None:
    """Delete an evaluation; its samples are out of reach at once and purged afterwards."""
    connection.execute(delete(links).where(links.c.evaluation == number))
    connection.execute(delete(table).where(table.c.number == number))


def page(
    connection: Connection, caller: Caller, wanted: Filter, skip: int, limit: int
) -> tuple[list[Stored], int]:
    """One page of evaluations, newest first, and how many there are.

    Raises:
        RequestError: 413 when the free-form objects of the page are larger than ``PAGE_BYTES``.
    """
    where = _where(caller, wanted)
    total = connection.execute(select(func.count()).select_from(table).where(where)).scalar_one()
    newest = table.c.number.desc()
    here = select(table.c.number).where(where).order_by(newest).offset(skip).limit(limit).subquery()
    page = table.c.number.in_(select(here.c.number))
    size = func.coalesce(func.sum(_SIZE), 0)
    if connection.execute(select(size).where(page)).scalar_one() > PAGE_BYTES:
        raise RequestError(
            413, "page_too_large", "these evaluations are too large for one page; lower limit"
        )
    rows = connection.execute(select(table).where(page).order_by(newest)).mappings().all()
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
    return (
        select(links.c.evaluation)
        .join(environments, environments.c.id == links.c.environment_id)
        .where(named)
    )


def _with_environments(connection: Connection, rows: Sequence[RowMapping]) -> list[Stored]:
    found: dict[int, list[EnvironmentName]] = {}
    numbers = [row["number"] for row in rows]
    for number, *name in connection.execute(_ENVIRONMENTS, {"numbers": numbers}):
        found.setdefault(number, []).append(EnvironmentName(*name))
    return [Stored(row, found.get(row["number"], _NO_ENVIRONMENTS)) for row in rows]
