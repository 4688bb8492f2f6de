"""Spans in the store, by owner, trace and id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.sqlite import insert

from prime_async.server.store.schema import otlp_spans as table

__all__ = ["SpanRow", "of_traces", "put"]

_AT_ONCE = 500
"""Values in one ``IN (…)``."""


class SpanRow(NamedTuple):
    """One span; ``data`` is its JSON text."""

    trace_id: str
    span_id: str
    started_at: float
    data: bytes


def put(connection: Connection, owner: str, rows: Sequence[SpanRow], limit: int) -> list[str]:
    """Keep spans, a later one in place of an earlier one with its id.

    Returns:
        The ids of those that are not kept, because their trace has ``limit`` spans already.
    """
    kept, over = _within(connection, owner, rows, limit)
    if kept:
        add = insert(table)
        replace = {"started_at": add.excluded.started_at, "data": add.excluded.data}
        keys = (table.c.owner, table.c.trace_id, table.c.span_id)
        values = [{"owner": owner, **row._asdict()} for row in kept]
        connection.execute(add.on_conflict_do_update(index_elements=keys, set_=replace), values)
    return over


def _within(
    connection: Connection, owner: str, rows: Sequence[SpanRow], limit: int
) -> tuple[list[SpanRow], list[str]]:
    left = dict.fromkeys((row.trace_id for row in rows), limit)
    for trace_id in left:
        here = table.c.owner == owner, table.c.trace_id == trace_id
        left[trace_id] -= connection.execute(select(func.count()).where(*here)).scalar_one()
    kept: list[SpanRow] = []
    over: list[str] = []
    for row in rows:
        if left[row.trace_id] > 0 or _is_known(connection, owner, row):
            kept.append(row)
            left[row.trace_id] -= 1
        else:
            over.append(row.span_id)
    return kept, over


def _is_known(connection: Connection, owner: str, row: SpanRow) -> bool:
    here = (
        table.c.owner == owner,
        table.c.trace_id == row.trace_id,
        table.c.span_id == row.span_id,
    )
    return connection.execute(select(table.c.span_id).where(*here)).first() is not None


def of_traces(
    connection: Connection, owner: str, trace_ids: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """The texts of all spans of some traces, trace by trace."""
    for start in range(0, len(trace_ids), _AT_ONCE):
        some = trace_ids[start : start + _AT_ONCE]
        query = (
            select(table.c.trace_id, table.c.data)
            .where(table.c.owner == owner, table.c.trace_id.in_(some))
            .order_by(table.c.trace_id, table.c.started_at, table.c.span_id)
        )
        for row in connection.execute(query):
            yield row.trace_id, row.data
