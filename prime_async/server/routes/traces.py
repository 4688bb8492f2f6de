"""Traces: upload, lists, one of them, its messages and calls, groups, deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import RowMapping

from prime_async.server.answers import answer
from prime_async.server.endpoints import Call, Endpoint, Header, Reply
from prime_async.server.failures import ErrorAnswer, RequestError
from prime_async.server.otlp.intake import settle
from prime_async.server.store import trace_queries
from prime_async.server.store.trace_deletes import Deleted, delete_run, delete_trace
from prime_async.server.store.trace_queries import Conditions
from prime_async.server.traces.cursors import read_cursor, write_cursor
from prime_async.server.traces.exporting import export
from prime_async.server.traces.filters import (
    ExportQuery,
    GroupBy,
    Sort,
    TraceFilter,
    TraceListQuery,
    contexts,
    moment,
)
from prime_async.server.traces.graphs import calls_of, nodes_of, tools_of
from prime_async.server.traces.ingest import receive
from prime_async.server.traces.owners import TEAM_HEADER, owner_of
from prime_async.server.traces.paging import page_answer
from prime_async.server.traces.reading import read_document, send_document
from prime_async.server.traces.refusals import in_traces_words, refused
from prime_async.server.traces.views import trace_summary
from prime_async.traces.codes import ErrorCode
from prime_async.traces.models import (
    TraceAggregate,
    TraceCallPage,
    TraceListPage,
    TraceNodePage,
    TraceSummary,
    UploadReceipt,
)

__all__ = ["ENDPOINTS", "DeletedTraces", "OneQuery", "deleted_answer", "page_of_traces"]

PAGE_BYTES = 4 * 1024 * 1024
"""A page of messages or calls ends early when they take more."""

_LAST = 2**62
"""Larger than any index."""

Limit = Annotated[int, Meta(ge=1, le=100)]
Show = Callable[[bytes, int], Iterator[dict[str, Any]]]


class UploadForm(Struct, kw_only=True):
    """The parts of an upload: what is said about all lines, and the lines (JSONL)."""

    metadata: str
    traces: str


class AggregateQuery(TraceFilter, kw_only=True):
    """Traces, added up by what they have in common."""

    group_by: GroupBy


class OneQuery(Struct, kw_only=True):
    """Query of one trace; ``raw`` asks for the stored document, byte by byte."""

    raw: bool = False


class NodesQuery(Struct, kw_only=True):
    """A page of messages, those behind ``after``; of several roles any will do."""

    repeated: ClassVar[frozenset[str]] = frozenset({"role"})

    role: list[str] = []
    sampled: bool | None = None
    after: Annotated[int, Meta(ge=0, le=_LAST)] | None = None
    limit: Limit = 20
    cursor: str | None = None


class CallsQuery(Struct, kw_only=True):
    """A page of calls; of several models, or reasons to finish, any will do."""

    repeated: ClassVar[frozenset[str]] = frozenset({"model", "finish_reason"})

    model: list[str] = []
    finish_reason: list[str] = []
    limit: Limit = 20
    cursor: str | None = None


class DeleteOneQuery(Struct, kw_only=True):
    """Deletes the trace only if it began at this moment."""

    created_at: str | None = None


class DeleteRunQuery(Struct, kw_only=True):
    """The run whose traces are deleted."""

    run_id: Annotated[str, Meta(min_length=1)]


class DeletedTraces(Struct, kw_only=True):
    """What was deleted; copies of a trace count once."""

    deleted_traces: int
    deleted_episodes: int


async def upload(call: Call) -> Reply:
    """Store an upload, all of it or nothing."""
    return await receive(call)


async def get_page(call: Call) -> Reply:
    """Read a page of traces."""
    query: TraceListQuery = call.query
    conditions = trace_queries.where(owner_of(call), query, contexts(call.request.query))
    return await page_of_traces(call, conditions, query.sort)


async def page_of_traces(call: Call, conditions: Conditions, sort: Sort) -> Reply:
    """A page of the traces that fit."""
    limit = call.query.limit
    after = read_cursor(call, call.query.cursor, tuple[float, int])
    rows = await call.platform.database.scan(
        lambda reader: trace_queries.page(reader, conditions, sort, limit + 1, after)
    )
    return page_answer(call, rows, limit, trace_summary, partial(trace_queries.place, sort=sort))


async def get_export(call: Call) -> Reply:
    """Send all traces that fit."""
    query: ExportQuery = call.query
    conditions = trace_queries.where(owner_of(call), query, contexts(call.request.query))
    return await export(call, conditions, query.format)


async def aggregate(call: Call) -> Reply:
    """Add traces up by what they have in common."""
    query: AggregateQuery = call.query
    conditions = trace_queries.where(owner_of(call), query, contexts(call.request.query))
    rows = await call.platform.database.scan(
        lambda reader: trace_queries.groups(reader, conditions, query.group_by)
    )
    return answer({"groups": [dict(row) for row in rows]})


async def get(call: Call) -> Reply:
    """Read one trace: what is known of it, or its document."""
    row = _find(call)
    if call.query.raw:
        return await send_document(call, row, row["trace_id"], _not_found(call))
    async with read_document(call, row, _not_found(call)) as document:
        tools = await call.platform.in_thread(tools_of, document)
    return answer({**trace_summary(row), "tool_definitions": tools})


async def get_nodes(call: Call) -> Reply:
    """Read a page of the messages of a trace."""
    query: NodesQuery = call.query
    if query.after is not None and query.cursor is not None:
        raise refused(ErrorCode.INVALID_FILTER, "after and cursor exclude each other")
    show = partial(nodes_of, roles=query.role, sampled=query.sampled)
    return await _graph_page(call, show, "node_idx", query.after)


async def get_calls(call: Call) -> Reply:
    """Read a page of the model calls of a trace."""
    query: CallsQuery = call.query
    show = partial(calls_of, models=query.model, reasons=query.finish_reason)
    return await _graph_page(call, show, "call_idx", None)


async def _graph_page(call: Call, show: Show, index: str, after: int | None) -> Reply:
    """A page of something in a trace that is counted by an index."""
    limit = call.query.limit
    cursor = read_cursor(call, call.query.cursor, tuple[int])
    start = 0 if after is None else after + 1
    if cursor is not None:
        start = min(max(0, cursor[0] + 1), _LAST)
    async with read_document(call, _find(call), _not_found(call)) as document:
        items, last = await call.platform.in_thread(_fitting, show(document, start), limit, index)
    more = None if last is None else write_cursor(call, (last,))
    listed = msgspec.Raw(b"[" + b",".join(items) + b"]")
    return answer({"items": listed, "next_cursor": more, "partial_index": False})


def _fitting(
    items: Iterator[dict[str, Any]], limit: int, index: str
) -> tuple[list[bytes], int | None]:
    """As many items as a page holds, as JSON; and the index of the last, if there are more."""
    page: list[bytes] = []
    size, last = 0, None
    for item in items:
        if len(page) >= limit or size >= PAGE_BYTES:
            return page, last
        page.append(msgspec.json.encode(item))
        size += len(page[-1])
        last = item[index]
    return page, None


async def delete(call: Call) -> Reply:
    """Delete a trace, with all copies of it."""
    owner, trace_id = owner_of(call), call.path["trace_id"]
    wanted = moment("created_at", call.query.created_at)
    row = _find(call)
    # The wire has milliseconds, the store what the trace says.
    if wanted is not None and int(wanted * 1000) != int(row["created_at"] * 1000):
        raise _not_found(call)
    deleted = await call.platform.database.write(
        lambda connection: delete_trace(connection, owner, trace_id)
    )
    if not deleted.traces:
        raise _not_found(call)
    return await deleted_answer(call, deleted)


async def delete_of_run(call: Call) -> Reply:
    """Delete the traces of a run."""
    owner, run_id = owner_of(call), call.query.run_id
    deleted = await call.platform.database.write(
        lambda connection: delete_run(connection, owner, run_id)
    )
    if not deleted.traces:
        raise refused(
            ErrorCode.RUN_NOT_FOUND, f"there is no trace of the run {run_id[:80]!r}", status=404
        )
    return await deleted_answer(call, deleted)


async def deleted_answer(call: Call, deleted: Deleted) -> Reply:
    """Remove the files nobody needs any more, and say what is gone."""
    await call.platform.traces.sweep(deleted.digests)
    counts = DeletedTraces(deleted_traces=deleted.traces, deleted_episodes=deleted.episodes)
    return answer(counts, 202)


def _find(call: Call) -> RowMapping:
    owner, trace_id = owner_of(call), call.path["trace_id"]
    row = call.platform.database.point(lambda reader: trace_queries.find(reader, owner, trace_id))
    if row is None:
        raise _not_found(call)
    return row


def _not_found(call: Call) -> RequestError:
    trace_id = call.path["trace_id"]
    return refused(
        ErrorCode.TRACE_NOT_FOUND, f"there is no trace {trace_id[:80]!r} here", status=404
    )


_HEADERS = (TEAM_HEADER,)
_UPLOAD_HEADERS = (
    *_HEADERS,
    Header(
        "Idempotency-Key",
        "sha256: and the digest of the uncompressed lines, in hex",
        "^sha256:[0-9a-f]{64}$",
    ),
    Header("X-Prime-Line-Format", "episode, or absent for traces", "^(trace|episode)$"),
)


def _get(
    path: str, handler: Any, summary: str, kind: Any, query: type[Struct], *, head: bool = False
) -> Endpoint:
    return Endpoint(
        "GET",
        path,
        handler,
        summary,
        {200: kind, 404: ErrorAnswer},
        query=query,
        headers=_HEADERS,
        head=head,
        before=settle,
        words=in_traces_words,
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/traces",
        upload,
        "Upload traces or episodes",
        {201: UploadReceipt, 408: ErrorAnswer, 409: ErrorAnswer},
        body=UploadForm,
        streams_body=True,
        media="multipart/form-data",
        ingests=True,
        headers=_UPLOAD_HEADERS,
        words=in_traces_words,
    ),
    _get("/traces", get_page, "List traces", TraceListPage, TraceListQuery),
    Endpoint(
        "DELETE",
        "/traces",
        delete_of_run,
        "Delete the traces of a run",
        {202: DeletedTraces, 404: ErrorAnswer},
        query=DeleteRunQuery,
        headers=_HEADERS,
        before=settle,
        words=in_traces_words,
    ),
    Endpoint(
        "GET",
        "/traces/export",
        get_export,
        "Export traces",
        {200: None, 501: ErrorAnswer},
        query=ExportQuery,
        headers=_HEADERS,
        before=settle,
        words=in_traces_words,
    ),
    _get("/traces/aggregate", aggregate, "Add traces up", TraceAggregate, AggregateQuery),
    _get("/traces/{trace_id}", get, "Read a trace", TraceSummary, OneQuery, head=True),
    Endpoint(
        "DELETE",
        "/traces/{trace_id}",
        delete,
        "Delete a trace",
        {202: DeletedTraces, 404: ErrorAnswer},
        query=DeleteOneQuery,
        headers=_HEADERS,
        words=in_traces_words,
    ),
    _get("/traces/{trace_id}/nodes", get_nodes, "Read messages", TraceNodePage, NodesQuery),
    _get("/traces/{trace_id}/calls", get_calls, "Read model calls", TraceCallPage, CallsQuery),
)
