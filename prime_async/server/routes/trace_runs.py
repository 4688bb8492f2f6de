"""Runs as the traces service knows them: their traces added up, their steps, search in them."""

from __future__ import annotations

from typing import Any

from prime_async.server.answers import answer
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer
from prime_async.server.otlp.intake import settle
from prime_async.server.store import trace_runs
from prime_async.server.traces.cursors import read_cursor
from prime_async.server.traces.filters import RunListQuery, SearchQuery
from prime_async.server.traces.owners import TEAM_HEADER, owner_of
from prime_async.server.traces.paging import page_answer
from prime_async.server.traces.refusals import in_traces_words, refused
from prime_async.server.traces.searching import search
from prime_async.server.traces.views import run_summary
from prime_async.traces.codes import ErrorCode
from prime_async.traces.models import RunListPage, RunStepList, RunSummary, TraceSearchPage

__all__ = ["ENDPOINTS"]


async def get_page(call: Call) -> Reply:
    """Read a page of runs, those first that got traces last."""
    query: RunListQuery = call.query
    owner = owner_of(call)
    after = read_cursor(call, query.cursor, tuple[float, str])
    runs = await call.platform.database.scan(
        lambda reader: trace_runs.page(reader, owner, query, query.limit + 1, after)
    )
    return page_answer(
        call, runs, query.limit, run_summary, lambda run: (run["last_ingested_at"], run["run_id"])
    )


async def get(call: Call) -> Reply:
    """Read one run."""
    owner, run_id = owner_of(call), call.path["trace_run_id"]
    run = await call.platform.database.scan(lambda reader: trace_runs.find(reader, owner, run_id))
    if run is None:
        raise refused(
            ErrorCode.RUN_NOT_FOUND, f"there is no trace of the run {run_id[:80]!r}", status=404
        )
    return answer(run_summary(run))


async def get_steps(call: Call) -> Reply:
    """Read the training steps of a run; none of an unknown one."""
    owner, run_id = owner_of(call), call.path["trace_run_id"]
    steps = await call.platform.database.scan(
        lambda reader: trace_runs.steps(reader, owner, run_id)
    )
    return answer(
        {
            "step_min": steps[0]["step"] if steps else None,
            "step_max": steps[-1]["step"] if steps else None,
            "step_count": len(steps),
            "items": steps,
        }
    )


async def get_matches(call: Call) -> Reply:
    """Search the messages of a run."""
    query: SearchQuery = call.query
    return answer(await search(call, call.path["trace_run_id"], query))


def _get(path: str, handler: Any, summary: str, answers: Any, query: Any = None) -> Endpoint:
    return Endpoint(
        "GET",
        path,
        handler,
        summary,
        answers,
        query=query,
        headers=(TEAM_HEADER,),
        before=settle,
        words=in_traces_words,
    )


_ONE = "/runs/{trace_run_id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    _get("/runs", get_page, "List runs", {200: RunListPage}, RunListQuery),
    _get(_ONE, get, "Read a run", {200: RunSummary, 404: ErrorAnswer}),
    _get(f"{_ONE}/steps", get_steps, "List the training steps of a run", {200: RunStepList}),
    _get(f"{_ONE}/search", get_matches, "Search a run", {200: TraceSearchPage}, SearchQuery),
)
