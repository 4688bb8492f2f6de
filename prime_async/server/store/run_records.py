"""Drops what a deleted evaluation reported: its metric rows and distributions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection, Table, delete, select

from prime_async.server.failures import RequestError
from prime_async.server.logs import log_event
from prime_async.server.store.database import Database
from prime_async.server.store.schema import distributions, evaluations, metric_rows

__all__ = ["purge_leftover_records", "purge_records"]

_AT_ONCE = 1000


async def purge_records(database: Database, evaluation: int) -> None:
    """Drop them a few at a time, so that other writes go on between; cut short, the next start goes
    on with it.
    """
    try:
        for table in (metric_rows, distributions):
            await _purge(database, table, evaluation)
    except RequestError as failure:
        log_event(logging.WARNING, "purge_postponed", evaluation=evaluation, reason=failure.code)


async def _purge(database: Database, table: Table, evaluation: int) -> None:
    mine = (table.c.kind == "eval") & (table.c.run == evaluation)
    some = select(table.c.number).where(mine).limit(_AT_ONCE).scalar_subquery()
    drop = delete(table).where(table.c.number.in_(some))
    while await database.write(lambda connection: connection.execute(drop).rowcount):
        continue


async def purge_leftover_records(database: Database) -> None:
    """Drop the records of evaluations whose deletion was cut short."""
    for table in (metric_rows, distributions):
        for evaluation in await database.scan(partial(_left, table=table)):
            await _purge(database, table, evaluation)


def _left(connection: Connection, table: Table) -> Sequence[int]:
    alive = select(evaluations.c.number)
    query = select(table.c.run).where(table.c.kind == "eval", table.c.run.not_in(alive))
    return connection.execute(query.distinct()).scalars().all()
