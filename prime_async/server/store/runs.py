"""Training runs in the store, and finding either kind of run. What an account may see is decided
here, in the query itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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

from prime_async.runs.wire import RunKind
from prime_async.server.auth import Caller
from prime_async.server.store import evaluations
from prime_async.server.store.schema import evaluations as evaluations_table
from prime_async.server.store.schema import metric_rows
from prime_async.server.store.schema import training_runs as table

__all__ = [
    "Filter",
    "Lapse",
    "OPEN",
    "Subject",
    "change",
    "create",
    "find",
    "lapse",
    "page",
    "remove",
    "revive",
    "subject",
]

_LATEST_STEP = (
    select(func.max(metric_rows.c.step))
    .where(metric_rows.c.kind == "train", metric_rows.c.run == table.c.number)
    .scalar_subquery()
    .label("latest_step")
)
# Statements on the way of every request are built once: building one costs more than running it.
_BY_ID = select(table, _LATEST_STEP).where(table.c.id == bindparam("id"))
_BY_NUMBER = select(table, _LATEST_STEP).where(table.c.number == bindparam("number"))
_ACCESS = select(table.c.number, table.c.account_id, table.c.team_id).where(
    table.c.id == bindparam("id")
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A run of either kind, as rows in other tables refer to it."""

    kind: RunKind
    number: int


@dataclass(frozen=True, slots=True)
class Filter:
    """Which training runs a list asks for; ``before`` is the number of the last one seen."""

    team_id: str | None = None
    status: str | None = None
    before: int | None = None


def find(connection: Connection, run_id: str, caller: Caller) -> RowMapping | None:
    """A training run of the caller or of one of his teams."""
    row = connection.execute(_BY_ID, {"id": run_id}).mappings().first()
    return row if row is not None and _mine(row, caller) else None


def subject(
    connection: Connection, kind: RunKind, run_id: str, caller: Caller, *, public: bool = False
) -> Subject | None:
    """A run of either kind that the caller may change, or (``public``) may at least read."""
    if kind == "eval":
        found = evaluations.access(connection, run_id, caller, public=public)
        return None if found is None else Subject("eval", found.number)
    row = connection.execute(_ACCESS, {"id": run_id}).mappings().first()
    return Subject("train", row["number"]) if row is not None and _mine(row, caller) else None


def _mine(row: RowMapping, caller: Caller) -> bool:
    team = row["team_id"]
    mine: bool = row["account_id"] == caller.account.id if team is None else team in caller.teams
    return mine


def create(connection: Connection, row: Mapping[str, Any]) -> RowMapping:
    """Insert a training run."""
    made = connection.execute(insert(table).values(dict(row)).returning(table.c.number))
    return _by_number(connection, made.scalar_one())


def change(connection: Connection, number: int, values: Mapping[str, Any]) -> RowMapping:
    """Change columns of a training run."""
    connection.execute(update(table).where(table.c.number == number).values(dict(values)))
    return _by_number(connection, number)


def _by_number(connection: Connection, number: int) -> RowMapping:
    return connection.execute(_BY_NUMBER, {"number": number}).mappings().one()


def remove(connection: Connection, number: int) -> None:
    """Delete a training run; what it reported is out of reach at once and purged afterwards."""
    connection.execute(delete(table).where(table.c.number == number))


def page(
    connection: Connection, caller: Caller, wanted: Filter, limit: int
) -> Sequence[RowMapping]:
    """Training runs, newest first; one more than ``limit`` when there is a next page."""
    query = select(table, _LATEST_STEP).where(_where(caller, wanted))
    return (
        connection.execute(query.order_by(table.c.number.desc()).limit(limit + 1)).mappings().all()
    )


def _where(caller: Caller, wanted: Filter) -> ColumnElement[bool]:
    team = caller.team(wanted.team_id)
    own = and_(table.c.account_id == caller.account.id, table.c.team_id.is_(None))
    mine = or_(own, table.c.team_id.in_(list(caller.teams)))
    conditions = [mine if team is None else table.c.team_id == team]
    if wanted.status is not None:
        conditions.append(table.c.status == wanted.status)
    if wanted.before is not None:
        conditions.append(table.c.number < wanted.before)
    return and_(*conditions)


OPEN = ("PENDING", "RUNNING")
"""Statuses of a run that is not closed."""

_TABLES = {
    "eval": (evaluations_table, "finalized_at"),
    "train": (table, "completed_at"),
}


@dataclass(frozen=True, slots=True)
class Lapse:
    """The end of a run whose client fell silent."""

    kind: RunKind
    run_id: str
    message: str
    now: float


def lapse(connection: Connection, end: Lapse) -> bool:
    """Mark an open run failed because its client is silent; say whether it was open."""
    runs, closed_at = _TABLES[end.kind]
    values = {
        "status": "FAILED",
        "error_message": end.message,
        "lapsed": True,
        "updated_at": end.now,
        closed_at: end.now,
    }
    here = (runs.c.id == end.run_id) & runs.c.status.in_(OPEN)
    return bool(connection.execute(update(runs).where(here).values(values)).rowcount)


def revive(connection: Connection, kind: RunKind, number: int, now: float) -> str:
    """Open a run again that was closed for silence only; return its status then."""
    runs, closed_at = _TABLES[kind]
    here = runs.c.number == number
    values = {
        "status": "RUNNING",
        "error_message": None,
        "lapsed": False,
        "updated_at": now,
        closed_at: None,
    }
    connection.execute(update(runs).where(here & runs.c.lapsed).values(values))
    status: str = connection.execute(select(runs.c.status).where(here)).scalar_one()
    return status
