"""Reads traces: single ones, pages, groups. What belongs to whom is decided here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    RowMapping,
    Select,
    Table,
    bindparam,
    func,
    literal_column,
    select,
    true,
    tuple_,
    type_coerce,
)

from prime_async.server.store.schema import trace_uploads as uploads
from prime_async.server.store.schema import traces
from prime_async.server.traces.filters import GroupBy, Sort, TraceFilter, moment

__all__ = [
    "Conditions",
    "behind",
    "find",
    "groups",
    "in_context",
    "in_time",
    "of_digests",
    "page",
    "place",
    "rewarded",
    "rows",
    "where",
]

Conditions = list[ColumnElement[bool]]

LARGEST_GROUPS = 10_000

_NO_REWARD: ColumnElement[float] = literal_column("-9e999")
"""Sorts what was not scored behind everything that was; SQLite reads it as minus infinity."""

_ORDER: Mapping[Sort, ColumnElement[Any]] = {
    "created_at": traces.c.created_at,
    "reward": func.coalesce(traces.c.reward, _NO_REWARD),
    "duration_ms": traces.c.duration_ms,
}
_EQUAL = (
    "run_id",
    "environment_id",
    "model_id",
    "model_provider",
    "task_id",
    "agent_name",
    "run_step",
    "outcome",
    "has_error",
    "is_truncated",
)


def rows() -> Select[Any]:
    """Traces with what their uploads say about them."""
    return select(
        traces,
        uploads.c.digest,
        uploads.c.context,
        uploads.c.user_id,
    ).join(uploads, uploads.c.number == traces.c.upload)


# On the way of every request for one trace: building it costs more than running it.
_FIND = rows().where(
    traces.c.owner == bindparam("owner"),
    traces.c.trace_id == bindparam("trace_id"),
    traces.c.current,
)


def where(owner: str, wanted: TraceFilter, context: Mapping[str, str]) -> Conditions:
    """The conditions that a filter means.

    Raises:
        RequestError: 400 ``invalid_filter``: a time is none.
    """
    conditions = [_owned(owner, wanted), traces.c.current]
    for name in _EQUAL:
        value = getattr(wanted, name)
        if value is not None:
            conditions.append(_column(name, wanted) == value)
    if wanted.upload_id:
        conditions.append(traces.c.upload.in_(of_digests(owner, wanted.upload_id)))
    conditions += rewarded(wanted.reward_min, wanted.reward_max)
    conditions += in_time(traces, wanted.created_after, wanted.created_before)
    conditions += in_context(owner, context)
    return conditions


def _column(name: str, wanted: TraceFilter) -> ColumnElement[Any]:
    """A column to compare; the plus keeps its index out where that of the run knows better."""
    if wanted.run_id is None or name == "run_id":
        return traces.c[name]
    return literal_column(f"+traces.{name}", traces.c[name].type)


def _owned(owner: str, wanted: TraceFilter) -> ColumnElement[bool]:
    if not wanted.upload_id:
        return traces.c.owner == owner
    # The plus keeps SQLite from the index by owner and time: it would walk through all traces of
    # the owner for the sake of their order, in place of those of the uploads.
    column: ColumnElement[str] = literal_column("+traces.owner")
    return column == owner


def rewarded(least: float | None, most: float | None) -> Conditions:
    """Traces whose reward is within bounds, both included."""
    conditions: Conditions = []
    if least is not None:
        conditions.append(traces.c.reward >= least)
    if most is not None:
        conditions.append(traces.c.reward <= most)
    return conditions


def in_time(table: Table, after: str | None, before: str | None) -> Conditions:
    """Rows that began at or after one moment, and before another."""
    begin, end = moment("created_after", after), moment("created_before", before)
    conditions: Conditions = []
    if begin is not None:
        conditions.append(table.c.created_at >= begin)
    if end is not None:
        conditions.append(table.c.created_at < end)
    return conditions


def in_context(owner: str, context: Mapping[str, str]) -> Conditions:
    """Traces of uploads with such a context."""
    said = func.json_each(uploads.c.context).table_valued("key", "value")
    return [
        traces.c.upload.in_(
            select(uploads.c.number)
            .select_from(uploads.join(said, true()))
            .where(uploads.c.owner == owner, said.c.key == key, said.c.value == value)
        )
        for key, value in context.items()
    ]


def of_digests(owner: str, digests: Sequence[str]) -> Select[Any]:
    """The numbers of uploads with some digests."""
    return select(uploads.c.number).where(uploads.c.owner == owner, uploads.c.digest.in_(digests))


def find(connection: Connection, owner: str, trace_id: str) -> RowMapping | None:
    """The newest copy of a trace."""
    return connection.execute(_FIND, {"owner": owner, "trace_id": trace_id}).mappings().first()


def page(
    connection: Connection,
    conditions: Conditions,
    sort: Sort,
    limit: int,
    after: tuple[float, int] | None = None,
) -> list[RowMapping]:
    """Traces in order, the first ones behind a :func:`place`."""
    key = _ORDER[sort]
    query = rows().where(*conditions).order_by(key.desc(), traces.c.number.desc()).limit(limit)
    if after is not None:
        query = query.where(behind(key, traces.c.number, after))
    return list(connection.execute(query).mappings())


def behind(
    key: ColumnElement[Any], number: ColumnElement[Any], after: tuple[Any, Any]
) -> ColumnElement[bool]:
    """Rows behind a place in an order that falls."""
    return tuple_(key, number) < tuple_(*after)


def place(row: RowMapping, sort: Sort) -> tuple[float, int]:
    """Where a trace is in an order."""
    if sort == "reward":
        return (float("-inf") if row["reward"] is None else row["reward"]), row["number"]
    return row[sort], row["number"]


def groups(connection: Connection, conditions: Conditions, by: GroupBy) -> list[RowMapping]:
    """Traces added up by one of their columns, the largest groups first."""
    key, count = traces.c[by].label("key"), func.count().label("trace_count")
    query = (
        select(
            key,
            count,
            func.count(traces.c.reward).label("scored_count"),
            func.avg(traces.c.reward).label("avg_reward"),
            func.min(traces.c.reward).label("min_reward"),
            func.max(traces.c.reward).label("max_reward"),
            func.sum(type_coerce(traces.c.has_error, Integer)).label("error_count"),
            func.sum(traces.c.total_tokens).label("total_tokens"),
            func.avg(traces.c.duration_ms).label("avg_duration_ms"),
        )
        .where(*conditions)
        .group_by(traces.c[by])
        .order_by(count.desc(), key)
        .limit(LARGEST_GROUPS)
    )
    return list(connection.execute(query).mappings())
