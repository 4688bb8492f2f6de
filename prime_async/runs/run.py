"""`AsyncRun`: a run as users hold it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import anyio

from prime_async.runs.core import RunCore
from prime_async.runs.errors import ConfigurationError
from prime_async.runs.options import (
    BeforeFinish,
    RunKind,
    RunStatus,
    checked_choice,
    checked_seconds,
)
from prime_async.runs.outcomes import ended_by, reason_of
from prime_async.runs.queue import Lane
from prime_async.runs.receipts import FinishReceipt, RunStats
from prime_async.runs.records import Encoded
from prime_async.runs.room import put_when_there_is_room

__all__ = ["AsyncRun"]

FLUSH_SECONDS = 30.0


class AsyncRun:
    """A run that records are logged to; made by :func:`init`.

    Every ``log_*`` is a plain function for any thread and any loop. It encodes its records at once,
    so changing them later changes nothing that is sent, puts them on a queue and returns: it never
    waits, and does no I/O (with ``durable=True`` one write to a local file). Uploads happen in the
    background, on a thread of their own.

    Used with ``async with``, the run is finished on the way out: completed, failed when an
    exception leaves the block, cancelled on Ctrl-C or cancellation. A process that ends without
    finishing leaves its run as crashed. A forked child may log to the run of its parent; it never
    finishes it.
    """

    def __init__(self, core: RunCore) -> None:
        self._core = core

    @property
    def id(self) -> str:
        """The platform's id of the run."""
        return self._core.opened.handle.id

    @property
    def name(self) -> str:
        """Its name."""
        return self._core.opened.handle.name

    @property
    def url(self) -> str | None:
        """The page that shows it; None for a disabled run."""
        return self._core.opened.handle.url

    @property
    def kind(self) -> RunKind:
        """Evaluation or training."""
        return self._core.opened.spec.kind

    @property
    def mode(self) -> str:
        """``online`` or ``disabled``."""
        return "online" if self._core.opened.enabled else "disabled"

    @property
    def attached(self) -> bool:
        """True when the run was there before and ``init`` was given its id."""
        return self._core.opened.attached

    @property
    def status(self) -> RunStatus:
        """How it stands, as far as this process knows."""
        return self._core.status

    @property
    def finished(self) -> bool:
        """True once it has ended."""
        return self._core.status.ended

    @property
    def config(self) -> dict[str, Any]:
        """The configuration it was opened with."""
        return dict(self._core.opened.spec.config)

    @property
    def config_source(self) -> dict[str, Any] | None:
        """Format, text and name of the file its configuration came from, or None."""
        source = self._core.opened.spec.config.get("config_source")
        return dict(source) if isinstance(source, Mapping) else None

    @property
    def summary(self) -> dict[str, Any]:
        """The final metrics so far."""
        return dict(self._core.summary)

    @property
    def errors(self) -> list[str]:
        """What went wrong on the way and was contained, in words; the first hundred."""
        return list(self._core.errors)

    @property
    def dropped_records(self) -> int:
        """Records turned away by a full queue."""
        return self._core.counters.total().dropped

    @property
    def failed_records(self) -> dict[str, int]:
        """Records by sink that the platform does not have: refused, lost, and spooled ones until
        they are delivered.
        """
        counts = self._core.counters.by_sink()
        return {sink: count.failed for sink, count in counts.items() if count.failed}

    @property
    def undelivered_records(self) -> int:
        """Records still to be delivered: in the queue or on disk."""
        return self._core.counters.total().undelivered

    @property
    def receipt(self) -> FinishReceipt | None:
        """What became of everything; None until the run has ended."""
        return self._core.receipt

    def stats(self) -> RunStats:
        """Return how deliveries go: records by state, memory, batches."""
        return self._core.stats()

    def log_trace(self, trace: Any) -> None:
        """Log one trace: a mapping, an object with ``to_record()``, a dataclass, a Struct, a
        pydantic model, or its JSON as bytes.

        Id and type of the run are written into it; a record with ``traces`` is an episode. A value
        that cannot be written refuses this record alone, which is counted and named.

        Raises:
            RunFinishedError: the run takes nothing more.
        """
        self._core.log(lambda: self._core.encoder.trace(trace, "trace"), Lane.TRACE)

    def log_traces(self, traces: Iterable[Any]) -> None:
        """Log traces; see :meth:`log_trace`."""
        for place, trace in enumerate(traces):
            name = f"traces[{place}]"
            self._core.log(_trace(self._core, trace, name), Lane.TRACE)

    def log_episode(self, episode: Any) -> None:
        """Log one episode: an envelope with its ``traces``; see :meth:`log_trace`."""
        self._core.log(lambda: self._core.encoder.trace(episode, "episode"), Lane.EPISODE)

    def log_episodes(self, episodes: Iterable[Any]) -> None:
        """Log episodes; see :meth:`log_trace`."""
        for place, episode in enumerate(episodes):
            name = f"episodes[{place}]"
            self._core.log(_trace(self._core, episode, name), Lane.EPISODE)

    def log_samples(self, samples: Iterable[Any]) -> None:
        """Log rows of results: samples of an evaluation, or of the step a row names in a training
        run. Episodes and traces among them are turned into rows.

        Raises:
            RunFinishedError: the run takes nothing more.
        """
        for place, sample in enumerate(samples):
            self._core.log_sample(sample, f"samples[{place}]")

    def log_metrics(self, metrics: Mapping[str, Any], *, step: int | None = None) -> None:
        """Log a row of metrics. NaN and infinities are left out and counted; ``step`` and
        ``_timestamp`` are added where they are missing.

        Raises:
            RunFinishedError: the run takes nothing more.
        """
        self._core.log(lambda: self._core.encoder.metrics(metrics, step), Lane.METRIC)

    def log_distributions(
        self, distributions: Mapping[str, Iterable[float]], *, step: int | None = None
    ) -> None:
        """Log the values behind metrics, by name.

        Raises:
            RunFinishedError: the run takes nothing more.
        """
        encoder = self._core.encoder
        self._core.log(lambda: encoder.distributions(distributions, step), Lane.DISTRIBUTION)

    def update_summary(self, values: Mapping[str, Any]) -> None:
        """Merge final metrics; they are sent with the end of the run.

        Raises:
            RunFinishedError: the run takes nothing more.
        """
        self._core.update_summary(values)

    async def alog_traces(self, traces: Iterable[Any]) -> None:
        """Log traces or episodes, waiting for room while the queue is full: at most ``put_timeout``
        seconds each, after which the policy of the queue counts.

        Raises:
            RunFinishedError: the run takes nothing more.
        """
        for place, trace in enumerate(traces):
            await self._put(_trace(self._core, trace, f"traces[{place}]"), Lane.TRACE)

    async def alog_episodes(self, episodes: Iterable[Any]) -> None:
        """Log episodes, waiting for room; see :meth:`alog_traces`."""
        for place, episode in enumerate(episodes):
            await self._put(_trace(self._core, episode, f"episodes[{place}]"), Lane.EPISODE)

    async def alog_samples(self, samples: Iterable[Any]) -> None:
        """Log rows of results, waiting for room; see :meth:`log_samples`, :meth:`alog_traces`."""
        for place, sample in enumerate(samples):
            for encode in self._core.samples(sample, f"samples[{place}]"):
                await self._put(encode, Lane.SAMPLE)

    async def alog_metrics(self, metrics: Mapping[str, Any], *, step: int | None = None) -> None:
        """Log a row of metrics, waiting for room; see :meth:`alog_traces`."""
        await self._put(lambda: self._core.encoder.metrics(metrics, step), Lane.METRIC)

    async def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything logged before this call is settled.

        With ``durable=True`` what is on disk would outlive a power cut afterwards.

        Args:
            timeout: seconds in all; default 30.

        Returns:
            True when all of it is with the platform or refused by it; False when some is kept on
            disk, or time is over.

        Raises:
            PrimeTracesError: with ``on_error="raise"``: what failed, once.
        """
        seconds = FLUSH_SECONDS if timeout is None else checked_seconds("timeout", timeout)
        return await self._core.flush(seconds)

    async def finish(
        self,
        summary: Mapping[str, Any] | None = None,
        *,
        status: RunStatus | str = RunStatus.COMPLETED,
        error: str | None = None,
        timeout: float | None = None,
    ) -> FinishReceipt:
        """End the run: deliver what is queued, keep the rest on disk, tell the platform.

        The first call counts; further ones, at the same time or later, get the same receipt.

        Args:
            summary: final metrics to merge.
            status: completed, failed, cancelled or crashed; the platform is told of the last two as
                failed, with the reason.
            error: the reason.
            timeout: seconds for the delivery; default is the run's ``finish_timeout``.

        Raises:
            PrimeTracesError: with ``on_error="raise"``: what failed, once. The run has ended all
                the same.
            ConfigurationError: the status is none a run can end with.
        """
        ended, seconds = self._checked_end(status, timeout)
        return await self._core.finish(ended, error, summary or {}, seconds)

    def begin_finish(
        self,
        summary: Mapping[str, Any] | None = None,
        *,
        status: RunStatus | str = RunStatus.COMPLETED,
        error: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Begin to end the run and return at once, for callbacks that must not wait.

        ``finish`` waits for the same end and returns its receipt. A process that ends before that
        waits for ``exit_timeout`` seconds; what is not delivered by then is kept on disk.

        Args:
            summary, status, error, timeout: as for ``finish``.

        Raises:
            ConfigurationError: the status is none a run can end with.
        """
        ended, seconds = self._checked_end(status, timeout)
        self._core.begin_finish(ended, error, summary or {}, seconds)

    def before_finish(self, callback: BeforeFinish) -> None:
        """Have a function called when the run begins to end, while it still takes records.

        For what gathers before it logs. It is called on the thread that ends the run, in the
        process that asked for it; what it raises is contained and told in ``errors``.
        """
        self._core.before_finish(callback)

    async def fail(
        self, error: BaseException | str, *, timeout: float | None = None
    ) -> FinishReceipt:
        """End the run as failed; an exception gives ``Type: message`` as the reason."""
        return await self.finish(status=RunStatus.FAILED, error=reason_of(error), timeout=timeout)

    async def __aenter__(self) -> Self:
        self._handed_over()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._core.finishing:
            return
        status, reason, seconds = ended_by(error, self._core.options)
        # Cancelled or not, the end has its own budget.
        with anyio.CancelScope(shield=True):
            if error is None:
                await self._core.finish(status, reason, {}, seconds)
            else:
                await self._core.finish_quietly(status, reason, seconds)

    def _checked_end(
        self, status: RunStatus | str, timeout: float | None
    ) -> tuple[RunStatus, float]:
        ended = RunStatus(checked_choice("status", status, [one.value for one in RunStatus]))
        if not ended.ended:
            raise ConfigurationError("a run cannot end as running", field="status")
        if timeout is None:
            return ended, self._core.options.finish_timeout
        return ended, checked_seconds("timeout", timeout)

    def _handed_over(self) -> None:
        """Provide for SIGTERM, if it is the main thread that has got the run."""
        if self._core.opened.enabled:
            self._core.leaving.arm()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, status={self.status.value!r})"

    async def _put(self, encode: Callable[[], Encoded | None], lane: Lane) -> None:
        encoded = self._core.encoded(encode, lane)
        if encoded is not None:
            await put_when_there_is_room(self._core, encoded)
        await asyncio.sleep(0)


def _trace(core: RunCore, record: Any, name: str) -> Callable[[], Encoded | None]:
    return lambda: core.encoder.trace(record, name)
