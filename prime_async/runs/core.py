"""`RunCore`: what `AsyncRun` and `Run` share. Logging is plain code for any thread; delivering
happens on the uploader.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from prime_async import ids
from prime_async.errors import PrimeTracesError
from prime_async.runs.blocks import Item
from prime_async.runs.counters import Counters
from prime_async.runs.errors import ConfigurationError, RunFinishedError, UndeliveredError
from prime_async.runs.exits import Leaving, forget_in_children
from prime_async.runs.finishing import REPORT_SECONDS, Finisher
from prime_async.runs.opened import Connection, OpenedRun
from prime_async.runs.options import BeforeFinish, RunStatus
from prime_async.runs.projection import build_samples, is_trace
from prime_async.runs.quarantine import Quarantine
from prime_async.runs.queue import Lane, Offered, RecordQueue
from prime_async.runs.receipts import FinishReceipt, RefusedRecord, RunStats, with_next_step
from prime_async.runs.records import Encoded, RecordEncoder, RefusedRecordError, finite_only
from prime_async.runs.serving import Serving
from prime_async.runs.spooling import LaneSpool
from prime_async.runs.uploader import uploader

__all__ = ["RunCore"]

_LOG = logging.getLogger("prime_async.runs")
_ERRORS_KEPT = 100
UNFINISHED = "the process ended without finishing the run"

T = TypeVar("T")


class RunCore:
    """One run in this process.

    Args:
        opened: the run as the platform has it, and how records travel.
    """

    def __init__(self, opened: OpenedRun) -> None:
        self.opened = opened
        self.options = opened.options
        self.owner = True
        self.status = RunStatus.RUNNING
        self.summary: dict[str, Any] = {}
        self.errors: list[str] = []
        self.receipt: FinishReceipt | None = None
        self.encoder = RecordEncoder(
            opened.handle.id, opened.spec.kind, self.options.redact, opened.secret
        )
        self._before: list[BeforeFinish] = []
        self.leaving = Leaving(self.end_at_exit, f"run {opened.handle.id}")
        self._begin()
        if opened.enabled:
            forget_in_children(self)

    def _begin(self) -> None:
        """Set up what belongs to one process."""
        self.log_id = ids.new_id("log")
        self.place = self.opened.place(self.log_id)
        self.queue = RecordQueue(self.options.queue_bytes)
        self.counters = Counters()
        self.names = self.opened.sink_names()
        self.spools = {lane: LaneSpool(self.place, lane) for lane in Lane}
        self.quarantine = Quarantine(self.place)
        self.nonfinite = 0
        self.deferred: PrimeTracesError | None = None
        self.serving = Serving(self)
        self._lock = threading.Lock()
        self._finisher: Finisher | None = None
        self._dropping: set[str] = set()

    def start(self, connection: Connection | None = None) -> None:
        """Begin to deliver, and provide for the end of the process."""
        with self._lock:
            if not self.leaving.registered:
                uploader()  # first: what is registered last ends first, and the run needs it to end
                self.leaving.register()
                self.serving.start(connection)

    # Logging: plain code for any thread.

    @property
    def finishing(self) -> bool:
        """True from the first call of `finish` on."""
        return self._finisher is not None

    def log(self, encode: Callable[[], Encoded | None], lane: Lane) -> bool:
        """Encode a record and put it on the queue; True when it is there, or on disk.

        Raises:
            RunFinishedError: the run takes nothing more.
        """
        encoded = self.encoded(encode, lane)
        return encoded is not None and self.put(encoded)

    def encoded(self, encode: Callable[[], Encoded | None], lane: Lane) -> Encoded | None:
        """Encode a record; None when there is nothing to put: it is refused, or the run disabled.

        Raises:
            RunFinishedError: the run takes nothing more.
        """
        if not self.opened.enabled:
            return None
        if self._finisher is not None:
            raise self.finished_error()
        try:
            encoded = encode()
        except RefusedRecordError as error:
            self.refuse(lane, str(error))
            return None
        if encoded is not None and encoded.nonfinite:
            self.nonfinite += encoded.nonfinite
        return encoded

    def put(self, encoded: Encoded) -> bool:
        """Put an encoded record on the queue, or do what the policy says when it is full."""
        if not self.leaving.registered:
            self.start()
        self.leaving.arm()
        lane = encoded.lane
        item = Item(self.queue.number(lane), encoded.data)
        if self.options.durable:
            self.spools[lane].write(item, only_here=False)
        self.counters.add(self.names[lane], "queued")
        offered = self.queue.offer(lane, item)
        if offered is Offered.WAKE:
            self.serving.wake(lane)
        elif offered is not Offered.TAKEN:
            return self._overflow(lane, item, offered)
        return True

    def refuse(self, lane: Lane, reason: str) -> None:
        """Count a record that cannot be sent, and say why."""
        sink = self.names[lane]
        self.counters.add(sink, "refused")
        self.quarantine.note(RefusedRecord(sink, reason))
        self.note_error(f"{sink}: {reason}")
        self._defer(UndeliveredError(f"a record was refused: {reason}"))

    def update_summary(self, values: Mapping[str, Any]) -> None:
        """Merge values into the summary, without NaN, infinities and what is empty.

        Raises:
            RunFinishedError: the run takes nothing more.
        """
        if self._finisher is not None and self.opened.enabled:
            raise self.finished_error()
        self.summary.update(finite_only(values, []))

    def finished_error(self) -> RunFinishedError:
        """Return the error that says that nothing more is taken."""
        return RunFinishedError(
            f"run {self.opened.handle.id} is finished ({self.status.value}) and takes nothing more",
            hint="begin another run with init()",
        )

    def _overflow(self, lane: Lane, item: Item, offered: Offered) -> bool:
        """The queue is full: leave the record on disk, let older ones go for it, or drop it."""
        policy, sink, spool = self.options.queue_policy, self.names[lane], self.spools[lane]
        if policy == "drop_old" and offered is Offered.FULL:
            over = self.queue.offer_over(lane, item)
            if over is not None:
                self._let_go(*over)
                self.serving.wake(lane)
                return True
        if self.options.durable:
            kept = spool.dropped([item]) == 1
        else:
            kept = policy == "spool" and spool.write(item, only_here=True)
        self.counters.move(sink, "queued", "spooled" if kept else "dropped")
        if not kept:
            self._say_dropping(sink)
        if offered is Offered.CLOSED:
            raise self.finished_error()
        return kept

    def _let_go(self, lane: Lane, gone: list[Item]) -> None:
        kept = self.spools[lane].dropped(gone) if self.options.durable else 0
        sink = self.names[lane]
        self.counters.move(sink, "queued", "spooled", kept)
        self.counters.move(sink, "queued", "dropped", len(gone) - kept)
        if kept < len(gone):
            self._say_dropping(sink)

    def _say_dropping(self, sink: str) -> None:
        if sink not in self._dropping:
            self._dropping.add(sink)
            _LOG.warning(
                "run_queue sink=%s: full at %d bytes, records are dropped and counted",
                sink,
                self.options.queue_bytes,
            )
            self._defer(UndeliveredError(f"records for {sink} were dropped: the queue is full"))

    # Told by the uploader.

    def note_error(self, text: str) -> None:
        """Keep the text of a contained failure."""
        if len(self.errors) < _ERRORS_KEPT:
            self.errors.append(text)

    def note_failure(self, sink: str, error: PrimeTracesError) -> None:
        """Keep a failure of a delivery: for ``errors``, and to be raised when that is wanted."""
        self.note_error(f"{sink}: {error}")
        self._defer(error)

    def _defer(self, error: PrimeTracesError) -> None:
        if self.options.on_error == "raise" and self.deferred is None:
            self.deferred = error

    def take_deferred(self) -> PrimeTracesError | None:
        """Return the failure to raise, once; none where everything arrived in the end."""
        counts = self.counters.total()
        error, self.deferred = self.deferred, None
        return error if counts.failed or counts.dropped else None

    # Waiting and ending.

    def stats(self) -> RunStats:
        """Return how deliveries go."""
        return RunStats(
            counts=self.counters.total(),
            by_sink=self.counters.by_sink(),
            queue_bytes=self.queue.bytes,
            queue_peak_bytes=self.queue.peak_bytes,
            queue_limit_bytes=self.queue.max_bytes,
            batches=self.serving.batches,
            bytes=self.serving.bytes,
            nonfinite=self.nonfinite,
            sinks=self.serving.states(),
            spool_paths=self.spool_paths(),
        )

    def spool_paths(self) -> tuple[Path, ...]:
        """Return the folders that keep what is not delivered."""
        paths = [spool.path for spool in self.spools.values()]
        return tuple(path for path in paths if path is not None)

    async def flush(self, timeout: float) -> bool:
        """Wait until what was logged before is settled; see `AsyncRun.flush`."""
        if self._finisher is not None or not self.leaving.registered:
            return not self.counters.total().undelivered
        done = await _outcome(uploader().submit(lambda: self.serving.flush(timeout), "flush"))
        if error := self.take_deferred():
            raise error
        return done

    def begin_finish(
        self,
        status: RunStatus,
        error: str | None,
        summary: Mapping[str, Any],
        timeout: float,
        report_seconds: float = REPORT_SECONDS,
    ) -> concurrent.futures.Future[FinishReceipt]:
        """Begin to finish, or join who began before."""
        self._call_before()
        with self._lock:
            if self._finisher is None:
                if summary:
                    self.summary.update(finite_only(summary, []))
                self._finisher = Finisher(self, status, error, timeout, report_seconds)
                self._finisher.start()
            return self._finisher.future

    def before_finish(self, callback: BeforeFinish) -> None:
        """Call a function when the end begins; see `AsyncRun.before_finish`."""
        self._before.append(callback)

    def _call_before(self) -> None:
        """Let those who gather log what they have. Called by each who ends the run: the first must
        not close it while another still waits for this.
        """
        if self._finisher is not None:
            return
        for callback in tuple(self._before):
            try:
                callback()
            except Exception as error:  # of the user; the end goes on
                self.note_error(f"before_finish: {error!r}")
                _LOG.warning("run %s: before_finish failed", self.opened.handle.id, exc_info=True)

    async def finish(
        self, status: RunStatus, error: str | None, summary: Mapping[str, Any], timeout: float
    ) -> FinishReceipt:
        """Finish; see `AsyncRun.finish`."""
        future = self.begin_finish(status, error, summary, timeout)
        # Others may wait for the same, and it goes on when nobody does.
        receipt = await asyncio.shield(_outcome(future))
        if failure := self.take_deferred():
            if isinstance(failure, UndeliveredError):
                failure.receipt = receipt
            raise failure
        return receipt

    async def finish_quietly(self, status: RunStatus, error: str | None, timeout: float) -> None:
        """Finish while another error is on its way, which must not be covered."""
        try:
            await self.finish(status, error, {}, timeout)
        except PrimeTracesError as failure:
            _LOG.warning("run %s: %s", self.opened.handle.id, failure)

    def log_sample(self, sample: Any, name: str) -> None:
        """Log a row, or the rows an episode or trace stands for.

        Raises:
            RunFinishedError: the run takes nothing more.
        """
        for encode in self.samples(sample, name):
            self.log(encode, Lane.SAMPLE)

    def samples(self, sample: Any, name: str) -> Iterator[Callable[[], Encoded | None]]:
        """Yield what encodes a row, or the rows an episode or trace stands for."""
        for row in build_samples([sample]) if is_trace(sample) else [sample]:
            yield partial(self.encoder.sample, row, name)

    def end_at_exit(self, seconds: float) -> None:
        """The process ends before the run did: deliver or keep what there is, and say so."""
        seconds = min(seconds, self.options.exit_timeout)
        uploader().exiting = True
        reserve = min(3.0, seconds / 3) if self.owner else 0.0
        begun = self._finisher
        if begun is not None:
            begun.hurry(seconds - reserve, reserve)
        future = self.begin_finish(
            RunStatus.CRASHED, UNFINISHED, {}, seconds - reserve, report_seconds=reserve
        )
        try:
            receipt = future.result(seconds + 1.0)
        except concurrent.futures.TimeoutError:
            # The uploader hangs, perhaps in a disk that does: save what is in memory from here.
            self.note_error(f"the uploader did not end within {seconds:g} s")
            self.serving.keep_rest()
            receipt = Finisher(self, RunStatus.CRASHED, UNFINISHED, 0).receipt(reported=False)
        else:
            if begun is not None:
                return  # an end as any other, which has said what there is to say
        self._say_at_exit(receipt)

    def _say_at_exit(self, receipt: FinishReceipt) -> None:
        if receipt.complete and not self.owner:
            return
        level = logging.WARNING if receipt.complete else logging.ERROR
        what = "ended with its process, unfinished" if self.owner else "a worker ended"
        _LOG.log(level, "run %s %s: %s", receipt.run_id, what, with_next_step(receipt))

    def __reduce__(self) -> NoReturn:
        """A run cannot be pickled: its queue and its life belong to this process."""
        raise ConfigurationError(
            "a run cannot be sent to another process",
            hint=f"open it there: init(id={self.opened.handle.id!r}, kind=...)",
        )

    def after_fork(self) -> None:
        """In a forked child: log for the same run, from scratch; its life is the parent's."""
        self.owner = False
        for spool in self.spools.values():
            spool.abandon()
        self.quarantine.abandon()
        self.leaving.abandon()
        finished = self._finisher is not None
        self._begin()
        if finished:
            self._finisher = Finisher.of_the_parent(self)


async def _outcome(future: concurrent.futures.Future[T]) -> T:
    return await asyncio.wrap_future(future)
