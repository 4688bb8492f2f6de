"""``runs list`` and ``get``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.commands.runs.records import (
    Known,
    find_record,
    find_run,
    find_traces,
    is_disabled,
)
from prime_async_cli.commands.traces import rows
from prime_async_cli.commands.traces.options import cursor_option, filter_options
from prime_async_cli.options import Identifier, Number, argument, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.tables import Column

if TYPE_CHECKING:
    from prime_async.api import AsyncAPIClient
    from prime_async.traces import AsyncTracesClient, RunListPage, RunSummary, RunType

__all__ = ["get", "list_runs"]

Row = Mapping[str, Any]
Item = TypeVar("Item")


_RUNS = (
    Column("RUN ID", "run_id", whole=True),
    Column("TYPE", "type", drop=2, fold=True),
    Column("NAME", "name", drop=4),
    Column("STATUS", "status", drop=1),
    Column("MODEL", "model", drop=5, fold=True),
    Column("TRACES", "trace_count", drop=3, right=True),
    Column("AVG REWARD", "avg_reward", drop=6, right=True),
    Column("STEP", "latest_step", drop=7, right=True),
    Column("UPDATED", rows.moment("updated_at"), drop=8, uncut=True),
)


@command(
    "list",
    examples="""
    prime-async runs list --run-type train
    prime-async runs list -o json | jq -r '.runs[].run_id'
    """,
)
@filter_options("run_type")
@asyncclick.option(
    "-n",
    "--limit",
    type=Number(1, 100),
    default=20,
    show_default=True,
    help="Runs with traces on one page, at most 100; of those without, the newest of each type.",
)
@cursor_option
@output_option
@pass_session
async def list_runs(
    session: Session, run_type: tuple[RunType, ...], limit: int, cursor: str | None
) -> None:
    """List runs with their state and their traces.

    Runs with traces come by their latest upload. The newest evaluations and training runs without
    traces follow on the first page.

    JSON: {"runs": [{"run_id", "type", "record", "traces"}], "next_cursor"}.
    """
    async with session.api() as api, session.traces() as traces:
        page = await _with_traces(session, traces, run_type, limit, cursor)
        known = await _with_records(api, page)
        if cursor is None:
            known += await _without_traces(api, traces, known, run_type, limit)
    if session.output.json:
        runs = [each.document() for each in known]
        session.output.document({"runs": runs, "next_cursor": page.next_cursor})
        return
    if known:
        session.output.table([_row(each) for each in known], _RUNS)
    else:
        session.output.note("no runs")
    if page.next_cursor is not None:
        session.output.note(f"{len(known)} runs; next: --cursor {page.next_cursor}")


async def _with_traces(
    session: Session,
    traces: AsyncTracesClient,
    types: Sequence[RunType],
    limit: int,
    cursor: str | None,
) -> RunListPage:
    """Read a page of the runs that have traces; an empty one where there is no such service."""
    from prime_async.errors import ForbiddenError
    from prime_async.traces import RunListPage

    try:
        return await traces.list_runs(run_type=list(types), limit=limit, cursor=cursor)
    except ForbiddenError as error:
        if not is_disabled(error):
            raise
    session.output.warn("the traces service is not enabled for this account: no runs of traces")
    return RunListPage(items=[])


async def _with_records(api: AsyncAPIClient, page: RunListPage) -> list[Known]:
    """Read the record of each run that has traces."""

    async def read(run: RunSummary) -> Known:
        kind, record = await find_record(api, run.run_id)
        return Known(run.run_id, kind if record is not None else rows.run_type(run), record, run)

    return await _each(page.items, read)


async def _without_traces(
    api: AsyncAPIClient,
    traces: AsyncTracesClient,
    known: Sequence[Known],
    types: Sequence[str],
    limit: int,
) -> list[Known]:
    """Find the newest evaluations and training runs that no trace names."""
    listed = {each.run_id for each in known}
    records = [
        Known(run_id, kind, record, None)
        for kind, record in await _newest_records(api, types, limit)
        if (run_id := record.get("id") or record.get("evaluation_id")) and run_id not in listed
    ]

    async def check(one: Known) -> Known:
        return Known(one.run_id, one.kind, one.record, await find_traces(traces, one.run_id))

    return [each for each in await _each(records, check) if each.traces is None]


async def _newest_records(
    api: AsyncAPIClient, types: Sequence[str], limit: int
) -> list[tuple[str, Row]]:
    from prime_async.errors import MethodNotAllowedError, NotFoundError
    from prime_async.evals import AsyncEvalsClient
    from prime_async.runs import AsyncRunsClient

    found: list[tuple[str, Row]] = []
    if not types or "train" in types:
        with suppress(NotFoundError, MethodNotAllowedError):  # some platforms cannot list them
            page = await AsyncRunsClient(api).list_training_runs(limit=limit)
            found += [("train", run) for run in page.runs]
    if not types or "eval" in types:
        evaluations = await AsyncEvalsClient(api).list_evaluations(limit=limit)
        found += [("eval", evaluation) for evaluation in evaluations.evaluations]
    return found


async def _each(
    items: Sequence[Item], read: Callable[[Item], Coroutine[Any, Any, Known]]
) -> list[Known]:
    """Do the same for all of them at a time, and keep their order; the first error ends it."""
    import asyncio

    tasks: list[asyncio.Task[Known]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks += [group.create_task(read(item)) for item in items]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _row(known: Known) -> Row:
    traces: Row = known.traces or {}
    return {
        "run_id": known.run_id,
        "type": known.kind,
        "name": known.field("name"),
        "status": known.field("status"),
        "model": known.field("baseModel", "model_name") or traces.get("model_ids"),
        "trace_count": traces.get("trace_count", 0),
        "avg_reward": traces.get("avg_reward"),
        "latest_step": _latest_step(known),
        "updated_at": known.field("updatedAt", "updated_at")
        or traces.get("last_trace_ingested_at"),
    }


def _latest_step(known: Known) -> Any:
    told = known.field("latestStep")
    return told if told is not None or known.traces is None else known.traces.step_max


@command("get", examples="prime-async runs get RUN-ID")
@argument("run_id", type=Identifier(), metavar="RUN", help="The id of the run.")
@output_option
@pass_session
async def get(session: Session, run_id: str) -> None:
    """Show one run.

    What the platform keeps of it, then what its traces tell, step by step.

    JSON: {"run_id", "type", "record", "traces", "steps": [...]}.
    """
    async with session.api() as api, session.traces() as traces:
        known = await find_run(api, traces, run_id)
        steps: Sequence[Row] = []
        if known.traces is not None and known.traces.step_count:
            steps = (await traces.list_run_steps(run_id)).items
    if session.output.json:
        session.output.document({**known.document(), "steps": steps})
        return
    session.output.fields(_fields(known))
    if steps:
        session.output.text("")
        session.output.table(steps, rows.STEPS)


def _fields(known: Known) -> list[tuple[str, Any]]:
    shown = [
        ("run", known.run_id),
        ("type", known.kind),
        ("name", known.field("name")),
        ("status", known.field("status")),
        ("why", known.field("errorMessage", "error_message")),
        ("model", known.field("baseModel", "model_name")),
        ("latest step", known.field("latestStep")),
        ("created", known.field("createdAt", "created_at")),
        ("updated", known.field("updatedAt", "updated_at")),
        ("ended", known.field("completedAt", "finalized_at")),
    ]
    summary = known.field("summary", "metrics") or {}
    shown += [(f"summary.{name}", value) for name, value in summary.items()]
    fields = [(name, value) for name, value in shown if value is not None]
    named = {name for name, _ in fields}
    told = [] if known.traces is None else rows.run_fields(known.traces)
    return fields + [(name, value) for name, value in told if name not in named]
