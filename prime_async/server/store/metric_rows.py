"""Metric rows in the store: one per step and run, merged name by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, insert, select, update

from prime_async.server.runs.rows import Row, Rows, text_of
from prime_async.server.store.runs import Subject
from prime_async.server.store.schema import metric_rows as table

__all__ = ["PAGE_BYTES", "Place", "Written", "page", "put"]

PAGE_BYTES = 8 * 1024 * 1024
"""A page ends early when its rows take more."""

_AT_ONCE = 500
"""Values in one ``IN (…)``."""

_row = msgspec.json.Decoder(Row)
_ADD = insert(table)
_REPLACE = update(table).where(table.c.number == bindparam("at")).values(data=bindparam("new_data"))

Item = TypeVar("Item")


class Written(NamedTuple):
    """How many rows were new, and how many stored ones were changed."""

    stored: int
    updated: int


class Place(NamedTuple):
    """Behind which row a page begins: a step, or the number of a row without one."""

    step: int | None
    number: int


def put(connection: Connection, run: Subject, rows: Rows) -> Written:
    """Store rows; what a step has already is kept unless a row names it anew."""
    changed: list[dict[str, Any]] = []
    fresh = dict(rows.by_step)
    for number, step, data in _stored(connection, run, table.c.step, fresh):
        text = text_of(_row.decode(data) | fresh.pop(step))
        if text != data:
            changed.append({"at": number, "new_data": text})
    unseen = dict(rows.by_digest)
    for _, digest, _ in _stored(connection, run, table.c.digest, unseen):
        del unseen[digest]
    added = [_values(run, step, None, text_of(row)) for step, row in fresh.items()]
    added += [_values(run, None, digest, text) for digest, text in unseen.items()]
    if changed:
        connection.execute(_REPLACE, changed)
    if added:
        connection.execute(_ADD, added)
    return Written(len(added), len(changed))


def _stored(
    connection: Connection, run: Subject, column: ColumnElement[Any], wanted: Collection[Any]
) -> Iterator[Sequence[Any]]:
    """Rows of the run whose column is one of the wanted: number, column, data."""
    for some in _slices(list(wanted)):
        query = select(table.c.number, column, table.c.data).where(_of(run), column.in_(some))
        yield from connection.execute(query).all()


def _slices(items: list[Item]) -> Iterator[list[Item]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


def _values(run: Subject, step: int | None, digest: bytes | None, data: bytes) -> Mapping[str, Any]:
    return {
        "kind": run.kind,
        "run": run.number,
        "step": step,
        "digest": digest,
        "data": data,
    }


def _of(run: Subject) -> ColumnElement[bool]:
    return and_(table.c.kind == run.kind, table.c.run == run.number)


def page(
    connection: Connection, run: Subject, after: Place | None, limit: int
) -> tuple[list[bytes], Place | None]:
    """Rows behind a place: those without a step as they arrived, then by step; and the place
    behind which the next page begins.
    """
    found: list[bytes] = []
    size = 0
    last: Place | None = None
    for step, number, data in _behind(connection, run, after, limit + 1):
        if len(found) == limit or size > PAGE_BYTES:
            return found, last
        found.append(data)
        size += len(data)
        last = Place(step, number)
    return found, None


def _behind(
    connection: Connection, run: Subject, after: Place | None, limit: int
) -> Iterator[Sequence[Any]]:
    rows = select(table.c.step, table.c.number, table.c.data).where(_of(run)).limit(limit)
    stepped = rows.where(table.c.step.is_not(None)).order_by(table.c.step)
    if after is not None and after.step is not None:
        stepped = stepped.where(table.c.step > after.step)
    else:
        bare: Select[Any] = rows.where(table.c.step.is_(None)).order_by(table.c.number)
        if after is not None:
            bare = bare.where(table.c.number > after.number)
        yield from connection.execute(bare)
    yield from connection.execute(stepped)
