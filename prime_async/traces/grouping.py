"""`AsyncTraceRunsReader`: the part of the traces client that reads episodes and runs, and
searches.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Unpack

from prime_async.traces.codes import RunType, SearchField
from prime_async.traces.connection import id_path
from prime_async.traces.errors import in_family
from prime_async.traces.filters import (
    EpisodeFilters,
    Moment,
    Repeated,
    RunFilters,
    SearchFilters,
    check_names,
    repeated,
    written,
)
from prime_async.traces.models import (
    EpisodeDetail,
    EpisodeListPage,
    EpisodeSummary,
    RunListPage,
    RunStepList,
    RunSummary,
    TraceListPage,
    TraceSearchMatch,
    TraceSearchPage,
)
from prime_async.traces.paging import through_pages
from prime_async.traces.reading import AsyncTracesReader

__all__ = ["AsyncTraceRunsReader"]


class AsyncTraceRunsReader(AsyncTracesReader):
    """Reads episodes and runs, and searches; see :class:`AsyncTracesClient`."""

    async def list_episodes(
        self,
        *,
        run_id: str | None = None,
        upload_id: Repeated | None = None,
        environment_id: str | None = None,
        outcome: str | None = None,
        has_error: bool | None = None,
        run_step: int | None = None,
        step_min: int | None = None,
        step_max: int | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        context: Mapping[str, str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> EpisodeListPage:
        """Return one page of episodes, newest first; an episode must fit all filters given.

        Args:
            run_id, environment_id, outcome: exactly this one.
            upload_id: one, or several of which any will do.
            has_error: True for those only, False for the others.
            run_step, step_min, step_max, context: fit if they do for any trace of the episode.
            created_after, created_before: ISO 8601 text or datetimes.
            limit: episodes per page, 1 to 100, default 20.
            cursor: ``next_cursor`` of the page before, with the same filters.
            timeout: seconds in all; default 60.

        Raises:
            ValidationRejectedError: the service does not know a filter or the cursor.
        """
        params = {
            "run_id": run_id,
            "upload_id": repeated(upload_id),
            "environment_id": environment_id,
            "outcome": outcome,
            "has_error": has_error,
            "run_step": run_step,
            "step_min": step_min,
            "step_max": step_max,
            "created_after": created_after,
            "created_before": created_before,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._get(EpisodeListPage, "/episodes", written(params, context), timeout)

    async def iter_episodes(
        self,
        *,
        limit: int | None = 100,
        cursor: str | None = None,
        timeout: float | None = None,
        **filters: Unpack[EpisodeFilters],
    ) -> AsyncIterator[EpisodeSummary]:
        """Yield every episode that fits, page by page; the next page is fetched meanwhile.

        Args:
            limit: episodes per request.
            cursor: where to begin.
            timeout: seconds for all of it; default 86,400 (a day), and 60 for each page.
            filters: as for :meth:`list_episodes`.

        Raises:
            TracesUsageError: there is no such filter.
        """
        check_names(filters, EpisodeFilters)

        async def fetch(at: str | None, seconds: float) -> EpisodeListPage:
            return await self.list_episodes(limit=limit, cursor=at, timeout=seconds, **filters)

        with in_family():
            async for episode in through_pages(fetch, cursor, timeout):
                yield episode

    async def get_episode(self, episode_id: str, *, timeout: float | None = None) -> EpisodeDetail:
        """Return one episode with the totals of its traces.

        Raises:
            NotFoundError: there is no such episode.
        """
        return await self._get(EpisodeDetail, _episode(episode_id), None, timeout)

    async def get_episode_raw(self, episode_id: str, *, timeout: float | None = None) -> bytes:
        """Return the envelope of an episode as it was uploaded, its ``traces`` replaced by their
        ids.

        Raises:
            NotFoundError: there is no such episode.
        """
        return await self._get_bytes(_episode(episode_id), timeout)

    async def list_episode_traces(
        self,
        episode_id: str,
        *,
        run_id: str | None = None,
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
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> TraceListPage:
        """Return one page of the traces of an episode, newest first; filters as for :meth:`list`.

        Raises:
            NotFoundError: there is no such episode.
        """
        params = {
            "run_id": run_id,
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
            "limit": limit,
            "cursor": cursor,
        }
        path = f"{_episode(episode_id)}/traces"
        return await self._get(TraceListPage, path, written(params, context), timeout)

    async def list_runs(
        self,
        *,
        run_type: RunType | Sequence[RunType] | None = None,
        created_by: Repeated | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> RunListPage:
        """Return one page of runs, those with the latest traces first.

        Args:
            run_type: ``eval``, ``train`` or ``unknown``, or several of which any will do.
            created_by: a user's id, or several; a run stays if any of its traces is theirs.
            created_after, created_before: bound the traces that are added up.
            limit: runs per page, 1 to 100, default 20.
            cursor: ``next_cursor`` of the page before, with the same filters.
            timeout: seconds in all; default 60.

        Raises:
            ValidationRejectedError: the service does not know a filter or the cursor.
        """
        params = {
            "run_type": repeated(run_type),
            "created_by": repeated(created_by),
            "created_after": created_after,
            "created_before": created_before,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._get(RunListPage, "/runs", written(params), timeout)

    async def iter_runs(
        self,
        *,
        limit: int | None = 100,
        cursor: str | None = None,
        timeout: float | None = None,
        **filters: Unpack[RunFilters],
    ) -> AsyncIterator[RunSummary]:
        """Yield every run that fits, page by page; the next page is fetched meanwhile.

        Args:
            limit: runs per request.
            cursor: where to begin.
            timeout: seconds for all of it; default 86,400 (a day), and 60 for each page.
            filters: as for :meth:`list_runs`.

        Raises:
            TracesUsageError: there is no such filter.
        """
        check_names(filters, RunFilters)

        async def fetch(at: str | None, seconds: float) -> RunListPage:
            return await self.list_runs(limit=limit, cursor=at, timeout=seconds, **filters)

        with in_family():
            async for run in through_pages(fetch, cursor, timeout):
                yield run

    async def get_run(self, run_id: str, *, timeout: float | None = None) -> RunSummary:
        """Return one run, its traces added up.

        Raises:
            NotFoundError: no trace names this run.
        """
        return await self._get(RunSummary, _run(run_id), None, timeout)

    async def list_run_steps(self, run_id: str, *, timeout: float | None = None) -> RunStepList:
        """Return the training steps of a run, all of them; none for a run nobody knows."""
        return await self._get(RunStepList, f"{_run(run_id)}/steps", None, timeout)

    async def search(
        self,
        query: str,
        *,
        run_id: str,
        field: SearchField = "content",
        role: str | None = None,
        run_step: int | None = None,
        has_error: bool | None = None,
        reward_min: float | None = None,
        reward_max: float | None = None,
        limit: int = 50,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> TraceSearchPage:
        """Return one page of the messages of a run that hold a text, letter by letter.

        Args:
            query: the text, 3 to 256 characters; upper and lower case differ.
            run_id: where to look.
            field: ``content``, ``reasoning_content`` or ``tool_calls``.
            role, run_step, has_error, reward_min, reward_max: only messages of this role, in traces
                that fit.
            limit: matches per page, 1 to 100.
            cursor: ``next_cursor`` of the page before, with the same arguments.
            timeout: seconds in all; default 60.

        Returns:
            The page, possibly an empty one with more to come. Its ``coverage`` comes with the first
            page only.

        Raises:
            ValidationRejectedError: the text is too short or too long, or the search too wide (code
                ``search_limit_exceeded``).
        """
        params = {
            "query": query,
            "field": field,
            "role": role,
            "run_step": run_step,
            "has_error": has_error,
            "reward_min": reward_min,
            "reward_max": reward_max,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._get(TraceSearchPage, f"{_run(run_id)}/search", written(params), timeout)

    async def iter_search(
        self,
        query: str,
        *,
        run_id: str,
        field: SearchField = "content",
        limit: int = 100,
        cursor: str | None = None,
        timeout: float | None = None,
        **filters: Unpack[SearchFilters],
    ) -> AsyncIterator[TraceSearchMatch]:
        """Yield every match, page by page; the next page is fetched meanwhile.

        Args:
            query, run_id, field: as for :meth:`search`.
            limit: matches per request.
            cursor: where to begin.
            timeout: seconds for all of it; default 86,400 (a day), and 60 for each page.
            filters: as for :meth:`search`.

        Raises:
            ValidationRejectedError: as for :meth:`search`.
            TracesUsageError: there is no such filter.
        """
        check_names(filters, SearchFilters)

        async def fetch(at: str | None, seconds: float) -> TraceSearchPage:
            return await self.search(
                query,
                run_id=run_id,
                field=field,
                limit=limit,
                cursor=at,
                timeout=seconds,
                **filters,
            )

        with in_family():
            async for match in through_pages(fetch, cursor, timeout):
                yield match


def _episode(episode_id: str) -> str:
    return id_path("episodes", episode_id, "episode_id")


def _run(run_id: str) -> str:
    return id_path("runs", run_id, "run_id")
