"""`OpenedRun`: a run as the platform has it, and everything that its delivery needs to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from prime_async.api import AsyncAPIClient
from prime_async.runs.backends import Handle
from prime_async.runs.legacy import LegacyTraceSink
from prime_async.runs.metric_sinks import DistributionSink, MetricSink, metrics_name
from prime_async.runs.options import DeliveryOptions, RunKind, RunSpec
from prime_async.runs.queue import Lane
from prime_async.runs.sample_sinks import EvalSampleSink, TrainSampleSink, samples_name
from prime_async.runs.sinks import Sink
from prime_async.runs.spooling import SpoolPlace
from prime_async.runs.step_samples import StepSampleSink, UploadNumbers
from prime_async.runs.trace_sink import TRACES, TraceSink
from prime_async.spool import Spool
from prime_async.traces.api import AsyncTracesAPIClient
from prime_async.traces.sending import DEFAULT_ATTEMPTS

__all__ = ["Connection", "OpenedRun", "sinks_of"]


@dataclass(frozen=True, slots=True)
class Connection:
    """The way to the platform and to its traces service. Belongs to the uploader's loop."""

    api: AsyncAPIClient
    traces: AsyncTracesAPIClient

    async def aclose(self) -> None:
        """Close both."""
        await self.traces.aclose()
        await self.api.aclose()


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """A run that records can be logged to.

    Attributes:
        handle: id, name and page.
        spec: what it is.
        options: how records travel.
        attached: it was there before; this process did not make it.
        opt_out: nothing goes to the traces service.
        connect: makes the connection, in each process anew; None disables the run.
        base_url, context, secret: of that connection; the secret never leaves in a record.
        spool: where things are kept, or None.
    """

    handle: Handle
    spec: RunSpec
    options: DeliveryOptions
    attached: bool
    opt_out: bool
    connect: Callable[[], Connection] | None = field(repr=False)
    base_url: str
    context: str
    secret: str = field(repr=False)
    spool: Spool | None

    @property
    def enabled(self) -> bool:
        """False for a run that keeps and sends nothing."""
        return self.connect is not None

    def place(self, log_id: str) -> SpoolPlace:
        """Return where one process keeps what it cannot deliver."""
        return SpoolPlace(
            spool=self.spool,
            base_url=self.base_url,
            context=self.context or None,
            target={
                "run_id": self.handle.id,
                "run_kind": self.spec.kind.value,
                "push_id": log_id,
            },
            extra={"context": self.spec.context(), "opt_out": self.opt_out},
        )

    def sink_names(self) -> dict[Lane, str]:
        """Return under which name the records of each lane are counted."""
        metrics, samples = metrics_name(self.spec.kind), samples_name(self.spec.kind)
        traces = samples if self.opt_out else TRACES
        return {
            Lane.TRACE: traces,
            Lane.EPISODE: traces,
            Lane.SAMPLE: samples,
            Lane.METRIC: metrics,
            Lane.DISTRIBUTION: metrics,
        }

    def sinks(self, connection: Connection, log_id: str, *, owner: bool) -> list[Sink]:
        """Make the sinks of one process, the one that opened the run or a child of it."""
        retry = self.options.retry
        return sinks_of(
            connection,
            self.spec.kind,
            self.handle.id,
            push_id=log_id,
            context=self.spec.context(),
            opt_out=self.opt_out,
            first=owner and not self.attached,
            gzip_level=self.options.gzip_level,
            attempts=DEFAULT_ATTEMPTS if retry is None else retry.tries,
        )


def sinks_of(
    connection: Connection,
    kind: RunKind,
    run_id: str,
    *,
    push_id: str,
    context: dict[str, str],
    opt_out: bool,
    first: bool = False,
    gzip_level: int | None = None,
    attempts: int = DEFAULT_ATTEMPTS,
) -> list[Sink]:
    """Make the sinks of a run, one per lane.

    Args:
        push_id: names the samples of one process.
        context: what is said of every trace.
        opt_out: nothing goes to the traces service.
        first: this process made the run.
        gzip_level: of traces; None is the best both sides know.
        attempts: requests per batch of traces at most.
    """
    api = connection.api
    sinks: list[Sink] = [
        _samples(api, kind, run_id, push_id),
        MetricSink(api, kind, run_id),
        DistributionSink(api, kind, run_id),
    ]
    numbers = UploadNumbers(from_zero=first)
    for lane in (Lane.TRACE, Lane.EPISODE):
        rows = _samples(api, kind, run_id, f"{push_id}-{lane.name.lower()}")
        legacy: Sink = LegacyTraceSink(lane, rows)
        if kind is RunKind.TRAIN:
            legacy = StepSampleSink(api, lane, run_id, numbers, legacy)
        uploads = TraceSink(connection.traces, lane, context, attempts, legacy, gzip_level)
        sinks.append(legacy if opt_out else uploads)
    return sinks


def _samples(api: AsyncAPIClient, kind: RunKind, run_id: str, push_id: str) -> Sink:
    if kind is RunKind.TRAIN:
        return TrainSampleSink(api, run_id)
    return EvalSampleSink(api, run_id, push_id)
