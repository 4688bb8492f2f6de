"""Streams all traces that fit a filter: there is no file, and memory does not grow with them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from aiohttp import web
from sqlalchemy import RowMapping

from prime_async.server.endpoints import Call
from prime_async.server.failures import RequestError
from prime_async.server.store import trace_queries
from prime_async.server.store.blobs import Blobs
from prime_async.server.store.trace_queries import Conditions
from prime_async.server.traces.views import trace_summary
from prime_async.traces.errors import TracesUsageError
from prime_async.traces.exporting import ExportBuffer, TraceExport, new_export
from prime_async.traces.models import TraceSummary

__all__ = ["Format", "export"]

Format = Literal["jsonl", "parquet", "raw"]

ROWS_AT_ONCE = 256
BYTES_AT_ONCE = 1024 * 1024

_MEDIA = {
    "jsonl": "application/x-ndjson",
    "raw": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


async def export(call: Call, conditions: Conditions, kind: Format) -> web.StreamResponse:
    """Answer the traces that fit, newest first.

    Raises:
        RequestError: 501, the server cannot write this format; the message says what helps.
    """
    buffer = ExportBuffer()
    try:
        writer = await call.platform.in_thread(new_export, kind, buffer)
    except TracesUsageError as error:
        remedy = f"{error.message}; on the server: {error.hint}"
        raise RequestError(501, "not_implemented", remedy) from error
    response = web.StreamResponse()
    response.content_type = _MEDIA[kind]
    work = _Work(call.platform.traces.blobs, writer)
    rows = _rows(call, conditions)
    # The first rows are read before the head goes out: until then an error can be answered as one.
    batch = await anext(rows, None)
    await response.prepare(call.request)
    while batch is not None:
        for part in _parts(batch):
            await call.platform.in_thread(work.write, part)
            await response.write(buffer.take())
        batch = await anext(rows, None)
    await call.platform.in_thread(writer.close)
    await response.write_eof(buffer.take())
    return response


async def _rows(call: Call, conditions: Conditions) -> AsyncIterator[Sequence[RowMapping]]:
    after: tuple[float, int] | None = None
    while True:
        read = partial(
            trace_queries.page,
            conditions=conditions,
            sort="created_at",
            limit=ROWS_AT_ONCE,
            after=after,
        )
        batch = await call.platform.database.scan(read)
        if not batch:
            return
        yield batch
        after = trace_queries.place(batch[-1], "created_at")


def _parts(batch: Sequence[RowMapping]) -> Iterable[Sequence[RowMapping]]:
    """A batch in parts of about ``BYTES_AT_ONCE``."""
    part: list[RowMapping] = []
    size = 0
    for row in batch:
        part.append(row)
        size += row["length"]
        if size >= BYTES_AT_ONCE:
            yield part
            part, size = [], 0
    if part:
        yield part


class _Work:
    """Reads documents and writes rows; blocks."""

    def __init__(self, blobs: Blobs, writer: TraceExport) -> None:
        self._blobs = blobs
        self._writer = writer

    def write(self, rows: Iterable[Mapping[Any, Any]]) -> None:
        for row in rows:
            try:
                document = self._blobs.read(row["digest"], row["offset"], row["length"])
            except FileNotFoundError:
                # It has been deleted since the row was read.
                continue
            self._writer.add(TraceSummary.from_wire(trace_summary(row)), document)
