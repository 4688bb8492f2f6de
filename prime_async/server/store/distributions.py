"""Distributions in the store: the values of a name at a step, as they were sent last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, insert, select, tuple_, update

from prime_async.server.runs.rows import Series
from prime_async.server.store.metric_rows import PAGE_BYTES, Written
from prime_async.server.store.runs import Subject
from prime_async.server.store.schema import distributions as table

__all__ = ["Place", "StoredSeries", "Wanted", "page", "put"]


class Place(NamedTuple):
    """Behind which distribution a page begins; ``number`` counts where there is no step."""

    step: int | None
    name: str
    number: int


class Wanted(NamedTuple):
    """Which distributions a page is about; None for all."""

    name: str | None = None
    step: int | None = None


class StoredSeries(NamedTuple):
    """One stored distribution; ``values`` is JSON text."""

    number: int
    step: int | None
    name: str
    values: bytes
    created_at: float


_COLUMNS = (table.c.number, table.c.step, table.c.name, table.c.data, table.c.created_at)


def put(
    connection: Connection, run: Subject, step: int | None, series: Sequence[Series], now: float
) -> Written:
    """Store distributions; a name that has values at this step gets the new ones."""
    added: list[dict[str, Any]] = []
    updated = 0
    for one in series:
        digest = None if step is not None else one.digest
        same = table.c.step == step if step is not None else table.c.digest == digest
        here = and_(_of(run), table.c.name == one.name, same)
        stored = connection.execute(select(table.c.number, table.c.data).where(here)).first()
        if stored is None:
            added.append(
                {
                    "kind": run.kind,
                    "run": run.number,
                    "step": step,
                    "name": one.name,
                    "digest": digest,
                    "data": one.text,
                    "created_at": now,
                }
            )
        elif stored.data != one.text:
            change = update(table).where(table.c.number == stored.number)
            connection.execute(change.values(data=one.text, created_at=now))
            updated += 1
    if added:
        connection.execute(insert(table), added)
    return Written(len(added), updated)


def _of(run: Subject) -> ColumnElement[bool]:
    return and_(table.c.kind == run.kind, table.c.run == run.number)


def page(
    connection: Connection, run: Subject, wanted: Wanted, after: Place | None, limit: int
) -> tuple[list[StoredSeries], Place | None]:
    """Distributions behind a place: those without a step as they arrived, then by step and name;
    and the place behind which the next page begins.
    """
    found: list[StoredSeries] = []
    size = 0
    for row in _behind(connection, run, wanted, after, limit + 1):
        if len(found) == limit or size > PAGE_BYTES:
            last = found[-1]
            return found, Place(last.step, last.name, last.number)
        found.append(StoredSeries(*row))
        size += len(found[-1].values)
    return found, None


def _behind(
    connection: Connection, run: Subject, wanted: Wanted, after: Place | None, limit: int
) -> Iterator[Sequence[Any]]:
    rows = select(*_COLUMNS).where(_of(run)).limit(limit)
    if wanted.name is not None:
        rows = rows.where(table.c.name == wanted.name)
    if wanted.step is not None:
        rows = rows.where(table.c.step == wanted.step)
    order = table.c.step, table.c.name
    stepped = rows.where(table.c.step.is_not(None)).order_by(*order)
    if after is not None and after.step is not None:
        stepped = stepped.where(tuple_(*order) > tuple_(after.step, after.name))
    else:
        bare = rows.where(table.c.step.is_(None)).order_by(table.c.number)
        if after is not None:
            bare = bare.where(table.c.number > after.number)
        yield from connection.execute(bare)
    yield from connection.execute(stepped)
