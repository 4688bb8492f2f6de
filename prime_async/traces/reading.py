"""`AsyncTracesReader`: the part of the traces client that reads traces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from os import PathLike
from typing import Any, Unpack

from prime_async.localfiles import given_path
from prime_async.traces.connection import AsyncTracesConnection, id_path
from prime_async.traces.downloads import download
from prime_async.traces.errors import in_family
from prime_async.traces.filters import (
    Moment,
    NodeFilters,
    Repeated,
    TraceFilters,
    check_names,
    repeated,
    written,
)
from prime_async.traces.models import (
    TraceCall,
    TraceCallPage,
    TraceListPage,
    TraceNode,
    TraceNodePage,
    TraceSummary,
)
from prime_async.traces.paging import through_pages

__all__ = ["AsyncTracesReader"]


class AsyncTracesReader(AsyncTracesConnection):
    """Reads traces, their nodes and calls; see :class:`AsyncTracesClient`."""

    async def list(
        self,
        *,
        run_id: str | None = None,
        upload_id: Repeated | None = None,
        environment_id: str | None = None,
        model_id: str | None = None,
        model_provider: str | None = None,
        task_id: str | None = None,
        reward_min: float | None = None,
        reward_max: float | None = None,
        outcome: str | None = None,
        has_error: bool | None = None,
        is_truncated: bool | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        context: Mapping[str, str] | None = None,
        sort: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        agent_name: str | None = None,
        run_step: int | None = None,
        timeout: float | None = None,
    ) -> TraceListPage:
        """Return one page of traces, newest first; a trace must fit all filters that are given.

        Args:
            run_id, environment_id, model_id, model_provider, task_id, outcome: exactly this one.
            upload_id: one, or several of which any will do.
            reward_min, reward_max: bounds of the reward, both included; traces without a reward
                fit neither.
            has_error, is_truncated: True for those only, False for the others.
            created_after, created_before: ISO 8601 text or datetimes.
            context: keys and values that were said with the upload.
            sort: ``created_at`` (default), ``reward`` or ``duration_ms``.
            limit: traces per page, 1 to 100, default 20.
            cursor: ``next_cursor`` of the page before, with the same filters.
            agent_name, run_step: exactly this one; only the embedded platform knows them.
            timeout: seconds in all; default 60.

        Raises:
            ValidationRejectedError: the service does not know a filter or the cursor.
        """
        params = {
            "run_id": run_id,
            "upload_id": repeated(upload_id),
            "environment_id": environment_id,
            "model_id": model_id,
            "model_provider": model_provider,
            "task_id": task_id,
            "reward_min": reward_min,
            "reward_max": reward_max,
            "outcome": outcome,
            "has_error": has_error,
            "is_truncated": is_truncated,
            "created_after": created_after,
            "created_before": created_before,
            "sort": sort,
            "limit": limit,
            "cursor": cursor,
            "agent_name": agent_name,
            "run_step": run_step,
        }
        return await self._get(TraceListPage, "/traces", written(params, context), timeout)

    async def iter(
        self,
        *,
        sort: str | None = None,
        limit: int | None = 100,
        cursor: str | None = None,
        timeout: float | None = None,
        **filters: Unpack[TraceFilters],
    ) -> AsyncIterator[TraceSummary]:
        """Yield every trace that fits, page by page; the next page is fetched meanwhile.

        Args:
            sort, filters: as for :meth:`list`.
            limit: traces per request.
            cursor: where to begin.
            timeout: seconds for all of it, the caller's own work in between included; default
                86,400 (a day), and 60 for each page.

        Raises:
            TracesUsageError: there is no such filter.
            APITimeoutError: it took too long.
        """
        check_names(filters, TraceFilters)

        async def fetch(at: str | None, seconds: float) -> TraceListPage:
            return await self.list(sort=sort, limit=limit, cursor=at, timeout=seconds, **filters)

        with in_family():
            async for trace in through_pages(fetch, cursor, timeout):
                yield trace

    async def get(self, trace_id: str, *, timeout: float | None = None) -> TraceSummary:
        """Return one trace, as lists show it.

        Raises:
            NotFoundError: there is no such trace.
        """
        return await self._get(TraceSummary, _path(trace_id), None, timeout)

    async def get_raw(self, trace_id: str, *, timeout: float | None = None) -> bytes:
        """Return the exact bytes of a trace as they were uploaded, at most 64 MiB.

        Raises:
            NotFoundError: there is no such trace.
        """
        return await self._get_bytes(_path(trace_id), timeout)

    async def download_raw(
        self, trace_id: str, dest: str | PathLike[str], *, timeout: float | None = None
    ) -> int:
        """Write the exact bytes of a trace into a file and return how many they are.

        The file appears under its name when it is whole; whatever goes wrong, one that was there
        before stays as it was.

        Args:
            trace_id: which.
            dest: the file; its folders are made.
            timeout: seconds in all; default 86,400 (a day), and 60 without a byte.

        Raises:
            NotFoundError: there is no such trace.
            OSError: the file cannot be written.
        """
        with in_family():
            file = given_path(dest, "dest")
        return await self._download(_path(trace_id), {"raw": True}, file, timeout)

    async def list_nodes(
        self,
        trace_id: str,
        *,
        role: Repeated | None = None,
        sampled: bool | None = None,
        after: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> TraceNodePage:
        """Return one page of a trace's messages, in their order.

        Args:
            trace_id: which.
            role: one role, or several of which any will do.
            sampled: True for what the model wrote, False for the rest.
            after: only nodes behind this index; not together with `cursor`.
            limit: nodes per page, 1 to 100, default 20.
            cursor: ``next_cursor`` of the page before, with the same filters.
            timeout: seconds in all; default 60.

        Raises:
            NotFoundError: there is no such trace.
            TraceNotIndexedError: its nodes are not there yet.
            ValidationRejectedError: `after` and `cursor` together, or one that does not fit.
        """
        params = {
            "role": repeated(role),
            "sampled": sampled,
            "after": after,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._get(TraceNodePage, _path(trace_id, "nodes"), written(params), timeout)

    async def iter_nodes(
        self,
        trace_id: str,
        *,
        limit: int | None = 100,
        cursor: str | None = None,
        timeout: float | None = None,
        **filters: Unpack[NodeFilters],
    ) -> AsyncIterator[TraceNode]:
        """Yield every message of a trace, page by page; the next page is fetched meanwhile.

        Args:
            trace_id: which.
            limit, cursor, filters: as for :meth:`list_nodes`.
            timeout: seconds for all of it; default 86,400 (a day), and 60 for each page.

        Raises:
            NotFoundError: there is no such trace.
            TraceNotIndexedError: its nodes are not there yet.
            TracesUsageError: there is no such filter.
        """
        check_names(filters, NodeFilters)

        async def fetch(at: str | None, seconds: float) -> TraceNodePage:
            if at is not None:
                filters["after"] = None  # a cursor says by itself where to go on
            return await self.list_nodes(
                trace_id, limit=limit, cursor=at, timeout=seconds, **filters
            )

        with in_family():
            async for node in through_pages(fetch, cursor, timeout):
                yield node

    async def list_calls(
        self,
        trace_id: str,
        *,
        model: Repeated | None = None,
        finish_reason: Repeated | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> TraceCallPage:
        """Return one page of the model calls of a trace, in their order.

        Args:
            trace_id: which.
            model, finish_reason: one, or several of which any will do.
            limit: calls per page, 1 to 100, default 20.
            cursor: ``next_cursor`` of the page before, with the same filters.
            timeout: seconds in all; default 60.

        Raises:
            NotFoundError: there is no such trace.
            TraceNotIndexedError: its calls are not there yet.
        """
        params = {
            "model": repeated(model),
            "finish_reason": repeated(finish_reason),
            "limit": limit,
            "cursor": cursor,
        }
        return await self._get(TraceCallPage, _path(trace_id, "calls"), written(params), timeout)

    async def iter_calls(
        self,
        trace_id: str,
        *,
        model: Repeated | None = None,
        finish_reason: Repeated | None = None,
        limit: int | None = 100,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[TraceCall]:
        """Yield every model call of a trace, page by page; the next page is fetched meanwhile.

        Args:
            trace_id: which.
            model, finish_reason, limit, cursor: as for :meth:`list_calls`.
            timeout: seconds for all of it; default 86,400 (a day), and 60 for each page.

        Raises:
            NotFoundError: there is no such trace.
            TraceNotIndexedError: its calls are not there yet.
        """

        async def fetch(at: str | None, seconds: float) -> TraceCallPage:
            return await self.list_calls(
                trace_id,
                model=model,
                finish_reason=finish_reason,
                limit=limit,
                cursor=at,
                timeout=seconds,
            )

        with in_family():
            async for call in through_pages(fetch, cursor, timeout):
                yield call

    async def _download(
        self,
        path: str,
        params: Mapping[str, Any],
        dest: str | PathLike[str],
        timeout: float | None,
    ) -> int:
        with in_family():
            return await download(await self._wire.connect(), path, params, dest, timeout)


def _path(trace_id: str, part: str = "") -> str:
    return id_path("traces", trace_id, "trace_id") + (f"/{part}" if part else "")
