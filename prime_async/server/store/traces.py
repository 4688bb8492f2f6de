"""Stores the rows of an upload: all of them in one transaction, once per content and owner.

A trace or an episode that comes again with other bytes becomes a further copy; the newest one is
``current``, which is what everything reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, bindparam, delete, func, insert, select, update

from prime_async.server.store.schema import trace_episodes as episodes
from prime_async.server.store.schema import trace_texts as texts
from prime_async.server.store.schema import trace_uploads as uploads
from prime_async.server.store.schema import traces
from prime_async.server.traces.projection import EpisodeRow, TraceRow
from prime_async.server.traces.refusals import refused, stored_otherwise
from prime_async.server.traces.staging import RowBatch
from prime_async.traces.codes import ErrorCode, LineFormat

__all__ = ["Upload", "known_digests", "store", "stored_format"]


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload as its row says it."""

    owner: str
    digest: str
    line_format: LineFormat
    schema_version: int
    context: str
    user_id: str
    size: int
    now: float


# Statements on the way of every upload are built once: building one costs more than running it.
_FIND = select(uploads.c.number, uploads.c.line_format, uploads.c.cut).where(
    uploads.c.owner == bindparam("owner"), uploads.c.digest == bindparam("digest")
)


def _copies(table: Table, name: str) -> Any:
    column = table.c[name]
    here = table.c.owner == bindparam("owner")
    return (
        select(column, func.max(table.c.generation))
        .where(here, column.in_(bindparam("ids", expanding=True)))
        .group_by(column)
    )


def _outdate(table: Table, name: str) -> Any:
    ids = table.c[name].in_(bindparam("ids", expanding=True))
    here = table.c.owner == bindparam("of_owner")
    return update(table).where(here, ids, table.c.current).values(current=False)


_FORGET_TEXTS = delete(texts).where(
    texts.c.trace.in_(
        select(traces.c.number).where(
            traces.c.owner == bindparam("owner"),
            traces.c.trace_id.in_(bindparam("ids", expanding=True)),
        )
    )
)


_TRACE_COPIES = _copies(traces, "trace_id")
# Only the newest copy is searched: there is nothing to index of the others.
_OUTDATE_TRACES = _outdate(traces, "trace_id").values(searchable=True)
_EPISODE_COPIES = _copies(episodes, "episode_id")
_OUTDATE_EPISODES = _outdate(episodes, "episode_id")
_KNOWN_EPISODES = select(episodes.c.episode_id).where(
    episodes.c.owner == bindparam("owner"),
    episodes.c.current,
    episodes.c.episode_id.in_(bindparam("ids", expanding=True)),
)
_KNOWN_DIGESTS = (
    select(uploads.c.digest)
    .where(uploads.c.digest.in_(bindparam("digests", expanding=True)))
    .distinct()
)


def stored_format(connection: Connection, owner: str, digest: str) -> LineFormat | None:
    """The line format of an upload that is stored whole; None when it is not."""
    row = connection.execute(_FIND, {"owner": owner, "digest": digest}).first()
    return None if row is None or row.cut else LineFormat(row.line_format)


def known_digests(connection: Connection, digests: Iterable[str]) -> set[str]:
    """Those of some digests that an upload names."""
    return set(connection.execute(_KNOWN_DIGESTS, {"digests": list(digests)}).scalars())


def store(connection: Connection, upload: Upload, batches: Iterable[RowBatch]) -> bool:
    """Store an upload; False when it is stored already, and nothing was to do.

    Raises:
        RequestError: 409, it is stored with another line format; 400, a trace names an episode
            that nobody knows.
    """
    row = connection.execute(_FIND, {"owner": upload.owner, "digest": upload.digest}).first()
    if row is not None and row.line_format != upload.line_format.value:
        raise stored_otherwise(row.line_format)
    if row is not None and not row.cut:
        return False
    if row is not None:
        # Some of it has been deleted since: whoever sends it again wants all of it.
        _forget(connection, row.number)
    number = _add_upload(connection, upload)
    for batch in batches:
        _add_episodes(connection, upload, number, batch.episodes)
        _add_traces(connection, upload, number, batch.traces)
    return True


def _forget(connection: Connection, number: int) -> None:
    for table in (traces, episodes):
        connection.execute(delete(table).where(table.c.upload == number))
    connection.execute(delete(uploads).where(uploads.c.number == number))


def _add_upload(connection: Connection, upload: Upload) -> int:
    values = {
        "owner": upload.owner,
        "digest": upload.digest,
        "line_format": upload.line_format.value,
        "schema_version": upload.schema_version,
        "context": upload.context,
        "user_id": upload.user_id,
        "size": upload.size,
        "cut": False,
        "created_at": upload.now,
    }
    made = connection.execute(insert(uploads).values(values).returning(uploads.c.number))
    number: int = made.scalar_one()
    return number


def _add_episodes(
    connection: Connection, upload: Upload, number: int, rows: Sequence[EpisodeRow]
) -> None:
    if not rows:
        return
    ids = [row.episode_id for row in rows]
    found = connection.execute(_EPISODE_COPIES, {"owner": upload.owner, "ids": ids})
    copies: dict[str, int] = {row[0]: row[1] for row in found}
    if copies:
        connection.execute(_OUTDATE_EPISODES, {"of_owner": upload.owner, "ids": ids})
    values = [
        {
            **msgspec.structs.asdict(row),
            **_of_copy(upload, number, copies.get(row.episode_id, 0)),
            "created_at": upload.now if row.created_at is None else row.created_at,
        }
        for row in rows
    ]
    connection.execute(insert(episodes), values)


def _add_traces(
    connection: Connection, upload: Upload, number: int, rows: Sequence[TraceRow]
) -> None:
    if not rows:
        return
    if upload.line_format is LineFormat.TRACE:
        _check_episodes(connection, upload.owner, rows)
    ids = [row.trace_id for row in rows]
    found = connection.execute(_TRACE_COPIES, {"owner": upload.owner, "ids": ids})
    copies: dict[str, int] = {row[0]: row[1] for row in found}
    if copies:
        connection.execute(_FORGET_TEXTS, {"owner": upload.owner, "ids": ids})
        connection.execute(_OUTDATE_TRACES, {"of_owner": upload.owner, "ids": ids})
    values = [
        {
            **msgspec.structs.asdict(row),
            **_of_copy(upload, number, copies.get(row.trace_id, 0)),
            "searchable": False,
        }
        for row in rows
    ]
    connection.execute(insert(traces), values)


def _of_copy(upload: Upload, number: int, copies: int) -> dict[str, Any]:
    return {
        "owner": upload.owner,
        "upload": number,
        "generation": copies + 1,
        "current": True,
        "ingested_at": upload.now,
    }


def _check_episodes(connection: Connection, owner: str, rows: Sequence[TraceRow]) -> None:
    named = {row.episode_id for row in rows if row.episode_id is not None}
    if not named:
        return
    found = connection.execute(_KNOWN_EPISODES, {"owner": owner, "ids": list(named)}).scalars()
    unknown = named.difference(found)
    if unknown:
        raise refused(
            ErrorCode.UNKNOWN_EPISODE_REFERENCE,
            f"a trace names the episode {min(unknown)[:80]!r}, which is not stored",
        )
