"""The delivery of one lane: cut, prepare in a thread, send several at a time, settle every record.

Everything here runs on the uploader's loop, inside `LaneDelivery.serve`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from prime_async.errors import PrimeError
from prime_async.runs.blocks import Item
from prime_async.runs.circuit import Circuit
from prime_async.runs.counters import Counters
from prime_async.runs.queue import RecordQueue
from prime_async.runs.sinks import Batch, Outcome, Refused, Sink, is_rejection, is_transient
from prime_async.runs.spooling import LaneSpool
from prime_async.runs.uploader import in_thread
from prime_async.spool import SpoolBatch

__all__ = ["LINGER_SECONDS", "LaneDelivery", "Listener"]

LINGER_SECONDS = 0.1
"""How long small records wait for company, unless somebody waits for them."""

_LOG = logging.getLogger("prime_async.runs")


class Listener(Protocol):
    """The run, as its lanes see it."""

    async def arrived(self, sink: Sink, batch: Batch, outcome: Outcome) -> None:
        """A batch, or a part of it, is with the platform."""

    async def refused(self, sink: Sink, refused: Refused) -> None:
        """A record is not to be sent again."""

    def failed(self, sink: Sink, error: Exception) -> None:
        """A batch could not be delivered."""


class LaneDelivery:
    """Delivers one lane of one run.

    Args:
        sink: delivers its batches.
        circuit: of that sink.
        queue: where records come from.
        spool: where they go when they cannot be delivered.
        counters: the account.
        slots: how many batches of the run may be on their way at a time.
        workers: how many may be compressed at a time.
        listener: told about outcomes.
    """

    def __init__(
        self,
        sink: Sink,
        circuit: Circuit,
        queue: RecordQueue,
        spool: LaneSpool,
        counters: Counters,
        slots: anyio.CapacityLimiter,
        workers: anyio.CapacityLimiter,
        listener: Listener,
    ) -> None:
        self.sink = sink
        self.circuit = circuit
        self.spool = spool
        self._queue = queue
        self._counters = counters
        self._slots = slots
        self._workers = workers
        self._listener = listener
        self._work = anyio.Event()
        self._settled = anyio.Event()
        self._in_flight: dict[int, Batch] = {}
        self._hurrying = 0
        self._ending = False
        self._unreadable = False
        self._kept: Iterator[SpoolBatch] | None = None
        queue.ripe_at(sink.lane, sink.max_bytes, sink.max_items)

    def wake(self) -> None:
        """Look for work again."""
        self._work.set()

    async def serve(self) -> None:
        """Deliver until `end` is called and nothing can be done any more."""
        async with anyio.create_task_group() as group:
            while not (self._ending and self._idle):
                if not await self._step(group):
                    await self._wait()

    async def settle(self, mark: int) -> bool:
        """Hurry until every record below the mark has left the memory; say whether all of them
        arrived or were refused.
        """
        self._hurrying += 1
        self.wake()
        try:
            while self._oldest < mark or (self.spool.pending and self._may_replay):
                await self._settled.wait()
        finally:
            self._hurrying -= 1
        return not self.spool.pending

    def end(self) -> None:
        """Deliver what is there, with one more chance for what is kept, and stop."""
        self._ending = True
        self._unreadable = False
        self.circuit.give_another_chance()
        self.wake()

    def leftovers(self) -> list[Batch]:
        """Return, once `serve` was cancelled, what is neither delivered nor kept."""
        flying = [batch for batch in self._in_flight.values() if not batch.from_disk]
        rest = [_unsettled(batch) for batch in flying if batch.left]
        while items := self._queue.take(self.sink.lane, self.sink.max_bytes, self.sink.max_items):
            rest.append(Batch(items))
        self._in_flight.clear()
        return rest

    def keep(self, batch: Batch) -> None:
        """Keep a batch that could not be delivered, and count it. Blocks: for a thread."""
        sent = batch.digest is not None
        lost = self.spool.keep(batch.items, batch.digest, perhaps_sent=sent)
        kept = len(batch.items) - len(lost)
        self._counters.move(self.sink.name, "queued", "spooled", kept)
        self._counters.move(self.sink.name, "queued", "lost", len(lost))
        self._queue.release(batch.items)
        self._unreadable = False

    @property
    def _oldest(self) -> int:
        """The lowest index of what is in memory; indexes below it are settled or on disk."""
        flying = [batch.items[0].index for batch in self._in_flight.values() if not batch.from_disk]
        waiting = self._queue.first(self.sink.lane)
        return min([*flying, *([] if waiting is None else [waiting])], default=1 << 63)

    @property
    def _idle(self) -> bool:
        waiting, _ = self._queue.waiting(self.sink.lane)
        return not waiting and not self._in_flight and not self._may_replay

    @property
    def _may_replay(self) -> bool:
        return self.spool.pending > 0 and self.circuit.may_replay() and not self._unreadable

    async def _step(self, group: TaskGroup) -> bool:
        """Begin one piece of work; False when there is none to begin now."""
        waiting, size = self._queue.waiting(self.sink.lane)
        replay_first = self.sink.in_order or not waiting
        if replay_first and self._may_replay and not self._in_flight:
            await self._replay(group)
            return True
        if not waiting:
            return False
        if not self.circuit.may_send() or (self.sink.in_order and self.spool.pending):
            await self._park()
            return True
        if self._blocked or not (self._ripe(waiting, size) or await self._linger()):
            return False
        await self._begin(group, lambda: Batch(self._take()))
        return True

    @property
    def _blocked(self) -> bool:
        """True while the batch on its way has to be waited for."""
        one_at_a_time = self.sink.in_order or self.circuit.state != "working"
        return one_at_a_time and bool(self._in_flight)

    def _ripe(self, waiting: int, size: int) -> bool:
        full = size >= self.sink.max_bytes or waiting >= self.sink.max_items
        return full or self._ending or self._hurrying > 0 or self._queue.crowded

    async def _linger(self) -> bool:
        """Wait for company; True when the time is over or somebody waits."""
        with anyio.move_on_after(LINGER_SECONDS):
            while True:
                self._work = anyio.Event()
                if self._ripe(*self._queue.waiting(self.sink.lane)):
                    break
                await self._work.wait()
        return True

    def _take(self) -> list[Item]:
        return self._queue.take(self.sink.lane, self.sink.max_bytes, self.sink.max_items)

    async def _wait(self) -> None:
        self._work = anyio.Event()
        if self._queue.waiting(self.sink.lane)[0] and not self._blocked:
            return
        replays = self.spool.pending and not self._in_flight
        until = self.circuit.seconds_to_wait() if replays else math.inf
        with anyio.move_on_after(until):
            await self._work.wait()

    async def _begin(self, group: TaskGroup, make: Callable[[], Batch]) -> Batch | None:
        """Begin a batch as soon as it may be on its way; None when that has changed meanwhile.

        What it holds is decided last: while a lane waits for its turn, its batches grow, and what
        waits can still give way to newer records.
        """
        turn = object()
        await self._slots.acquire_on_behalf_of(turn)
        batch = make() if self.circuit.may_send() else None
        if batch is None or not batch.items:
            self._slots.release_on_behalf_of(turn)
            return None
        self._in_flight[id(batch)] = batch
        group.start_soon(self._deliver, batch, self.circuit.begin(), turn)
        return batch

    async def _deliver(self, batch: Batch, ticket: int, turn: object) -> None:
        try:
            await self._send_or_cut(batch, ticket)
        finally:
            self._slots.release_on_behalf_of(turn)
        self._done(batch)

    def _done(self, batch: Batch) -> None:
        self._in_flight.pop(id(batch), None)
        settled, self._settled = self._settled, anyio.Event()
        settled.set()
        self._work.set()

    async def _send_or_cut(self, batch: Batch, ticket: int) -> None:
        """Send a batch; where it is refused, its halves, down to the records at fault."""
        try:
            outcome = await self._send(batch)
        except PrimeError as error:
            if not is_rejection(error):
                await self._give_up(batch, batch.items, error, ticket)
            elif len(batch.items) == 1:
                self.circuit.succeed()
                await self._refuse(_refused(batch.items[0], error), batch)
            else:
                await self._send_parts(batch, batch.halves(), ticket)
            return
        await self._account(batch, outcome, ticket)

    async def _send_parts(self, batch: Batch, parts: Sequence[Batch], ticket: int) -> None:
        for part in parts:
            batch.settle(part.items)
            self._in_flight[id(part)] = part
        for part in parts:
            await self._send_or_cut(part, ticket)
            self._in_flight.pop(id(part), None)

    async def _send(self, batch: Batch) -> Outcome:
        if batch.body is None:
            async with self._workers:
                await in_thread(self._prepare, batch)
        batch.noted = self._note
        return await self.sink.send(batch)

    def _prepare(self, batch: Batch) -> None:
        self.sink.prepare(batch)
        self._note(batch)

    def _note(self, batch: Batch) -> None:
        self.spool.sending(batch.items, batch.digest)

    async def _account(self, batch: Batch, outcome: Outcome, ticket: int) -> None:
        for refused in outcome.refused:
            await self._refuse(refused, batch)
        if outcome.left_out:
            self.circuit.succeed()
            await self._settle(batch, list(outcome.left_out), "left_out", None)
        if outcome.delivered:
            self.circuit.succeed()
            await self._delivered(batch, outcome)
        if outcome.failed and outcome.error is not None and is_rejection(outcome.error):
            rest = Batch(list(outcome.failed), from_disk=batch.from_disk)
            await self._send_parts(batch, [rest], ticket)
        elif outcome.failed:
            assert outcome.error is not None
            await self._give_up(batch, outcome.failed, outcome.error, ticket)

    async def _delivered(self, batch: Batch, outcome: Outcome) -> None:
        await self._settle(batch, list(outcome.delivered), "delivered", outcome.receipt)
        await self._listener.arrived(self.sink, batch, outcome)

    async def _settle(
        self, batch: Batch, items: list[Item], state: str, receipt: str | None
    ) -> None:
        """Count records that are done with, and let go of them in memory and on disk."""
        batch.settle(items)
        before = "spooled" if batch.from_disk else "queued"
        self._counters.move(self.sink.name, before, state, len(items))
        if not batch.from_disk:
            self._queue.release(items)
        if self.spool.path is not None:
            await in_thread(self.spool.delivered, items, receipt)

    async def _refuse(self, refused: Refused, batch: Batch) -> None:
        batch.settle([refused.item])
        before = "spooled" if batch.from_disk else "queued"
        self._counters.move(self.sink.name, before, "refused")
        if not batch.from_disk:
            self._queue.release([refused.item])
        if self.spool.path is not None:
            await in_thread(self.spool.refused, refused.item, refused.reason, refused.status)
        await self._listener.refused(self.sink, refused)

    async def _give_up(
        self, batch: Batch, items: Sequence[Item], error: PrimeError, ticket: int
    ) -> None:
        """Records failed: they go to the disk, and their sink has a strike or is retired."""
        if is_transient(error):
            self.circuit.strike(ticket, error)
        else:
            self.circuit.retire(error)
        self._listener.failed(self.sink, error)
        await self._keep(batch, items)

    async def _keep(self, batch: Batch, items: Sequence[Item]) -> None:
        if batch.from_disk:
            return
        whole = len(items) == len(batch.items)
        batch.settle(items)  # the thread is waited for, even by who is cancelled
        await in_thread(self.keep, Batch(list(items), batch.digest if whole else None))

    async def _park(self) -> None:
        """Move what waits to the disk, while nothing is sent."""
        batch = Batch(self._take())
        self._in_flight[id(batch)] = batch
        await self._keep(batch, batch.items)
        self._done(batch)

    async def _replay(self, group: TaskGroup) -> None:
        """Deliver what is on disk, until it is done, fails, or there are new records to send."""
        while self._may_replay:
            batch = await in_thread(self._next_kept)
            if batch is None:
                # All that can be read was sent. What is pending still is damaged, and left to the
                # sync, which says so.
                self._unreadable = self.spool.pending > 0
                return
            begun = await self._begin(group, partial(_same, batch))
            if begun is not None:
                await self._landed(batch)
            if batch.left:
                self._kept = None  # it failed: the next pass begins with it
                return
            if not self.sink.in_order and self._queue.waiting(self.sink.lane)[0]:
                return

    def _next_kept(self) -> Batch | None:
        """Read the next batch from disk: one pass over it, however often that is interrupted."""
        passes = 1 if self._kept is None else 2
        for _ in range(passes):
            if self._kept is None:
                self._kept = self.spool.batches(self.sink.max_bytes, self.sink.max_items)
            found = next(self._kept, None)
            if found is not None:
                items = [Item(record.index, record.payload) for record in found.records]
                return Batch(items, found.cut.digest if found.cut else None, from_disk=True)
            self._kept = None
        return None

    async def _landed(self, batch: Batch) -> None:
        while id(batch) in self._in_flight:
            await self._settled.wait()


def _same(batch: Batch) -> Batch:
    return batch


def _unsettled(batch: Batch) -> Batch:
    whole = len(batch.left) == len(batch.items)
    return Batch(list(batch.left.values()), batch.digest if whole else None)


def _refused(item: Item, error: PrimeError) -> Refused:
    return Refused(item, str(error), getattr(error, "status", None), error)
