"""The part of a run that lives on the uploader: one delivery per lane, and the lease."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import math
import os
import threading
from typing import TYPE_CHECKING

import anyio

from prime_async.errors import ConflictError, NotFoundError, PrimeError
from prime_async.runs.backends import LEASE_SECONDS, renew_lease
from prime_async.runs.circuit import PAUSE_SECONDS, Circuit
from prime_async.runs.delivery import LaneDelivery
from prime_async.runs.errors import UndeliveredError
from prime_async.runs.opened import Connection
from prime_async.runs.options import BatchReceipt, RunKind
from prime_async.runs.queue import Lane
from prime_async.runs.receipts import RefusedRecord
from prime_async.runs.sinks import Batch, Outcome, Refused, Sink
from prime_async.runs.uploader import Uploader, in_thread, uploader
from prime_async.traces.errors import adopted

if TYPE_CHECKING:
    from prime_async.runs.core import RunCore

__all__ = ["Serving"]

_LOOK_SECONDS = 0.05
_CORES = os.cpu_count() or 1
_LOG = logging.getLogger("prime_async.runs")


class Serving:
    """Delivers for one run in one process.

    Attributes:
        batches, bytes: that arrived.
        lanes: the deliveries, once they have begun.
    """

    def __init__(self, core: RunCore) -> None:
        self.batches = 0
        self.bytes = 0
        self.lanes: dict[Lane, LaneDelivery] = {}
        self.connection: Connection | None = None
        self._core = core
        self._circuits: dict[str, Circuit] = {}
        self._uploader: Uploader | None = None
        self._ready = threading.Event()
        self._done: concurrent.futures.Future[None] | None = None
        self._scope: anyio.CancelScope | None = None
        self._draining: anyio.CancelScope | None = None
        self._ended: anyio.Event | None = None
        # Half of the cores: the rest is for the program that logs.
        self._workers = anyio.CapacityLimiter(max(1, _CORES // 2))

    def start(self, connection: Connection | None) -> None:
        """Begin on the uploader of this process, without waiting for it.

        Args:
            connection: one that is open there already.
        """
        self.connection = connection
        self._uploader = uploader()
        self._done = self._uploader.submit(self._serve, "deliver")

    def wake(self, lane: Lane) -> None:
        """Let a lane look at the queue. From any thread."""
        if self._uploader is not None:
            self._uploader.call(self._wake, lane)

    def states(self) -> dict[str, str]:
        """Return how each sink stands."""
        return {name: circuit.state for name, circuit in self._circuits.items()}

    # On the uploader.

    async def flush(self, seconds: float) -> bool:
        """Wait until what is in the queue now is settled; False when it is not in time, or is kept
        on disk.
        """
        marks = {lane: self._core.queue.numbered(lane) for lane in self.lanes}
        arrived: list[bool] = []
        with anyio.move_on_after(seconds) as scope:
            for lane, mark in marks.items():
                arrived.append(await self.lanes[lane].settle(mark))
            if self._core.options.durable:
                for spool in self._core.spools.values():
                    await in_thread(spool.sync)
        return all(arrived) and not scope.cancelled_caught

    async def drain(self, seconds: float) -> None:
        """Deliver what is there for at most so many seconds, then stop for good."""
        self._core.queue.close()
        self._workers.total_tokens = _CORES  # the program that logs waits now
        for lane in self.lanes.values():
            lane.end()
        if self._ended is not None:
            with anyio.move_on_after(seconds) as self._draining:
                await self._ended.wait()
        if self._scope is not None:
            self._scope.cancel()
            assert self._ended is not None
            await self._ended.wait()

    def hurry(self, seconds: float) -> None:
        """Deliver for so many seconds from now at most. On the uploader."""
        if self._draining is not None:
            deadline = asyncio.get_running_loop().time() + seconds  # called outside of any task
            self._draining.deadline = min(self._draining.deadline, deadline)

    def keep_rest(self) -> None:
        """Put on disk what could not be delivered. Blocks: for a thread."""
        for delivery in self.lanes.values():
            for batch in delivery.leftovers():
                delivery.keep(batch)
        for lane, spool in self._core.spools.items():
            spool.close(self._core.queue.numbered(lane))
        self._core.quarantine.close()

    async def arrived(self, sink: Sink, batch: Batch, outcome: Outcome) -> None:
        """Count a batch, and tell the user."""
        self.batches += 1
        size = sum(item.size for item in outcome.delivered)
        self.bytes += size
        told = self._core.options.on_batch
        if told is None:
            return
        receipt = BatchReceipt(
            sink.name, len(outcome.delivered), size, outcome.receipt, outcome.replayed
        )
        try:
            await in_thread(told, receipt)
        except Exception as error:  # the user's own; the batch has arrived all the same
            _LOG.warning("run_on_batch: %r", error)
            self._core.note_error(f"on_batch: {error!r}")

    async def refused(self, sink: Sink, refused: Refused) -> None:
        """Name a refused record, and keep it apart."""
        item = refused.item
        record = RefusedRecord(sink.name, refused.reason, refused.status, item.index)
        await in_thread(self._core.quarantine.keep, item, record)
        error = refused.error or UndeliveredError(f"a record was refused: {refused.reason}")
        self._core.note_failure(f"{sink.name}[{item.index}]", adopted(error))

    def failed(self, sink: Sink, error: Exception) -> None:
        """Note that a batch could not be delivered."""
        if isinstance(error, PrimeError):
            self._core.note_failure(sink.name, adopted(error))

    def _wake(self, lane: Lane) -> None:
        delivery = self.lanes.get(lane)
        if delivery is not None:
            delivery.wake()

    async def _serve(self) -> None:
        core = self._core
        self._ended = anyio.Event()
        if self.connection is None:
            assert core.opened.connect is not None
            self.connection = core.opened.connect()
        slots = anyio.CapacityLimiter(core.options.concurrency)
        for sink in core.opened.sinks(self.connection, core.log_id, owner=core.owner):
            circuit = self._circuits.setdefault(sink.name, _circuit(sink.name, core))
            spool = core.spools[sink.lane]
            self.lanes[sink.lane] = LaneDelivery(
                sink, circuit, core.queue, spool, core.counters, slots, self._workers, self
            )
        try:
            with anyio.CancelScope() as self._scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._stay_alive)
                    group.start_soon(self._look_around)
                    async with anyio.create_task_group() as lanes:
                        for lane in self.lanes.values():
                            lanes.start_soon(self._serve_lane, lane)
                    group.cancel_scope.cancel()
        finally:
            self._ended.set()

    async def _look_around(self) -> None:
        """Notice records that wait. The calls that log do not say so, unless a batch is full: to
        wake another thread costs a system call, and the interpreter goes to that thread at once.
        """
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            for lane, delivery in self.lanes.items():
                if self._core.queue.waiting(lane)[0]:
                    delivery.wake()

    async def _serve_lane(self, lane: LaneDelivery) -> None:
        try:
            await lane.serve()
        except Exception as error:  # a fault of ours: what is left goes to the disk at the finish
            _LOG.exception("run_sink name=%s: delivery broke", lane.sink.name)
            self._core.note_error(f"{lane.sink.name}: {error!r}")

    async def _stay_alive(self) -> None:
        """Renew the lease, so that a run whose process is killed does not stay running for ever."""
        core, connection = self._core, self.connection
        assert connection is not None
        while True:
            await anyio.sleep(LEASE_SECONDS / 4)
            try:
                await renew_lease(connection.api, core.opened.spec.kind, core.opened.handle.id)
            except (NotFoundError, ConflictError) as error:
                _LOG.warning("run_lease id=%s: not renewed any more: %s", core.log_id, error)
                return
            except PrimeError as error:
                _LOG.info("run_lease id=%s: not renewed this time: %s", core.log_id, error)


def _circuit(name: str, core: RunCore) -> Circuit:
    train = core.opened.spec.kind is RunKind.TRAIN
    return Circuit(name, PAUSE_SECONDS if train else math.inf)
