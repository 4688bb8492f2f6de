"""The metrics of a run as series: one list of numbers per name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_async.api import AsyncAPIClient
    from prime_async.traces import AsyncTracesClient
    from prime_async_cli.commands.runs.records import Known

__all__ = ["FROM_TRACES", "Series", "read_series"]

FROM_TRACES = "traces/avg_reward"
"""Stands for the average reward per step, which the traces tell and nobody logs."""

_OWN = ("step", "_timestamp")
"""Fields of a row that are no metrics."""


@dataclass(slots=True)
class Series:
    """The numbers of one metric in the order of its steps.

    Attributes:
        name: of the metric.
        values: the numbers.
        steps: the step of each, None for one that was logged without.
    """

    name: str
    values: list[float] = field(default_factory=list)
    steps: list[int | None] = field(default_factory=list)

    def add(self, step: int | None, value: float) -> None:
        """Take the next number."""
        self.values.append(value)
        self.steps.append(step)

    @property
    def last(self) -> float:
        """The latest number."""
        return self.values[-1]


async def read_series(
    api: AsyncAPIClient,
    traces: AsyncTracesClient,
    known: Known,
    *,
    names: tuple[str, ...] = (),
    after_step: int | None = None,
) -> dict[str, Series]:
    """Read the metrics of a run, all or those of these names, sorted by name."""
    found: dict[str, Series] = {}

    def take(name: str, step: int | None, value: Any) -> None:
        if (not names or name in names) and _is_number(value):
            found.setdefault(name, Series(name)).add(step, float(value))

    if known.record is not None:
        await _read_rows(api, known, after_step, take)
    if known.traces is not None and known.traces.step_count:
        for step in (await traces.list_run_steps(known.run_id)).items:
            if after_step is None or step.step > after_step:
                take(FROM_TRACES, step.step, step.avg_reward)
    return dict(sorted(found.items()))


async def _read_rows(api: AsyncAPIClient, known: Known, after_step: int | None, take: Any) -> None:
    from prime_async.errors import MethodNotAllowedError, NotFoundError
    from prime_async.runs import AsyncRunsClient

    client = AsyncRunsClient(api)
    try:
        async for row in client.iter_metrics(known.run_id, kind=known.kind, after_step=after_step):
            for name, value in flat(row):
                take(name, row.get("step"), value)
    except (NotFoundError, MethodNotAllowedError):
        return  # a platform that keeps no rows, or does not give them back


def flat(row: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return the metrics of a row; one inside an object is named with its path."""
    found: list[tuple[str, Any]] = []
    for name, value in row.items():
        if not prefix and name in _OWN:
            continue
        if isinstance(value, Mapping):
            found += flat(value, f"{prefix}{name}.")
        else:
            found.append((f"{prefix}{name}", value))
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
