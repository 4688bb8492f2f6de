"""`AsyncRunsClient`: what runs reported, read back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from prime_async.models import Record
from prime_async.requests import read_record
from prime_async.resources import AsyncResourceClient
from prime_async.runs.options import RunKind
from prime_async.runs.wire import (
    Distribution,
    DistributionPage,
    MetricPage,
    TrainingRun,
    TrainingRunAnswer,
    TrainingRunPage,
)
from prime_async.traces.errors import TracesUsageError, in_family
from prime_async.traces.paging import through_pages
from prime_async.transport import path_segment

__all__ = ["AsyncRunsClient"]

R = TypeVar("R", bound=Record)
T = TypeVar("T")


class AsyncRunsClient(AsyncResourceClient):
    """Reads training runs, and the metric rows and distributions of runs of both kinds.

    The record of an evaluation is read with ``AsyncEvalsClient``, what is derived from the traces
    of a run with ``AsyncTracesClient.get_run``.
    """

    async def list_training_runs(
        self,
        *,
        status: Literal["RUNNING", "COMPLETED", "FAILED"] | None = None,
        limit: int = 20,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> TrainingRunPage:
        """Return one page of training runs, newest first.

        Args:
            status: only runs in this state.
            limit: runs per page, 1 to 100.
            cursor: ``next_cursor`` of the page before, with the same status.
            timeout: seconds in all; default 60.

        Raises:
            MethodNotAllowedError, NotFoundError: the platform cannot list them.
        """
        params = {
            "status": status,
            "limit": limit,
            "cursor": cursor,
            "team_id": self._api.team_id or None,
        }
        return await self._get(TrainingRunPage, "/rft/external-runs", params, timeout)

    async def get_training_run(self, run_id: str, *, timeout: float | None = None) -> TrainingRun:
        """Return one training run.

        Raises:
            NotFoundError: there is no such training run.
        """
        path = _path(RunKind.TRAIN, run_id)
        return (await self._get(TrainingRunAnswer, path, {}, timeout)).run

    async def list_metrics(
        self,
        run_id: str,
        *,
        kind: RunKind | str = RunKind.EVAL,
        after_step: int | None = None,
        limit: int = 1000,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> MetricPage:
        """Return one page of metric rows by step; rows without a step come first.

        Args:
            run_id, kind: the run.
            after_step: leave out rows without a step, and those up to this one.
            limit: rows per page, 1 to 1000.
            cursor: ``next_cursor`` of the page before.
            timeout: seconds in all; default 60.

        Raises:
            NotFoundError: there is no such run of this kind.
        """
        path = _path(kind, run_id, "metrics", "metric-rows")
        params = {"after_step": after_step, "limit": limit, "cursor": cursor}
        return await self._get(MetricPage, path, params, timeout)

    async def iter_metrics(
        self,
        run_id: str,
        *,
        kind: RunKind | str = RunKind.EVAL,
        after_step: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield every metric row, page by page; the next page is fetched meanwhile.

        Args:
            run_id, kind, after_step: as for :meth:`list_metrics`.
            timeout: seconds for all of it; default 86,400 (a day), and 60 for each page.

        Raises:
            NotFoundError: there is no such run of this kind.
        """

        async def fetch(at: str | None, seconds: float) -> _Page[dict[str, Any]]:
            page = await self.list_metrics(
                run_id, kind=kind, after_step=after_step, cursor=at, timeout=seconds
            )
            return _Page(page.rows, page.next_cursor)

        with in_family():
            async for row in through_pages(fetch, None, timeout):
                yield row

    async def list_distributions(
        self,
        run_id: str,
        *,
        kind: RunKind | str = RunKind.EVAL,
        name: str | None = None,
        step: int | None = None,
        limit: int = 100,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> DistributionPage:
        """Return one page of distributions by step, then name.

        Args:
            run_id, kind: the run.
            name, step: only those of this name, of this step.
            limit: distributions per page, 1 to 1000.
            cursor: ``next_cursor`` of the page before, with the same name and step.
            timeout: seconds in all; default 60.

        Raises:
            NotFoundError: there is no such run of this kind.
        """
        path = _path(kind, run_id, "distributions", "distributions")
        params = {"name": name, "step": step, "limit": limit, "cursor": cursor}
        return await self._get(DistributionPage, path, params, timeout)

    async def iter_distributions(
        self,
        run_id: str,
        *,
        kind: RunKind | str = RunKind.EVAL,
        name: str | None = None,
        step: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Distribution]:
        """Yield every distribution, page by page; the next page is fetched meanwhile.

        Args:
            run_id, kind, name, step: as for :meth:`list_distributions`.
            timeout: seconds for all of it; default 86,400 (a day), and 60 for each page.

        Raises:
            NotFoundError: there is no such run of this kind.
        """

        async def fetch(at: str | None, seconds: float) -> _Page[Distribution]:
            page = await self.list_distributions(
                run_id, kind=kind, name=name, step=step, cursor=at, timeout=seconds
            )
            return _Page(page.distributions, page.next_cursor)

        with in_family():
            async for distribution in through_pages(fetch, None, timeout):
                yield distribution

    async def _get(
        self, model: type[R], path: str, params: dict[str, Any], timeout: float | None
    ) -> R:
        with in_family():
            transport = await self._api.connect()
            response = await transport.request("GET", path, params=params, timeout=timeout)
            return read_record(response, model)


@dataclass(frozen=True, slots=True)
class _Page(Generic[T]):
    """A page under the names that all pages have."""

    items: list[T]
    next_cursor: str | None


def _path(kind: RunKind | str, run_id: str, train: str = "", evaluation: str = "") -> str:
    """Return the path of a run, or of a part of it, which each kind calls its own way."""
    with in_family():
        segment = path_segment(run_id, "run_id")
    if kind == RunKind.TRAIN:
        return f"/rft/external-runs/{segment}" + (f"/{train}" if train else "")
    if kind == RunKind.EVAL:
        return f"/evaluations/{segment}" + (f"/{evaluation}" if evaluation else "")
    raise TracesUsageError(f"kind is {kind!r}", field="kind", hint="'eval' or 'train'")
