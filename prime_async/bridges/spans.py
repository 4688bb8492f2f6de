"""`RunSpanExporter`: spans of OpenTelemetry as traces of a run."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from prime_async.bridges.foreign import imported, joined
from prime_async.bridges.target import AnyRun
from prime_async.runs.errors import RunFinishedError
from prime_async.runs.exits import forget_in_children
from prime_async.traces.genai.documents import trace_document
from prime_async.traces.genai.spans import Event, Link, Span, decode_span, encode_span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
else:
    SpanExporter = object  # joined to the real one when the first is made

__all__ = ["RunSpanExporter"]

MAX_BYTES = 32 * 2**20
"""Spans held of traces that have not ended, as JSON."""

_NUMBERED_TRACES = 10_000
_SDK = "opentelemetry.sdk.trace.export"
_NANO = 1_000_000_000
_MATTERS = ("gen_ai.", "openinference.", "prime.")
_LOG = logging.getLogger("prime_async.bridges")


class RunSpanExporter(SpanExporter):
    """Logs the traces that the spans of this process make up to a run.

    Spans that follow the GenAI conventions become nodes and calls, by the very mapping of the
    embedded platform's OTLP intake. A trace is logged when the span it began with in this process
    has ended; whatever of it ends later is a trace of its own, whose id ends in ``-2``, ``-3``…
    What is unfinished when the run ends, or more than 32 MiB, is logged as far as it is there. ::

        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(RunSpanExporter(run)))
        ...
        provider.force_flush()  # before the run is finished

    Traces in which nothing speaks of a model, an agent, a tool or this package (``gen_ai.``,
    ``openinference.`` and ``prime.`` attributes) are left out: those of web frameworks, and of an
    instrumented HTTP client at work for the run itself. ``prime.run.step`` says of which step a
    trace is, ``prime.task`` of which task.

    Args:
        run: a run, asynchronous or not.
        everything: log traces without a word of models too.

    Attributes:
        left_out: spans of traces that were left out, and spans that cannot be read.

    Raises:
        ConfigurationError: the OpenTelemetry SDK is not installed.
    """

    def __new__(cls, run: AnyRun, *, everything: bool = False) -> Self:
        """Make one that is a ``SpanExporter`` of the SDK too."""
        base = imported(_SDK, "otel").SpanExporter
        return super().__new__(joined(cls, base))

    def __init__(self, run: AnyRun, *, everything: bool = False) -> None:
        self.left_out = 0
        self._run = run
        self._everything = everything
        self._lock = threading.RLock()
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._parts: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0
        self._ended = False
        forget_in_children(self)
        run.before_finish(self._log_all)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take spans that have ended; FAILURE when the run takes nothing more."""
        results: type[SpanExportResult] = imported(_SDK, "otel").SpanExportResult
        with self._lock:
            if self._ended:
                return results.FAILURE
            try:
                for span in spans:
                    self._take_if_fit(span)
                self._log_finished()
            except RunFinishedError as error:
                _LOG.warning("%d spans are not kept: %s", len(spans), error)
                return results.FAILURE
        return results.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return True: every trace that has ended is with the run already."""
        return True

    def shutdown(self) -> None:
        """Log what is there of unfinished traces, and take no more spans."""
        try:
            self._log_all()
        except RunFinishedError as error:
            _LOG.warning("unfinished traces are not kept: %s", error)
        self._ended = True

    def after_fork(self) -> None:
        """In a forked child: the spans gathered before are the parent's to log."""
        self._lock = threading.RLock()
        self._open = OrderedDict()
        self._bytes = 0

    def _take_if_fit(self, readable: ReadableSpan) -> None:
        """Take a span; one that cannot be read must not cost those that came with it."""
        try:
            self._take(readable)
        except Exception:
            self.left_out += 1
            _LOG.warning("span %r is left out", readable.name, exc_info=True)

    def _take(self, readable: ReadableSpan) -> None:
        span = _span(readable)
        data = encode_span(span)
        trace = self._open.setdefault(span.trace_id, _Open())
        trace.spans.append(data)
        trace.size += len(data)
        trace.matters = trace.matters or _speaks_of_models(span)
        if not span.parent_id:
            trace.root = readable
        self._bytes += len(data)

    def _log_finished(self) -> None:
        for trace_id in [name for name, trace in self._open.items() if trace.root is not None]:
            self._log(trace_id)
        while self._bytes > MAX_BYTES:
            self._log(next(iter(self._open)))

    def _log_all(self) -> None:
        with self._lock:
            while self._open:
                self._log(next(iter(self._open)))

    def _log(self, trace_id: str) -> None:
        trace = self._open.pop(trace_id)
        self._bytes -= trace.size
        if not trace.matters and not self._everything:
            self.left_out += len(trace.spans)
            return
        spans = [decode_span(data) for data in trace.spans]
        document = trace_document(spans, kind=self._run.kind.value)
        self._run.log_trace({**document, "id": self._name(trace_id, trace)})

    def _name(self, trace_id: str, trace: _Open) -> str:
        """Return the id: another one for each part of a trace, and for each process it is in."""
        parent = trace.root.parent if trace.root is not None else None
        if parent is not None:
            trace_id = f"{trace_id}-{parent.span_id:016x}"
        part = self._parts.pop(trace_id, 0) + 1
        self._parts[trace_id] = part
        if len(self._parts) > _NUMBERED_TRACES:
            self._parts.popitem(last=False)
        return trace_id if part == 1 else f"{trace_id}-{part}"


class _Open:
    """What is there of a trace.

    Attributes:
        spans: as JSON.
        root: the span it began with in this process, once that has ended.
        matters: a span speaks of models.
    """

    __slots__ = ("matters", "root", "size", "spans")

    def __init__(self) -> None:
        self.spans: list[bytes] = []
        self.size = 0
        self.matters = False
        self.root: ReadableSpan | None = None


def _span(readable: ReadableSpan) -> Span:
    """Return a span as plain values. One whose parent is in another process begins here."""
    context, parent = readable.get_span_context(), readable.parent
    assert context is not None  # only spans that were sampled are exported
    begins = parent is None or parent.is_remote
    start = (readable.start_time or 0) / _NANO
    scope = readable.instrumentation_scope
    return Span(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_id="" if parent is None or begins else f"{parent.span_id:016x}",
        name=readable.name,
        kind=readable.kind.value + 1,  # OTLP counts from "unspecified"
        start=start,
        end=max(start, (readable.end_time or 0) / _NANO),
        attributes=_plain(readable.attributes or {}),
        events=[
            Event(event.name, event.timestamp / _NANO, _plain(event.attributes or {}))
            for event in readable.events
        ],
        links=[
            Link(
                f"{link.context.trace_id:032x}",
                f"{link.context.span_id:016x}",
                _plain(link.attributes or {}),
            )
            for link in readable.links
        ],
        resource=_plain(readable.resource.attributes),
        scope=scope.name if scope is not None else "",
        status=readable.status.status_code.value,
        message=readable.status.description or "",
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_plain(str(name)): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, str):  # half of a character that was cut in two is no text
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return value


def _speaks_of_models(span: Span) -> bool:
    return any(name.startswith(_MATTERS) for name in _names(span))


def _names(span: Span) -> Iterator[str]:
    yield from span.attributes
    for event in span.events:
        yield event.name
        yield from event.attributes
