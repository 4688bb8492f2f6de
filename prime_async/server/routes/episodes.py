"""Episodes: lists, one of them, its traces, and its end."""

from __future__ import annotations

from typing import Any

from sqlalchemy import RowMapping

from prime_async.server.answers import Answer, answer
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError
from prime_async.server.routes.traces import DeletedTraces, OneQuery, deleted_answer, page_of_traces
from prime_async.server.store import trace_episodes, trace_queries
from prime_async.server.store.schema import traces
from prime_async.server.store.trace_deletes import delete_episode
from prime_async.server.traces.cursors import read_cursor
from prime_async.server.traces.envelopes import with_member_ids
from prime_async.server.traces.filters import EpisodeListQuery, MembersQuery, contexts
from prime_async.server.traces.owners import TEAM_HEADER, owner_of
from prime_async.server.traces.paging import page_answer
from prime_async.server.traces.reading import read_document
from prime_async.server.traces.refusals import in_traces_words, refused
from prime_async.server.traces.views import episode_summary
from prime_async.traces.codes import ErrorCode
from prime_async.traces.models import EpisodeDetail, EpisodeListPage, TraceListPage

__all__ = ["ENDPOINTS"]


async def get_page(call: Call) -> Reply:
    """Read a page of episodes, newest first."""
    query: EpisodeListQuery = call.query
    conditions = trace_episodes.where(owner_of(call), query, contexts(call.request.query))
    after = read_cursor(call, query.cursor, tuple[float, int])
    rows = await call.platform.database.scan(
        lambda reader: trace_episodes.page(reader, conditions, query.limit + 1, after)
    )
    return page_answer(
        call, rows, query.limit, episode_summary, lambda row: (row["created_at"], row["number"])
    )


async def get(call: Call) -> Reply:
    """Read one episode: what is known of it, or its envelope."""
    row = _find(call)
    if call.query.raw:
        async with read_document(call, row, _not_found(call)) as document:
            return Answer(200, await call.platform.in_thread(with_member_ids, document))
    owner = owner_of(call)
    totals = await call.platform.database.scan(
        lambda reader: trace_episodes.totals(reader, owner, row["episode_id"])
    )
    return answer({**episode_summary(row), "traces": totals})


async def get_traces(call: Call) -> Reply:
    """Read a page of the traces of an episode, newest first."""
    row = _find(call)
    query: MembersQuery = call.query
    conditions = trace_queries.where(owner_of(call), query, contexts(call.request.query))
    conditions.append(traces.c.episode_id == row["episode_id"])
    return await page_of_traces(call, conditions, "created_at")


async def delete(call: Call) -> Reply:
    """Delete an episode and its traces, with all copies of them."""
    owner, episode_id = owner_of(call), call.path["episode_id"]
    deleted = await call.platform.database.write(
        lambda connection: delete_episode(connection, owner, episode_id)
    )
    if not deleted.episodes:
        raise _not_found(call)
    return await deleted_answer(call, deleted)


def _find(call: Call) -> RowMapping:
    owner, episode_id = owner_of(call), call.path["episode_id"]
    row = call.platform.database.point(
        lambda reader: trace_episodes.find(reader, owner, episode_id)
    )
    if row is None:
        raise _not_found(call)
    return row


def _not_found(call: Call) -> RequestError:
    episode_id = call.path["episode_id"]
    return refused(
        ErrorCode.EPISODE_NOT_FOUND, f"there is no episode {episode_id[:80]!r} here", status=404
    )


def _endpoint(method: str, path: str, handler: Any, summary: str, **more: Any) -> Endpoint:
    return Endpoint(
        method, path, handler, summary, headers=(TEAM_HEADER,), words=in_traces_words, **more
    )


_ONE = "/episodes/{episode_id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    _endpoint(
        "GET",
        "/episodes",
        get_page,
        "List episodes",
        answers={200: EpisodeListPage},
        query=EpisodeListQuery,
    ),
    _endpoint(
        "GET",
        _ONE,
        get,
        "Read an episode",
        answers={200: EpisodeDetail, 404: ErrorAnswer},
        query=OneQuery,
    ),
    _endpoint(
        "DELETE",
        _ONE,
        delete,
        "Delete an episode and its traces",
        answers={202: DeletedTraces, 404: ErrorAnswer},
    ),
    _endpoint(
        "GET",
        f"{_ONE}/traces",
        get_traces,
        "List the traces of an episode",
        answers={200: TraceListPage, 404: ErrorAnswer},
        query=MembersQuery,
    ),
)
