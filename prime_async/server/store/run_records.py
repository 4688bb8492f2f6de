"""Drops what a deleted run reported: its metric rows and distributions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import get_args

from sqlalchemy import Connection, Table, delete, select

from prime_async.runs.wire import RunKind
from prime_async.server.failures import RequestError
from prime_async.server.logs import log_event
from prime_async.server.store.database import Database
from prime_async.server.store.runs import Subject
from prime_async.server.store.schema import distributions, evaluations, metric_rows, training_runs

__all__ = ["purge_leftover_records", "purge_records"]

_AT_ONCE = 1000
_RUNS: dict[RunKind, Table] = {"eval": evaluations, "train": training_runs}


async def purge_records(database: Database, run: Subject) -> None:
    """Drop them a few at a time, so that other writes go on between; cut short, the next start goes
    on with it.
    """
    try:
        for table in (metric_rows, distributions):
            await _purge(database, table, run)
    except RequestError as failure:
        log_event(logging.WARNING, "purge_postponed", run=run, reason=failure.code)


async def _purge(database: Database, table: Table, run: Subject) -> None:
    mine = (table.c.kind == run.kind) & (table.c.run == run.number)
    some = select(table.c.number).where(mine).limit(_AT_ONCE).scalar_subquery()
    drop = delete(table).where(table.c.number.in_(some))
    while await database.write(lambda connection: connection.execute(drop).rowcount):
        continue


async def purge_leftover_records(database: Database) -> None:
    """Drop the records of runs whose deletion was cut short."""
    for kind in get_args(RunKind):
        for table in (metric_rows, distributions):
            for number in await database.scan(partial(_left, table=table, kind=kind)):
                await _purge(database, table, Subject(kind, number))


def _left(connection: Connection, table: Table, kind: RunKind) -> Sequence[int]:
    alive = select(_RUNS[kind].c.number)
    query = select(table.c.run).where(table.c.kind == kind, table.c.run.not_in(alive))
    return connection.execute(query.distinct()).scalars().all()
