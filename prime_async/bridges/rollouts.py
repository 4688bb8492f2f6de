"""Results of the verifiers library into a run: as they finish, all at the end, or of its files."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import anyio.to_thread

from prime_async.bridges.native import as_record, is_native
from prime_async.bridges.target import AnyRun
from prime_async.evals.averages import Averages
from prime_async.evals.lines import LineError, decoded, numbered_lines, with_example_id
from prime_async.evals.traces_read import entry
from prime_async.evals.verifiers import METADATA, load_run, samples_file
from prime_async.runs.errors import ConfigurationError, RunFinishedError
from prime_async.runs.run import AsyncRun

__all__ = ["RolloutLogger", "StreamedResults", "stream_results"]

_AT_ONCE = 16
_BYTES_AT_ONCE = 2**19
"""Read ahead of a file; a longer line is taken by itself."""

_ROLLOUTS = ("outputs", "rollouts", "states")
_NOT_RESULTS = frozenset({"client", "input", "trajectory"})
"""What a state holds beside results: a live client, what its fields repeat, tokens of each turn."""

_LOG = logging.getLogger("prime_async.bridges")


@dataclass(frozen=True, slots=True)
class StreamedResults:
    """What came of a source.

    Attributes:
        records: rollouts, traces and episodes that were logged.
        metrics: final scores, which the run's summary has too: those the source told, else the
            averages of its traces, ``reward``, each metric and reward by its name, and ``error``,
            the share of failed episodes.
        refused: lines of a file that hold no record, as ``file:line: why``.
    """

    records: int
    metrics: dict[str, Any]
    refused: tuple[str, ...] = ()


async def stream_results(
    run: AsyncRun, source: str | PathLike[str] | Mapping[str, Any] | Iterable[Any]
) -> StreamedResults:
    """Log the results of an evaluation, waiting for room whenever the run's queue is full.

    Traces and episodes (verifiers from 0.4 on, and v1 before) are logged as such, rollouts of older
    versions as samples. The final scores are merged into the summary of the run.

    Args:
        run: where to.
        source: what ``run_eval``, ``env.evaluate`` or ``env.generate`` returned, an iterable of
            rollouts, traces or episodes (mappings, or objects with ``to_record()``) or a single
            one, a result folder, or one of its files.

    Raises:
        InvalidEvaluationError: a folder that is no result folder, or metadata that is broken.
        ConfigurationError: nothing that holds results.
        OSError: a file cannot be read.
        RunFinishedError: the run takes nothing more.
    """
    opened = _Source(source)
    metrics = await anyio.to_thread.run_sync(opened.metrics)
    averages = Averages()
    count = 0
    records = opened.records()
    while some := await anyio.to_thread.run_sync(_next, records, abandon_on_cancel=True):
        for record in some:
            if is_native(record):
                await run.alog_traces([record])
                averages.add(record)
            else:
                await run.alog_samples([_row(record)])
        count += len(some)
    metrics = metrics or _averaged(averages)
    if metrics:
        run.update_summary(metrics)
    return StreamedResults(count, metrics, tuple(opened.refused))


class RolloutLogger:
    """Logs rollouts as they finish: a function to be called with one, or with several. ::

        log = RolloutLogger(run)
        await env.run_slot(slot, context, semaphore, log.on_complete)  # verifiers 0.4
        await env.evaluate(..., on_progress=log.on_progress)  # before

    Any thread and any loop may call it. The two hooks never fail the evaluation: what comes when
    the run takes nothing more is counted, and told once as a warning.

    Args:
        run: a run, asynchronous or not.

    Attributes:
        missed: rollouts that came to a hook when the run took nothing more.
    """

    def __init__(self, run: AnyRun) -> None:
        self.missed = 0
        self._run = run
        self._averages = Averages()

    def __call__(self, *rollouts: Any) -> None:
        """Log rollouts, traces or episodes; never waits.

        Raises:
            RunFinishedError: the run takes nothing more.
        """
        for record in rollouts:
            if is_native(record):
                self._run.log_trace(record)
            else:
                self._run.log_samples([_row(record)])

    def on_complete(self, episode: Any) -> Awaitable[None]:
        """Log an episode that has ended, and the scores so far as final ones; to be awaited.

        While the queue of an asynchronous run is full it waits for room, so that the evaluation is
        as slow as its delivery, within the run's ``put_timeout``.
        """
        return self._complete(episode)

    def on_progress(
        self, all_outputs: Iterable[Any], new_outputs: Iterable[Any], metadata: Any = None
    ) -> None:
        """Log the new ones of the rollouts so far, and the scores so far as final ones."""
        some = list(new_outputs)
        try:
            self(*some)
            metrics = _scores(metadata) if isinstance(metadata, Mapping) else {}
            if metrics:
                self._run.update_summary(metrics)
        except RunFinishedError as error:
            self._miss(len(some), error)

    async def _complete(self, episode: Any) -> None:
        record = await as_record(episode)
        try:
            if isinstance(self._run, AsyncRun):
                await self._run.alog_traces([record])
            else:
                self._run.log_trace(record)
            self._averages.add(record)
            self._run.update_summary(_averaged(self._averages))
        except RunFinishedError as error:
            self._miss(1, error)

    def _miss(self, count: int, error: RunFinishedError) -> None:
        if not self.missed:
            _LOG.warning("rollouts are not kept: %s", error)
        self.missed += count


class _Source:
    """Something that holds results."""

    def __init__(self, source: Any) -> None:
        self.refused: list[str] = []
        self._path = Path(source) if isinstance(source, str | PathLike) else None
        self._source = [source] if self._path is None and is_native(source) else source
        if self._path is None and not isinstance(self._source, Mapping | Iterable):
            found = _columns(source)
            if found is None:
                raise ConfigurationError(
                    f"a {type(source).__name__} holds no results of an evaluation",
                    field="source",
                    hint="give what env.evaluate returned, a list of rollouts, or a result folder",
                )

    def metrics(self) -> dict[str, Any]:
        """Return the final scores; {} where there are none."""
        if self._path is not None:
            described = self._path.is_dir() or (self._path.parent / METADATA).is_file()
            return _flat(load_run(self._path).metrics) if described else {}
        metadata = entry(self._source, "metadata")
        return _scores(metadata) if isinstance(metadata, Mapping) else {}

    def records(self) -> Iterator[Any]:
        """Yield every record."""
        if self._path is not None:
            return self._lines(samples_file(self._path))
        for name in _ROLLOUTS:
            listed = entry(self._source, name)
            if listed is not None and not callable(listed):
                return iter(listed)
        columns = _columns(self._source)
        if columns is not None:
            return _rows(columns)
        return iter([self._source] if isinstance(self._source, Mapping) else self._source)

    def _lines(self, path: Path) -> Iterator[Any]:
        try:
            for line in numbered_lines(path):
                try:
                    yield _Line(decoded(line.data), len(line.data))
                except LineError as error:
                    self.refused.append(f"{path}:{line.number}: {error.what}")
        except LineError as error:
            self.refused.append(f"{path}: {error.what}; it and what follows are left out")


def _next(records: Iterator[Any]) -> list[Any]:
    """Take some records: of a file as many as are within the read-ahead."""
    some: list[Any] = []
    size = 0
    for record in records:
        if isinstance(record, _Line):
            size += record.size
            record = record.record
        some.append(record)
        if len(some) >= _AT_ONCE or size >= _BYTES_AT_ONCE:
            break
    return some


class _Line(NamedTuple):
    """A record of a file, and the bytes it has there."""

    record: dict[str, Any]
    size: int


def _row(record: Any) -> Any:
    """Return a rollout as a row; of a state only what are results."""
    if not isinstance(record, Mapping):
        return record
    row = dict(record)
    given = row.get("input")
    if isinstance(given, Mapping) or "client" in row:
        kept = {name: value for name, value in row.items() if name not in _NOT_RESULTS}
        row = {**(given if isinstance(given, Mapping) else {}), **kept}
    return with_example_id(row)


def _averaged(averages: Averages) -> dict[str, Any]:
    """Return the averages of traces; {} when there were none."""
    return _scores(averages.summary()) if averages else {}


def _scores(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the averages a run told, without the prefix they have in its metadata."""
    averages = {
        name.removeprefix("avg_"): value
        for name, value in metadata.items()
        if name.startswith("avg_")
    }
    return _flat(averages)


def _flat(averages: Mapping[str, Any]) -> dict[str, Any]:
    metrics = averages.get("metrics")
    if not isinstance(metrics, Mapping):
        return dict(averages)
    return {**metrics, **{name: value for name, value in averages.items() if name != "metrics"}}


def _columns(source: Any) -> dict[str, Any] | None:
    """Return results that are written column by column, as verifiers 0.1 had them."""
    rewards = entry(source, "reward")
    if not isinstance(rewards, list):
        return None
    fields = source if isinstance(source, Mapping) else vars(source)
    return {
        name: column
        for name, column in fields.items()
        if name != "state" and _covers(column, len(rewards))
    }


def _covers(column: Any, count: int) -> bool:
    if isinstance(column, Mapping):
        return bool(column) and all(_covers(one, count) for one in column.values())
    return isinstance(column, list) and len(column) == count


def _rows(columns: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for place in range(len(columns["reward"])):
        yield {name: _cell(column, place) for name, column in columns.items()}


def _cell(column: Any, place: int) -> Any:
    if isinstance(column, Mapping):
        return {name: one[place] for name, one in column.items()}
    return column[place]
