"""Runs, which are nothing but their traces, added up."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    RowMapping,
    Select,
    Subquery,
    case,
    func,
    select,
    type_coerce,
)

from prime_async.server.store.schema import trace_uploads as uploads
from prime_async.server.store.schema import traces
from prime_async.server.store.trace_queries import Conditions, behind, in_time
from prime_async.server.traces.filters import RunListQuery

__all__ = ["exists", "find", "page", "steps"]


def _of_run(owner: str, run_id: str) -> Conditions:
    return [traces.c.owner == owner, traces.c.run_id == run_id, traces.c.current]


def _totals(conditions: Conditions) -> Select[Any]:
    """One row per run; ``context`` is that of its newest trace."""
    newest = _newest_context()
    return (
        select(
            traces.c.run_id,
            func.min(traces.c.created_at).label("first_created_at"),
            func.max(traces.c.created_at).label("last_created_at"),
            func.max(traces.c.ingested_at).label("last_ingested_at"),
            func.count().label("trace_count"),
            func.count(traces.c.episode_id.distinct()).label("episode_count"),
            func.avg(traces.c.reward).label("avg_reward"),
            func.min(traces.c.run_step).label("step_min"),
            func.max(traces.c.run_step).label("step_max"),
            func.count(traces.c.run_step.distinct()).label("step_count"),
            func.max(type_coerce(traces.c.has_error, Integer)).label("has_error"),
            newest.label("context"),
        )
        .where(traces.c.run_id.is_not(None), *conditions)
        .group_by(traces.c.owner, traces.c.run_id)
    )


def _newest_context() -> Any:
    """The context of the newest trace of the run of a row; the totals' own times do not count."""
    other = traces.alias()
    return (
        select(uploads.c.context)
        .join(other, other.c.upload == uploads.c.number)
        .where(other.c.owner == traces.c.owner, other.c.run_id == traces.c.run_id, other.c.current)
        .order_by(other.c.created_at.desc(), other.c.number.desc())
        .limit(1)
        .correlate(traces)
        .scalar_subquery()
    )


def page(
    connection: Connection,
    owner: str,
    wanted: RunListQuery,
    limit: int,
    after: tuple[float, str] | None = None,
) -> list[dict[str, Any]]:
    """Runs, those first that got traces last, behind a place (``last_ingested_at``, ``run_id``)."""
    conditions: Conditions = [traces.c.owner == owner, traces.c.current]
    conditions += in_time(traces, wanted.created_after, wanted.created_before)
    if wanted.created_by:
        conditions.append(traces.c.run_id.in_(_runs_by(owner, wanted.created_by)))
    runs = _totals(conditions).subquery()
    key, name = runs.c.last_ingested_at, runs.c.run_id
    query = select(runs).order_by(key.desc(), name.desc()).limit(limit)
    if wanted.run_type:
        query = query.where(_run_type(runs).in_(wanted.run_type))
    if after is not None:
        query = query.where(behind(key, name, after))
    rows = connection.execute(query).mappings().all()
    return [_with_names(connection, owner, row) for row in rows]


def _runs_by(owner: str, users: list[str]) -> Select[Any]:
    return (
        select(traces.c.run_id)
        .join(uploads, uploads.c.number == traces.c.upload)
        .where(traces.c.owner == owner, traces.c.current, uploads.c.user_id.in_(users))
    )


def _run_type(runs: Subquery) -> ColumnElement[str]:
    said = func.json_extract(runs.c.context, "$.run_type")
    return case((said.in_(("eval", "train")), said), else_="unknown")


def find(connection: Connection, owner: str, run_id: str) -> dict[str, Any] | None:
    """One run; None when it has no trace."""
    query = _totals(_of_run(owner, run_id))
    row = connection.execute(query).mappings().first()
    return None if row is None else _with_names(connection, owner, row)


def exists(connection: Connection, owner: str, run_id: str) -> bool:
    """Whether a run has a trace."""
    query = select(traces.c.number).where(*_of_run(owner, run_id)).limit(1)
    return connection.execute(query).first() is not None


def _with_names(connection: Connection, owner: str, row: RowMapping) -> dict[str, Any]:
    """A run with what cannot be added up: its first user, its environments and models."""
    here = _of_run(owner, row["run_id"])
    first_user = (
        select(uploads.c.user_id)
        .join(traces, traces.c.upload == uploads.c.number)
        .where(*here)
        .order_by(traces.c.created_at, traces.c.number)
        .limit(1)
    )
    return {
        **row,
        "has_error": bool(row["has_error"]),
        "context": msgspec.json.decode(row["context"]),
        "first_user_id": connection.execute(first_user).scalar(),
        "environment_ids": _names(connection, traces.c.environment_id, here),
        "model_ids": _names(connection, traces.c.model_id, here),
    }


def _names(connection: Connection, column: ColumnElement[Any], here: Conditions) -> list[str]:
    # Nulls are left out here: asked to, SQLite would take the index of the column, of all runs.
    query = select(column).where(*here).distinct().order_by(column)
    return [name for name in connection.execute(query).scalars() if name is not None]


def steps(connection: Connection, owner: str, run_id: str) -> list[dict[str, Any]]:
    """The training steps of a run, in order."""
    query = (
        select(
            traces.c.run_step.label("step"),
            func.count().label("trace_count"),
            func.count(traces.c.episode_id.distinct()).label("episode_count"),
            func.avg(traces.c.reward).label("avg_reward"),
        )
        .where(*_of_run(owner, run_id), traces.c.run_step.is_not(None))
        .group_by(traces.c.run_step)
        .order_by(traces.c.run_step)
    )
    return [dict(row) for row in connection.execute(query).mappings()]
