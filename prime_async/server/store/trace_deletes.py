"""Deletes traces and episodes: all copies, at once, and the files that nothing needs any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    Table,
    column,
    delete,
    func,
    insert,
    literal,
    select,
    table,
    update,
)

from prime_async.server.store.schema import otlp_spans as spans
from prime_async.server.store.schema import otlp_traces as made
from prime_async.server.store.schema import trace_episodes as episodes
from prime_async.server.store.schema import trace_texts as texts
from prime_async.server.store.schema import trace_uploads as uploads
from prime_async.server.store.schema import traces

__all__ = ["Deleted", "delete_episode", "delete_run", "delete_trace", "drop_earlier"]


_AT_ONCE = 500
"""Values in one ``IN (…)``."""

_doomed = table("doomed", column("trace_id"))


@dataclass(slots=True)
class Deleted:
    """What was deleted: traces and episodes (copies counted once), and uploads left empty."""

    traces: int = 0
    episodes: int = 0
    digests: list[str] = field(default_factory=list)


def delete_trace(connection: Connection, owner: str, trace_id: str) -> Deleted:
    """Delete a trace."""
    return _delete(connection, owner, select(literal(trace_id)))


def delete_run(connection: Connection, owner: str, run_id: str) -> Deleted:
    """Delete the traces of a run; its episodes stay, with no traces in them."""
    here = traces.c.owner == owner, traces.c.run_id == run_id, traces.c.current
    return _delete(connection, owner, select(traces.c.trace_id).where(*here))


def delete_episode(connection: Connection, owner: str, episode_id: str) -> Deleted:
    """Delete an episode and its traces."""
    mine = episodes.c.owner == owner, episodes.c.episode_id == episode_id
    touched = connection.execute(select(episodes.c.upload).where(*mine)).scalars().all()
    if not touched:
        return Deleted()
    connection.execute(delete(episodes).where(*mine))
    here = traces.c.owner == owner, traces.c.episode_id == episode_id, traces.c.current
    deleted = _delete(connection, owner, select(traces.c.trace_id).where(*here), touched)
    deleted.episodes = 1
    return deleted


def _delete(
    connection: Connection, owner: str, ids: Select[Any], touched: Sequence[int] = ()
) -> Deleted:
    """Delete all copies of some traces; ``touched`` are uploads that lost something before."""
    # Taken down first: what is deleted changes what the query finds.
    connection.exec_driver_sql("CREATE TEMP TABLE IF NOT EXISTS doomed (trace_id PRIMARY KEY)")
    connection.exec_driver_sql("DELETE FROM doomed")
    connection.execute(insert(_doomed).from_select(["trace_id"], ids.distinct()))
    here = traces.c.owner == owner, traces.c.trace_id.in_(select(_doomed.c.trace_id))
    count = connection.execute(select(func.count()).where(*here, traces.c.current)).scalar_one()
    losing = connection.execute(select(traces.c.upload).where(*here).distinct()).scalars().all()
    numbers = select(traces.c.number).where(*here)
    connection.execute(delete(texts).where(texts.c.trace.in_(numbers)))
    connection.execute(delete(traces).where(*here))
    # What some of them were made of; else the next span would bring a deleted trace back.
    for source in (spans, made):
        made_of = source.c.trace_id.in_(select(_doomed.c.trace_id))
        connection.execute(delete(source).where(source.c.owner == owner, made_of))
    return Deleted(count, 0, _left_empty(connection, [*losing, *touched]))


def drop_earlier(
    connection: Connection, owner: str, trace_ids: Sequence[str], contexts: Sequence[str]
) -> list[str]:
    """Drop the copies of traces that are not current and were uploaded with one of some contexts;
    return the files of uploads that are left empty.
    """
    of_context = select(uploads.c.number).where(
        uploads.c.owner == owner, uploads.c.context.in_(contexts)
    )
    losing: list[int] = []
    for start in range(0, len(trace_ids), _AT_ONCE):
        here = (
            traces.c.owner == owner,
            traces.c.trace_id.in_(trace_ids[start : start + _AT_ONCE]),
            traces.c.current.is_(False),
            traces.c.upload.in_(of_context),
        )
        gone = delete(traces).where(*here).returning(traces.c.upload)
        losing += connection.execute(gone).scalars()
    return _left_empty(connection, losing)


def _left_empty(connection: Connection, numbers: Sequence[int]) -> list[str]:
    """Note that uploads have lost something; drop those that lost all, and return their files."""
    digests: list[str] = []
    for number in dict.fromkeys(numbers):
        if any(_has_rows(connection, table, number) for table in (traces, episodes)):
            connection.execute(update(uploads).where(uploads.c.number == number).values(cut=True))
        else:
            gone = delete(uploads).where(uploads.c.number == number).returning(uploads.c.digest)
            digests.append(connection.execute(gone).scalar_one())
    return digests


def _has_rows(connection: Connection, table: Table, upload: int) -> bool:
    query = select(table.c.number).where(table.c.upload == upload).limit(1)
    return connection.execute(query).first() is not None
