"""Exports of a platform that writes none: its traces page by page, their documents several at a
time.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import anyio.to_thread

from prime_async.localfiles import AtomicFile
from prime_async.traces.exporting import ExportBuffer, TraceExport, new_export
from prime_async.traces.models import TraceSummary

__all__ = ["gather_export"]

_AT_ONCE = 8
_BYTES_AT_ONCE = 32 * 2**20
"""Bytes of documents held at a time, one document beyond."""

GetRaw = Callable[[str], Awaitable[bytes]]


async def gather_export(
    dest: str | os.PathLike[str],
    kind: str,
    traces: AsyncIterator[TraceSummary],
    get_raw: GetRaw,
) -> int:
    """Write an export into a file, which appears under its name when it is whole; return its bytes.

    Args:
        dest: the file.
        kind: ``jsonl``, ``parquet`` or ``raw``.
        traces: those to export, in order.
        get_raw: fetches the document of one.
    """
    size = 0
    buffer = ExportBuffer()
    async with AtomicFile(dest) as file:
        export = new_export(kind, buffer)
        async for group in _groups(traces):
            documents = await _fetched(group, get_raw)
            await anyio.to_thread.run_sync(_add, export, group, documents)
            size += await _drain(buffer, file)
        await anyio.to_thread.run_sync(export.close)
        size += await _drain(buffer, file)
        await file.commit()
    return size


async def _drain(buffer: ExportBuffer, file: AtomicFile) -> int:
    data = buffer.take()
    await file.write(data)
    return len(data)


def _add(export: TraceExport, group: list[TraceSummary], documents: list[bytes]) -> None:
    for summary, document in zip(group, documents, strict=True):
        export.add(summary, document)


async def _groups(traces: AsyncIterator[TraceSummary]) -> AsyncIterator[list[TraceSummary]]:
    """Put together traces whose documents are fetched at a time."""
    group: list[TraceSummary] = []
    size = 0
    async for trace in traces:
        if group and (len(group) >= _AT_ONCE or size + trace.size_bytes > _BYTES_AT_ONCE):
            yield group
            group, size = [], 0
        group.append(trace)
        size += trace.size_bytes
    if group:
        yield group


async def _fetched(group: list[TraceSummary], get_raw: GetRaw) -> list[bytes]:
    documents = [b""] * len(group)

    failures: list[Exception] = []

    async def fetch(place: int, trace_id: str) -> None:
        try:
            documents[place] = await get_raw(trace_id)
        except Exception as error:  # raised below, alone and not in a group
            failures.append(error)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for place, trace in enumerate(group):
            tasks.start_soon(fetch, place, trace.trace_id)
    if failures:
        raise failures[0]
    return documents
