"""`AsyncTracesBulkReader`: the part of the traces client that reads many traces at once."""

from __future__ import annotations

from os import PathLike
from typing import Unpack

from prime_async.errors import APIError
from prime_async.localfiles import given_path
from prime_async.traces.aggregating import TRACES_AGGREGATE, GroupKey, add_up, check_group_key
from prime_async.traces.downloads import DOWNLOAD_SECONDS
from prime_async.traces.errors import in_family
from prime_async.traces.exporting import TRACES_EXPORT, ExportFormat, check_format
from prime_async.traces.filters import TraceFilters, check_names, repeated, written
from prime_async.traces.gathering import gather_export
from prime_async.traces.grouping import AsyncTraceRunsReader
from prime_async.traces.models import TraceAggregate
from prime_async.transport import check_timeout, deadline

__all__ = ["AsyncTracesBulkReader"]

_NOT_IMPLEMENTED = 501


class AsyncTracesBulkReader(AsyncTraceRunsReader):
    """Exports, downloads and adds up traces; see :class:`AsyncTracesClient`."""

    async def export(
        self,
        dest: str | PathLike[str],
        *,
        format: ExportFormat = "jsonl",  # noqa: A002 - what every exporter calls it
        timeout: float | None = None,
        **filters: Unpack[TraceFilters],
    ) -> int:
        """Write every trace that fits into a file, one row each, and return the file's bytes.

        A row holds the summary of a trace (see :class:`TraceSummary`) and, under ``trace``, its
        document as it was uploaded. The platform writes the export where it can; elsewhere it is
        built here, page by page. The file appears under its name when it is whole.

        Args:
            dest: the file; its folders are made.
            format: ``jsonl``, or ``parquet`` (built here, it needs the extra ``parquet``).
            timeout: seconds in all; default 86,400 (a day), and 60 without a byte.
            filters: as for :meth:`list`.

        Raises:
            TracesUsageError: there is no such format or filter, or pyarrow is missing.
            OSError: the file cannot be written.
        """
        return await self._export(dest, check_format(format), filters, timeout)

    async def download(
        self,
        dest: str | PathLike[str],
        *,
        timeout: float | None = None,
        **filters: Unpack[TraceFilters],
    ) -> int:
        """Write the documents of all traces that fit into a file, each line as it was uploaded, and
        return the file's bytes; arguments and errors as for :meth:`export`.
        """
        return await self._export(dest, "raw", filters, timeout)

    async def aggregate(
        self,
        group_by: GroupKey,
        *,
        timeout: float | None = None,
        **filters: Unpack[TraceFilters],
    ) -> TraceAggregate:
        """Add up all traces that fit, by one of their properties.

        The platform does it where it can; elsewhere all summaries are read.

        Args:
            group_by: ``run_id``, ``model_id``, ``environment_id``, ``task_id``, ``outcome``,
                ``agent_name`` or ``run_step``.
            timeout: seconds in all; default 86,400 (a day).
            filters: as for :meth:`list`.

        Returns:
            One group per value, the largest first; ``key`` is None for traces without one.

        Raises:
            TracesUsageError: there is no such property or filter.
        """
        params = {"group_by": check_group_key(group_by), **_written(filters)}
        with in_family(), deadline(check_timeout(timeout, DOWNLOAD_SECONDS), "adding up traces"):
            if TRACES_AGGREGATE in await self._features(filters):
                return await self._get(TraceAggregate, "/traces/aggregate", params)
            return await add_up(group_by, self.iter(**filters))

    async def _export(
        self,
        dest: str | PathLike[str],
        kind: str,
        filters: TraceFilters,
        timeout: float | None,
    ) -> int:
        params = {"format": kind, **_written(filters)}
        with in_family(), deadline(check_timeout(timeout, DOWNLOAD_SECONDS), "the export"):
            file = given_path(dest, "dest")
            if TRACES_EXPORT in await self._features(filters):
                try:
                    return await self._download("/traces/export", params, file, None)
                except APIError as error:
                    if error.status != _NOT_IMPLEMENTED:  # this platform cannot write the format
                        raise
            return await gather_export(file, kind, self.iter(**filters), self.get_raw)

    async def _features(self, filters: TraceFilters) -> frozenset[str]:
        """Return what the platform can do, after a first answer that says so and that takes the
        filters.
        """
        await self.list(limit=1, **filters)
        return (await self._wire.connect()).features


def _written(filters: TraceFilters) -> dict[str, object]:
    check_names(filters, TraceFilters)
    plain = {**filters, "upload_id": repeated(filters.get("upload_id"))}
    return written({key: plain[key] for key in plain if key != "context"}, filters.get("context"))
