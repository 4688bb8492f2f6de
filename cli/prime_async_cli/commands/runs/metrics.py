"""``runs metrics``: the numbers of one run, drawn."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import asyncclick

from prime_async_cli import streams
from prime_async_cli.command import command
from prime_async_cli.commands.runs.records import Known, find_run
from prime_async_cli.commands.runs.series import Series, read_series
from prime_async_cli.failures import CommandError
from prime_async_cli.options import Identifier, Number, argument, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.tables import Column

if TYPE_CHECKING:
    from prime_async.api import AsyncAPIClient
    from prime_async.runs.wire import Distribution

__all__ = ["metrics"]

_WIDTH = 24
_LARGEST_STEP = 2**53

_METRICS = (
    Column("METRIC", "name", whole=True),
    Column("ROWS", "rows", drop=4, right=True),
    Column("FIRST", "first", drop=3, right=True),
    Column("LAST", "last", right=True),
    Column("MIN", "min", drop=1, right=True),
    Column("MAX", "max", drop=2, right=True),
    Column("TREND", "trend", drop=5),
)
_DISTRIBUTIONS = (
    Column("DISTRIBUTION", "name", whole=True),
    Column("STEP", "step", drop=3, right=True),
    Column("VALUES", "count", drop=4, right=True),
    Column("MIN", "min", drop=1, right=True),
    Column("MEAN", "mean", right=True),
    Column("MAX", "max", drop=2, right=True),
    Column("HISTOGRAM", "histogram", drop=5),
)


@command(
    "metrics",
    examples="""
    prime-async runs metrics RUN-ID
    prime-async runs metrics RUN-ID --metric loss --metric reward --after-step 100
    """,
)
@argument("run_id", type=Identifier(), metavar="RUN", help="The id of the run.")
@asyncclick.option(
    "--metric",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this metric or distribution; may be given again.",
)
@asyncclick.option(
    "--after-step", type=Number(0, _LARGEST_STEP), help="Only metrics of later steps."
)
@asyncclick.option(
    "--step",
    type=Number(0, _LARGEST_STEP),
    help="The distributions of this step. Default: the latest of each name.",
)
@output_option
@pass_session
async def metrics(
    session: Session,
    run_id: str,
    names: tuple[str, ...],
    after_step: int | None,
    step: int | None,
) -> None:
    """Draw the metrics of a run.

    Each metric as a line from its first step to its last, each distribution as a histogram from
    its lowest value to its highest. The reward per step that the traces tell is traces/avg_reward.

    JSON: {"run_id", "type", "metrics": {name: {"steps": [...], "values": [...]}}, "distributions":
    [{"name", "step", "values"}]}.
    """
    async with session.api() as api, session.traces() as traces:
        known = await find_run(api, traces, run_id)
        series = await read_series(api, traces, known, names=names, after_step=after_step)
        distributions = await _distributions(api, known, names, step)
    _refuse_unknown(names, {*series, *(each.name for each in distributions)})
    if session.output.json:
        session.output.document(_document(known, series, distributions))
        return
    plain = session.output.plain or not streams.takes_unicode(sys.stdout)
    if series:
        rows = [_row(each, plain=plain) for each in series.values()]
        session.output.table(rows, _METRICS)
    if series and distributions:
        session.output.text("")
    if distributions:
        session.output.table([_spread(each, plain=plain) for each in distributions], _DISTRIBUTIONS)
    if not series:
        after = "" if after_step is None else f" after step {after_step}"
        session.output.note(f"run {run_id} has no metrics{after}")
    if step is not None and not distributions:
        session.output.note(f"run {run_id} has no distributions of step {step}")


async def _distributions(
    api: AsyncAPIClient, known: Known, names: tuple[str, ...], step: int | None
) -> list[Distribution]:
    """Return one distribution of each name: of this step, or the latest."""
    from prime_async.errors import MethodNotAllowedError, NotFoundError
    from prime_async.runs import AsyncRunsClient

    if known.record is None:
        return []
    latest: dict[str, Distribution] = {}
    client = AsyncRunsClient(api)
    try:
        async for found in client.iter_distributions(known.run_id, kind=known.kind, step=step):
            if not names or found.name in names:
                latest[found.name] = found
    except (NotFoundError, MethodNotAllowedError):
        return []  # a platform that keeps none, or does not give them back
    return [latest[name] for name in sorted(latest)]


def _refuse_unknown(names: tuple[str, ...], found: set[str]) -> None:
    missing = [name for name in names if name not in found]
    if missing:
        raise CommandError(
            f"the run has no metric {missing[0]!r}",
            hint="without --metric the command shows all there are",
        )


def _row(series: Series, *, plain: bool) -> dict[str, Any]:
    from prime_async_cli.charts import sparkline

    return {
        "name": series.name,
        "rows": len(series.values),
        "first": series.values[0],
        "last": series.last,
        "min": min(series.values),
        "max": max(series.values),
        "trend": sparkline(series.values, _WIDTH, ascii_only=plain),
    }


def _spread(distribution: Distribution, *, plain: bool) -> dict[str, Any]:
    from prime_async_cli.charts import histogram

    values = [each for each in distribution.numbers if each is not None and math.isfinite(each)]
    return {
        "name": distribution.name,
        "step": distribution.step,
        "count": len(distribution.numbers),
        "min": min(values, default=None),
        "mean": math.fsum(each / len(values) for each in values) if values else None,
        "max": max(values, default=None),
        "histogram": histogram(values, _WIDTH, ascii_only=plain),
    }


def _document(
    known: Known, series: dict[str, Series], distributions: list[Distribution]
) -> dict[str, Any]:
    return {
        "run_id": known.run_id,
        "type": known.kind,
        "metrics": {
            name: {"steps": each.steps, "values": each.values} for name, each in series.items()
        },
        "distributions": [
            {"name": each.name, "step": each.step, "values": each.numbers} for each in distributions
        ],
    }
