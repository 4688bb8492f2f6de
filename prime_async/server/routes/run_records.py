"""What runs of either kind report step by step: metric rows and distributions.

Training runs are named in the body or by ``/rft/external-runs/{id}``, evaluations by
``/evaluations/{id}``; otherwise the two are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import Connection

from prime_async.runs.wire import (
    LARGEST_STEP,
    DistributionPage,
    LogDistributions,
    LogMetrics,
    LogTrainingDistributions,
    LogTrainingMetrics,
    MetricPage,
    RunKind,
    StoredCount,
)
from prime_async.server.answers import Answer, answer
from prime_async.server.clock import timestamp
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer
from prime_async.server.routes.evaluations import evaluation_not_found
from prime_async.server.routes.rft import training_run_not_found
from prime_async.server.runs.cursors import read_cursor, write_cursor
from prime_async.server.runs.rows import read_distributions, read_rows
from prime_async.server.store import distributions, metric_rows, runs
from prime_async.server.store.metric_rows import Written
from prime_async.server.store.runs import Subject

__all__ = ["EVAL_ENDPOINTS", "TRAIN_ENDPOINTS"]

_LARGE = 64 * 1024

StepText = Annotated[int, Meta(ge=-LARGEST_STEP, le=LARGEST_STEP)]


class MetricsQuery(Struct, kw_only=True):
    """Query of metric rows; ``after_step`` leaves out rows without a step and up to that step."""

    after_step: StepText | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000
    cursor: str | None = None


class DistributionsQuery(Struct, kw_only=True):
    """Query of distributions, of one name or step or all."""

    name: str | None = None
    step: StepText | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    cursor: str | None = None


async def log_eval_metrics(call: Call) -> Reply:
    """Store metric rows of an evaluation."""
    return await _log_metrics(call, _find(call, "eval", call.path["evaluation_id"]))


async def log_train_metrics(call: Call) -> Reply:
    """Store metric rows of a training run."""
    return await _log_metrics(call, _find(call, "train", call.body.run_id))


async def _log_metrics(call: Call, run: Subject) -> Reply:
    body: LogMetrics = call.body
    if len(call.raw) > _LARGE:
        rows = await call.platform.in_thread(read_rows, call.raw, body)
    else:
        rows = read_rows(call.raw, body)

    def write(connection: Connection) -> Answer:
        return _counted(metric_rows.put(connection, run, rows))

    return await call.commit(write, rows=max(1, len(rows)))


def _counted(written: Written) -> Answer:
    return answer({"stored": written.stored, "updated": written.updated})


async def log_eval_distributions(call: Call) -> Reply:
    """Store distributions of an evaluation."""
    return await _log_distributions(call, _find(call, "eval", call.path["evaluation_id"]))


async def log_train_distributions(call: Call) -> Reply:
    """Store distributions of a training run."""
    return await _log_distributions(call, _find(call, "train", call.body.run_id))


async def _log_distributions(call: Call, run: Subject) -> Reply:
    body: LogDistributions = call.body
    series = read_distributions(call.raw)
    now = call.platform.clock.now()

    def write(connection: Connection) -> Answer:
        return _counted(distributions.put(connection, run, body.step, series, now))

    return await call.commit(write, rows=len(series))


async def eval_metrics(call: Call) -> Reply:
    """Read a page of an evaluation's metric rows."""
    return await _metrics(call, _find(call, "eval", call.path["evaluation_id"], public=True))


async def train_metrics(call: Call) -> Reply:
    """Read a page of a training run's metric rows."""
    return await _metrics(call, _find(call, "train", call.path["run_id"]))


async def _metrics(call: Call, run: Subject) -> Reply:
    query: MetricsQuery = call.query
    after = None
    if query.after_step is not None:
        after = metric_rows.Place(query.after_step, 0)
    if query.cursor is not None:
        after = read_cursor(query.cursor, metric_rows.Place)

    def read(connection: Connection) -> Answer:
        rows, last = metric_rows.page(connection, run, after, query.limit)
        return _page("rows", rows, None if last is None else write_cursor(last))

    return await call.platform.database.scan(read)


