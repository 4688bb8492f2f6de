"""Searches the traces of a run: the index says where a text may be, the documents whether it is.

One page reads a bounded number of bytes; where the matches are far apart it may be empty and still
have a cursor. A cursor names a message by its trace's begin and id, so that it stays good when the
trace is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, RowMapping, func, select, tuple_

from prime_async.server.endpoints import Call
from prime_async.server.store.blobs import Blobs
from prime_async.server.store.schema import traces
from prime_async.server.store.trace_queries import Conditions, rewarded, rows
from prime_async.server.store.trace_texts import may_hold
from prime_async.server.traces.cursors import read_cursor, write_cursor
from prime_async.server.traces.filters import SearchQuery
from prime_async.server.traces.matching import Match, Query
from prime_async.server.traces.owners import owner_of

__all__ = ["search"]

ROWS_AT_ONCE = 64

WHOLE = 2**62
"""In place of a message: the trace has been looked at to its end."""

Place = tuple[float, str, int]
"""A message: when its trace began, the trace's id, its index."""


@dataclass(slots=True)
class _Page:
    """What one page has found so far; ``place`` is the last message that was looked at."""

    limit: int
    budget: int
    place: Place | None
    items: list[dict[str, Any]] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.items) >= self.limit or self.budget <= 0


async def search(call: Call, run_id: str, asked: SearchQuery) -> dict[str, Any]:
    """One page of matches, as the wire has it."""
    conditions = _conditions(owner_of(call), run_id, asked)
    place: Place | None = read_cursor(call, asked.cursor, Place)
    page = _Page(asked.limit, call.platform.config.limits.trace_search_bytes, place)
    query = Query(asked.query, asked.field, asked.role)
    more = await _fill(call, page, query, conditions)
    cursor = write_cursor(call, page.place) if more and page.place is not None else None
    found: dict[str, Any] = {"items": page.items, "next_cursor": cursor, "coverage": None}
    if asked.cursor is None:
        found["coverage"] = await _coverage(call, conditions)
    return found


def _conditions(owner: str, run_id: str, asked: SearchQuery) -> Conditions:
    conditions = [traces.c.owner == owner, traces.c.run_id == run_id, traces.c.current]
    if asked.run_step is not None:
        conditions.append(traces.c.run_step == asked.run_step)
    if asked.has_error is not None:
        conditions.append(traces.c.has_error == asked.has_error)
    return conditions + rewarded(asked.reward_min, asked.reward_max)


async def _fill(call: Call, page: _Page, query: Query, conditions: Conditions) -> bool:
    """Look at one trace after another; say whether there may be more."""
    candidates = may_hold(query.text)
    if candidates is not None:
        conditions = [*conditions, candidates]
    work = _Work(call.platform.traces.blobs, query, page)
    while True:
        batch = await call.platform.database.scan(lambda reader: _batch(reader, conditions, page))
        for row in batch:
            async with call.platform.bodies.hold(row["length"]):
                await call.platform.in_thread(work.look_at, row)
            if page.full:
                return True
        if len(batch) < ROWS_AT_ONCE:
            return False


def _batch(connection: Connection, conditions: Conditions, page: _Page) -> list[RowMapping]:
    """The traces from the last one on that was looked at, newest first."""
    order = traces.c.created_at.desc(), traces.c.trace_id.desc()
    query = rows().where(*conditions).order_by(*order).limit(ROWS_AT_ONCE)
    if page.place is not None:
        moment, trace_id, node = page.place
        last = tuple_(traces.c.created_at, traces.c.trace_id)
        begin = tuple_(moment, trace_id)
        query = query.where(last < begin if node == WHOLE else last <= begin)
    return list(connection.execute(query).mappings())


class _Work:
    """Looks at traces; blocks."""

    def __init__(self, blobs: Blobs, query: Query, page: _Page) -> None:
        self._blobs = blobs
        self._query = query
        self._page = page

    def look_at(self, row: Mapping[Any, Any]) -> None:
        """Add the matches in a trace to the page, as far as they fit."""
        page, here = self._page, (row["created_at"], row["trace_id"])
        after = -1
        if page.place is not None and page.place[:2] == here:
            after = page.place[2]
        page.budget -= row["length"]
        try:
            document = self._blobs.read(row["digest"], row["offset"], row["length"])
        except FileNotFoundError:
            # It has been deleted since the row was read.
            document = b"{}"
        for match in self._query.matches(document, after=after):
            page.items.append(_shown(row, match))
            page.place = (*here, match.node)
            if len(page.items) >= page.limit:
                return
        page.place = (*here, WHOLE)


def _shown(row: Mapping[Any, Any], match: Match) -> dict[str, Any]:
    return {
        "trace_id": row["trace_id"],
        "upload_id": row["digest"],
        "generation": row["generation"],
        "episode_id": row["episode_id"],
        "node_idx": match.node,
        "role": match.role,
        "field": match.field,
        "representation": match.representation,
        "match_start": match.start,
        "match_end": match.end,
        "excerpt": match.excerpt,
        "excerpt_start": match.excerpt_start,
    }


async def _coverage(call: Call, conditions: Conditions) -> dict[str, Any]:
    """Every trace is searched, whether it is indexed or not."""
    query = select(func.count()).select_from(traces).where(*conditions)
    count = await call.platform.database.scan(lambda reader: reader.execute(query).scalar_one())
    return {"examined_traces": count, "unindexed_trace_ids": [], "partial_index": False}
