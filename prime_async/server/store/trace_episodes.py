"""Reads episodes: single ones, pages, and the totals of their traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    bindparam,
    func,
    literal_column,
    select,
)

from prime_async.server.store.schema import trace_episodes as episodes
from prime_async.server.store.schema import trace_uploads as uploads
from prime_async.server.store.schema import traces
from prime_async.server.store.trace_queries import (
    Conditions,
    behind,
    in_context,
    in_time,
    of_digests,
)
from prime_async.server.traces.filters import EpisodeFilter

__all__ = ["find", "page", "totals", "where"]

_EQUAL = ("run_id", "environment_id", "outcome", "has_error")


def _rows() -> Select[Any]:
    return select(episodes, uploads.c.digest, uploads.c.schema_version).join(
        uploads, uploads.c.number == episodes.c.upload
    )


_FIND = _rows().where(
    episodes.c.owner == bindparam("owner"),
    episodes.c.episode_id == bindparam("episode_id"),
    episodes.c.current,
)


def where(owner: str, wanted: EpisodeFilter, context: Mapping[str, str]) -> Conditions:
    """The conditions that a filter means.

    Raises:
        RequestError: 400 ``invalid_filter``: a time is none.
    """
    mine: ColumnElement[str] = episodes.c.owner
    if wanted.upload_id:
        # As for traces: the index of uploads in place of the one by time.
        mine = literal_column("+trace_episodes.owner")
    conditions: Conditions = [mine == owner, episodes.c.current]
    for name in _EQUAL:
        value = getattr(wanted, name)
        if value is not None:
            conditions.append(episodes.c[name] == value)
    if wanted.upload_id:
        conditions.append(episodes.c.upload.in_(of_digests(owner, wanted.upload_id)))
    conditions += in_time(episodes, wanted.created_after, wanted.created_before)
    member = _of_its_traces(wanted) + in_context(owner, context)
    if member:
        conditions.append(_has_trace(member))
    return conditions


def _of_its_traces(wanted: EpisodeFilter) -> Conditions:
    conditions: Conditions = []
    if wanted.run_step is not None:
        conditions.append(traces.c.run_step == wanted.run_step)
    if wanted.step_min is not None:
        conditions.append(traces.c.run_step >= wanted.step_min)
    if wanted.step_max is not None:
        conditions.append(traces.c.run_step <= wanted.step_max)
    return conditions


def _has_trace(conditions: Conditions) -> Any:
    return (
        select(traces.c.number)
        .where(
            traces.c.owner == episodes.c.owner,
            traces.c.episode_id == episodes.c.episode_id,
            traces.c.current,
            *conditions,
        )
        .correlate(episodes)
        .exists()
    )


def find(connection: Connection, owner: str, episode_id: str) -> RowMapping | None:
    """The newest copy of an episode."""
    names = {"owner": owner, "episode_id": episode_id}
    return connection.execute(_FIND, names).mappings().first()


def page(
    connection: Connection,
    conditions: Conditions,
    limit: int,
    after: tuple[float, int] | None = None,
) -> list[RowMapping]:
    """Episodes, newest first, behind a place (``created_at``, ``number``)."""
    key, number = episodes.c.created_at, episodes.c.number
    query = _rows().where(*conditions).order_by(key.desc(), number.desc()).limit(limit)
    if after is not None:
        query = query.where(behind(key, number, after))
    return list(connection.execute(query).mappings())


def totals(connection: Connection, owner: str, episode_id: str) -> dict[str, Any]:
    """The traces of an episode, added up, as the wire has it."""
    here = traces.c.owner == owner, traces.c.episode_id == episode_id, traces.c.current
    added = select(
        func.count().label("trace_count"),
        func.coalesce(func.sum(traces.c.total_tokens), 0).label("total_tokens"),
        func.coalesce(func.sum(traces.c.duration_ms), 0).label("total_duration_ms"),
        func.coalesce(func.max(traces.c.has_error), False).label("any_trace_error"),
    ).where(*here)
    names = (
        select(traces.c.agent_name)
        .where(*here)
        .group_by(traces.c.agent_name)
        .order_by(func.min(traces.c.number))
    )
    row = connection.execute(added).mappings().one()
    return {
        **row,
        "any_trace_error": bool(row["any_trace_error"]),
        # Nulls are left out here: asked to, SQLite would take the index of names, of all episodes.
        "agent_names": [one for one in connection.execute(names).scalars() if one is not None],
    }
