"""``runs compare``: the metrics of several runs, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.commands.runs.records import Known, find_run
from prime_async_cli.commands.runs.series import Series, flat, read_series
from prime_async_cli.failures import USAGE, CommandError
from prime_async_cli.options import Identifier, argument, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.tables import Column

if TYPE_CHECKING:
    from prime_async.api import AsyncAPIClient
    from prime_async.traces import AsyncTracesClient

__all__ = ["compare"]

_MOST = 10


@dataclass(frozen=True, slots=True)
class _Measured:
    """One run and one number per metric."""

    known: Known
    numbers: Mapping[str, float]


@command(
    "compare",
    examples="""
    prime-async runs compare RUN-ID OTHER-ID
    prime-async runs compare RUN-ID OTHER-ID --by max --metric reward
    """,
)
@argument(
    "run_ids",
    type=Identifier(),
    nargs=-1,
    required=True,
    metavar="RUN...",
    help="The ids of two runs or more, at most 10.",
)
@asyncclick.option(
    "--by",
    type=asyncclick.Choice(["last", "min", "max"]),
    default="last",
    show_default=True,
    help="Which value of each metric: its last, or its best, the lowest or the highest.",
)
@asyncclick.option(
    "--metric", "names", multiple=True, metavar="NAME", help="Only this one; may be given again."
)
@output_option
@pass_session
async def compare(
    session: Session, run_ids: tuple[str, ...], by: str, names: tuple[str, ...]
) -> None:
    """Put the metrics of runs side by side.

    The differences are those to the first run. Final metrics are summary.NAME, the average reward
    over all traces is traces.avg_reward.

    JSON: {"by", "runs": [{"run_id", "type", "metrics": {name: value}}], "differences": [{"run_id",
    "metrics": {name: value}}]}.
    """
    if not 2 <= len(set(run_ids)) == len(run_ids) <= _MOST:
        raise CommandError(f"name two different runs or more, at most {_MOST}", code=USAGE)
    async with session.api() as api, session.traces() as traces:
        measured = [await _measure(api, traces, run_id, by, names) for run_id in run_ids]
    if session.output.json:
        session.output.document(_document(measured, by))
        return
    rows = _rows(measured)
    if rows:
        session.output.table(rows, _columns(run_ids))
    else:
        session.output.note("the runs have no metrics" + (" of these names" if names else ""))


async def _measure(
    api: AsyncAPIClient, traces: AsyncTracesClient, run_id: str, by: str, names: tuple[str, ...]
) -> _Measured:
    known = await find_run(api, traces, run_id)
    series = await read_series(api, traces, known)
    numbers = {name: _value(each, by) for name, each in series.items()} | _final(known)
    chosen = {name: value for name, value in numbers.items() if not names or name in names}
    return _Measured(known, chosen)


def _value(series: Series, by: str) -> float:
    if by == "min":
        return min(series.values)
    return max(series.values) if by == "max" else series.last


def _final(known: Known) -> dict[str, float]:
    """Return the numbers that a run has once."""
    summary = flat(known.field("summary", "metrics") or {})
    found = {f"summary.{name}": value for name, value in summary}
    if known.traces is not None:
        found["traces.avg_reward"] = known.traces.avg_reward
        found["traces.count"] = known.traces.trace_count
    return {name: float(value) for name, value in found.items() if _is_number(value)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _names(measured: list[_Measured]) -> list[str]:
    return sorted({name for each in measured for name in each.numbers})


def _rows(measured: list[_Measured]) -> list[dict[str, Any]]:
    first, *others = measured
    rows = []
    for name in _names(measured):
        row: dict[str, Any] = {"name": name}
        for place, each in enumerate(measured):
            row[f"value{place}"] = each.numbers.get(name)
        for place, each in enumerate(others, 1):
            difference = _difference(first, each, name)
            row[f"difference{place}"] = None if difference is None else f"{difference:+.6g}"
        rows.append(row)
    return rows


def _difference(first: _Measured, other: _Measured, name: str) -> float | None:
    if name not in first.numbers or name not in other.numbers:
        return None
    return other.numbers[name] - first.numbers[name]


def _columns(run_ids: tuple[str, ...]) -> list[Column]:
    """The value of each run, and behind that of each but the first the difference to it; on a
    narrow terminal the last runs are left out.
    """
    columns = [Column("METRIC", "name", whole=True)]
    for place, run_id in enumerate(run_ids):
        columns.append(Column(run_id, f"value{place}", drop=place, uncut=True, right=True))
        if place:
            columns.append(
                Column("DIFFERENCE", f"difference{place}", drop=_MOST + place, right=True)
            )
    return columns


def _document(measured: list[_Measured], by: str) -> dict[str, Any]:
    first, *others = measured
    return {
        "by": by,
        "runs": [
            {"run_id": each.known.run_id, "type": each.known.kind, "metrics": each.numbers}
            for each in measured
        ],
        "differences": [
            {
                "run_id": each.known.run_id,
                "metrics": {name: _difference(first, each, name) for name in _names(measured)},
            }
            for each in others
        ],
    }
