"""`AsyncEvalsReader`: the part of the evaluations client that reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from prime_async.errors import NotFoundError
from prime_async.evals.models import Evaluation, EvaluationList, SamplePage
from prime_async.evals.pages import decode_samples
from prime_async.evals.push import not_found
from prime_async.evals.waiting import wait_until_terminal
from prime_async.requests import PageClock, check_range, read_record
from prime_async.resources import AsyncResourceClient
from prime_async.transport import (
    Response,
    path_segment,
)

__all__ = ["AsyncEvalsReader", "evaluation_path"]

MAX_PAGE = 1000


class AsyncEvalsReader(AsyncResourceClient):
    """Reads evaluations and their samples; see :class:`AsyncEvalsClient`."""

    async def get_evaluation(
        self, evaluation_id: str, *, timeout: float | None = None
    ) -> Evaluation:
        """Return one evaluation.

        Raises:
            EvaluationNotFoundError: there is no such evaluation.
        """
        path = evaluation_path(evaluation_id)
        response = await self._send(evaluation_id, "GET", path, timeout=timeout)
        return read_record(response, Evaluation)

    async def list_evaluations(
        self,
        env_name: str | None = None,
        suite_id: str | None = None,
        skip: int = 0,
        limit: int = 50,
        *,
        team_id: str | None = None,
        timeout: float | None = None,
    ) -> EvaluationList:
        """Return one page of evaluations, newest first.

        Args:
            env_name, suite_id: only those of this environment or suite.
            skip: how many to pass over.
            limit: how many to return, 1 to 1,000.
            team_id: only those of this team; default is the client's team.
            timeout: seconds in all; default 60.

        Raises:
            UsageError: `skip` or `limit` is out of range.
        """
        check_range("skip", skip, 0, None)
        check_range("limit", limit, 1, MAX_PAGE)
        transport = await self._api.connect()
        response = await transport.request(
            "GET",
            "/evaluations/",
            params={
                "skip": skip,
                "limit": limit,
                "environment_name": env_name or None,
                "suite_id": suite_id or None,
                "team_id": team_id or self._api.team_id or None,
            },
            timeout=timeout,
        )
        return read_record(response, EvaluationList)

    async def iter_evaluations(
        self,
        env_name: str | None = None,
        suite_id: str | None = None,
        *,
        team_id: str | None = None,
        page_size: int = 100,
        timeout: float | None = None,
    ) -> AsyncIterator[Evaluation]:
        """Yield every evaluation, newest first, reading page by page.

        Args:
            env_name, suite_id, team_id: as for :meth:`list_evaluations`.
            page_size: evaluations per request, 1 to 1,000.
            timeout: seconds for all of it, the caller's own work in between included; default
                86,400 (a day), and 60 for each page.

        Raises:
            UsageError: `page_size` is out of range.
            APITimeoutError: it took too long.
        """
        skip, clock = 0, PageClock(timeout)
        while True:
            page = await self.list_evaluations(
                env_name, suite_id, skip, page_size, team_id=team_id, timeout=clock.next()
            )
            for evaluation in page.evaluations:
                yield evaluation
            skip += len(page.evaluations)
            if not page.evaluations or skip >= page.total:
                return

    async def get_samples(
        self, evaluation_id: str, page: int = 1, limit: int = 100, *, timeout: float | None = None
    ) -> SamplePage:
        """Return one page of samples, in input order, each equal to what was pushed.

        Args:
            evaluation_id: of what.
            page: from 1.
            limit: samples per page, 1 to 1,000.
            timeout: seconds in all; default 60.

        Raises:
            EvaluationNotFoundError: there is no such evaluation.
            UsageError: `page` or `limit` is out of range.
        """
        check_range("page", page, 1, None)
        check_range("limit", limit, 1, MAX_PAGE)
        response = await self._send(
            evaluation_id,
            "GET",
            f"{evaluation_path(evaluation_id)}/samples",
            params={"page": page, "limit": limit},
            timeout=timeout,
        )
        return await decode_samples(response)

    async def iter_samples(
        self, evaluation_id: str, *, page_size: int = 100, timeout: float | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield every sample of an evaluation, in input order, reading page by page.

        Args:
            evaluation_id: of what.
            page_size: samples per request, 1 to 1,000.
            timeout: seconds for all of it, the caller's own work in between included; default
                86,400 (a day), and 60 for each page.

        Raises:
            EvaluationNotFoundError: there is no such evaluation.
            UsageError: `page_size` is out of range.
            APITimeoutError: it took too long.
        """
        number, seen, clock = 1, 0, PageClock(timeout)
        while True:
            page = await self.get_samples(evaluation_id, number, page_size, timeout=clock.next())
            for sample in page.samples:
                yield sample
            # Counted and not reckoned: a platform may give fewer on a page than it was asked for.
            seen += len(page.samples)
            if not page.samples or not (page.has_more or seen < page.total):
                return
            number += 1

    async def wait_for_evaluation(
        self,
        evaluation_id: str,
        *,
        poll_interval: float | None = None,
        timeout: float | None = None,
    ) -> Evaluation:
        """Wait until an evaluation has a final status (COMPLETED, FAILED, CANCELLED or TIMEOUT) and
        return it.

        Args:
            evaluation_id: which.
            poll_interval: seconds between looks; by default they grow from 0.25 to 10.
            timeout: seconds to wait; default 86,400 (a day), ``math.inf`` without end.

        Raises:
            APITimeoutError: it is not final in time.
            EvaluationNotFoundError: there is no such evaluation.
        """
        return await wait_until_terminal(
            lambda: self.get_evaluation(evaluation_id), evaluation_id, poll_interval, timeout
        )

    async def _send(self, evaluation_id: str, method: str, path: str, **options: Any) -> Response:
        """Send a request about one evaluation; a 404 says which."""
        transport = await self._api.connect()
        try:
            return await transport.request(method, path, **options)
        except NotFoundError as error:
            raise not_found(evaluation_id, error) from error


def evaluation_path(evaluation_id: str) -> str:
    """Return the path of an evaluation.

    Raises:
        UsageError: the id is empty or would change the path.
    """
    return f"/evaluations/{path_segment(evaluation_id, 'evaluation_id')}"