async def eval_distributions(call: Call) -> Reply:
    """Read a page of an evaluation's distributions."""
    return await _distributions(call, _find(call, "eval", call.path["evaluation_id"], public=True))


async def train_distributions(call: Call) -> Reply:
    """Read a page of a training run's distributions."""
    return await _distributions(call, _find(call, "train", call.path["run_id"]))


async def _distributions(call: Call, run: Subject) -> Reply:
    query: DistributionsQuery = call.query
    after = None if query.cursor is None else read_cursor(query.cursor, distributions.Place)
    wanted = distributions.Wanted(query.name, query.step)

    def read(connection: Connection) -> Answer:
        found, last = distributions.page(connection, run, wanted, after, query.limit)
        texts = [
            msgspec.json.encode(
                {
                    "name": one.name,
                    "step": one.step,
                    "values": msgspec.Raw(one.values),
                    "created_at": timestamp(one.created_at),
                }
            )
            for one in found
        ]
        return _page("distributions", texts, None if last is None else write_cursor(last))

    return await call.platform.database.scan(read)


def _page(name: str, texts: Iterable[bytes], cursor: str | None) -> Answer:
    body: dict[str, Any] = {
        name: msgspec.Raw(b"[" + b",".join(texts) + b"]"),
        "next_cursor": cursor,
    }
    return answer(body)


def _find(call: Call, kind: RunKind, run_id: str, *, public: bool = False) -> Subject:
    found = call.platform.database.point(
        lambda reader: runs.subject(reader, kind, run_id, call.caller, public=public)
    )
    if found is None:
        raise evaluation_not_found(run_id) if kind == "eval" else training_run_not_found(run_id)
    return found


_READ = {404: ErrorAnswer}
_WRITE = {200: StoredCount, 404: ErrorAnswer, 409: ErrorAnswer}

EVAL_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/evaluations/{evaluation_id}/metric-rows",
        log_eval_metrics,
        "Store metric rows of an evaluation",
        _WRITE,
        body=LogMetrics,
        ingests=True,
    ),
    Endpoint(
        "GET",
        "/evaluations/{evaluation_id}/metric-rows",
        eval_metrics,
        "Read metric rows of an evaluation, by step",
        {200: MetricPage, **_READ},
        query=MetricsQuery,
    ),
    Endpoint(
        "POST",
        "/evaluations/{evaluation_id}/distributions",
        log_eval_distributions,
        "Store distributions of an evaluation",
        _WRITE,
        body=LogDistributions,
        ingests=True,
    ),
    Endpoint(
        "GET",
        "/evaluations/{evaluation_id}/distributions",
        eval_distributions,
        "Read distributions of an evaluation, by step",
        {200: DistributionPage, **_READ},
        query=DistributionsQuery,
    ),
)

TRAIN_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/rft/metrics",
        log_train_metrics,
        "Store metric rows of a training run",
        _WRITE,
        body=LogTrainingMetrics,
        ingests=True,
    ),
    Endpoint(
        "GET",
        "/rft/external-runs/{run_id}/metrics",
        train_metrics,
        "Read metric rows of a training run, by step",
        {200: MetricPage, **_READ},
        query=MetricsQuery,
    ),
    Endpoint(
        "POST",
        "/rft/distributions",
        log_train_distributions,
        "Store distributions of a training run",
        _WRITE,
        body=LogTrainingDistributions,
        ingests=True,
    ),
    Endpoint(
        "GET",
        "/rft/external-runs/{run_id}/distributions",
        train_distributions,
        "Read distributions of a training run, by step",
        {200: DistributionPage, **_READ},
        query=DistributionsQuery,
    ),
)
