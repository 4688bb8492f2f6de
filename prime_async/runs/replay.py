"""Delivering, from any process, what runs left on disk. Several may do it at the same time: each
entry has one owner, and a batch keeps the key it was first sent under.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio
import anyio.to_thread

from prime_async.api import AsyncAPIClient
from prime_async.config import PrimePaths, home_directory
from prime_async.errors import PrimeError, SpoolError
from prime_async.localfiles import given_path
from prime_async.requests import DAY
from prime_async.runs.backends import report_end
from prime_async.runs.blocks import Item
from prime_async.runs.endings import ENDINGS, read_ending
from prime_async.runs.kept import KeptRecords, kept_records
from prime_async.runs.opened import Connection, sinks_of
from prime_async.runs.quarantine import Quarantine
from prime_async.runs.queue import Lane
from prime_async.runs.receipts import RefusedRecord
from prime_async.runs.sinks import Batch, Outcome, Refused, Sink, is_rejection
from prime_async.runs.spooling import SpoolPlace
from prime_async.spool import EntryWriter, Meta, Ranges, Spool, SpoolBatch, SpoolEntry, batches
from prime_async.traces.api import AsyncTracesAPIClient
from prime_async.traces.errors import TracesUsageError, in_family
from prime_async.transport import Absence, check_timeout, deadline, is_unanswered

__all__ = ["SyncedRecords", "sync_runs", "watch_runs"]

_LOG = logging.getLogger("prime_async.runs")


@dataclass(frozen=True, slots=True)
class SyncedRecords:
    """What became of one entry.

    Attributes:
        kept: the entry, as it was found.
        delivered: records delivered now.
        refused: records the platform refused; they are kept apart.
        problem: why not all of it is delivered, or None.
        left_out: records the platform has no place for; see `Counts.left_out`.
        unanswered: the problem is that the platform does not answer; trying again may help.
    """

    kept: KeptRecords
    delivered: int
    refused: tuple[RefusedRecord, ...]
    problem: str | None
    left_out: int = 0
    unanswered: bool = False


async def sync_runs(
    api_client: AsyncAPIClient,
    path: str | os.PathLike[str] | None = None,
    *,
    spool_dir: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
) -> list[SyncedRecords]:
    """Deliver what runs to this platform left on disk; leave the rest alone.

    Safe to run from several processes at a time, and beside runs that are going on.

    Args:
        api_client: the connection; what was going elsewhere is reported, never redirected.
        path: an entry that was carried here from another machine, to be taken in first.
        spool_dir: where to look; default ``~/.prime/spool``.
        timeout: seconds in all; default a day. What is not delivered by then stays kept.

    Raises:
        TracesUsageError: there is no home folder, and no ``spool_dir`` is given.
        TracesSpoolError: ``path`` holds no entry, or the spool cannot be read.
        PrimeTracesError: the connection cannot be made.
    """
    with in_family():
        seconds = check_timeout(timeout, DAY)
        spool = _spool(spool_dir)
        with deadline(seconds, "delivering what is kept on disk"):
            if path is not None:
                await anyio.to_thread.run_sync(spool.adopt, given_path(path, "path"))
            found = await anyio.to_thread.run_sync(kept_records, spool)
            return [await _sync_one(api_client, spool, kept) for kept in found]


async def watch_runs(
    api_client: AsyncAPIClient,
    *,
    spool_dir: str | os.PathLike[str] | None = None,
    interval: float = 5.0,
) -> AsyncIterator[SyncedRecords]:
    """Deliver what runs leave on disk as it comes, without end; yield what was done.

    While the platform does not answer, this goes on and logs so once, and once when it does again.

    Args:
        api_client, spool_dir: as for :func:`sync_runs`.
        interval: seconds between looks.

    Raises:
        TracesUsageError: the interval is no positive number of seconds.
        PrimeTracesError: as :func:`sync_runs`.
    """
    absence = Absence(_LOG, "delivering")
    with in_family():
        seconds = check_timeout(interval, interval, "interval")
    while True:
        for synced in await sync_runs(api_client, spool_dir=spool_dir):
            if synced.unanswered:
                absence.failed(synced.problem)
            elif synced.delivered or synced.refused:
                absence.answered()
            if synced.delivered or synced.refused:
                yield synced
        await anyio.sleep(seconds)


def _spool(folder: str | os.PathLike[str] | None) -> Spool:
    if folder is not None:
        return Spool(given_path(folder, "spool_dir"))
    home = home_directory()
    if home is None:
        raise TracesUsageError("there is no home folder to look into", field="spool_dir")
    return Spool(PrimePaths(home).root / "spool")


async def _sync_one(api: AsyncAPIClient, spool: Spool, kept: KeptRecords) -> SyncedRecords:
    problem = _obstacle(api, kept)
    if problem is not None:
        return SyncedRecords(kept, 0, (), problem)
    entry = SpoolEntry(spool, kept.kind, kept.path.name)
    try:
        writer = await anyio.to_thread.run_sync(entry.try_take_over, "sync")
    except SpoolError as error:
        gone = not kept.path.is_dir()
        return SyncedRecords(kept, 0, (), None if gone else str(error))
    if writer is None:
        return SyncedRecords(kept, 0, (), "another process has it")
    return await _deliver(api, spool, kept, writer)


def _obstacle(api: AsyncAPIClient, kept: KeptRecords) -> str | None:
    here = kept.base_url == api.base_url or kept.context == "local" == api.settings.context
    if kept.fault is not None:
        return kept.fault
    if kept.running:
        return "its process is still running"
    return None if here else f"it was going to {kept.base_url}, not to {api.base_url}"


async def _deliver(
    api: AsyncAPIClient, spool: Spool, kept: KeptRecords, writer: EntryWriter
) -> SyncedRecords:
    replay = _EndReplay(api, spool, kept, writer)
    if kept.kind != ENDINGS:
        replay = _RecordReplay(api, spool, kept, writer)
    problem, unanswered = None, False
    try:
        await replay.run()
    except PrimeError as error:
        problem, unanswered = str(error), is_unanswered(error)
    finally:
        with anyio.CancelScope(shield=True):
            left = await anyio.to_thread.run_sync(replay.close)
    return SyncedRecords(
        kept, replay.delivered, tuple(replay.refused), problem or left, replay.left_out, unanswered
    )


class _EndReplay:
    """Tells the platform how a run ended, once nothing of it is left to deliver."""

    def __init__(
        self, api: AsyncAPIClient, spool: Spool, kept: KeptRecords, writer: EntryWriter
    ) -> None:
        self.delivered = self.left_out = 0
        self.refused: list[RefusedRecord] = []
        self._api = api
        self._spool = spool
        self._kept = kept
        self._writer = writer

    async def run(self) -> None:
        """Report.

        Raises:
            PrimeError: it could not be told, or records come first.
        """
        others = await anyio.to_thread.run_sync(kept_records, self._spool)
        if any(one.run_id == self._kept.run_id and one.kind != ENDINGS for one in others):
            raise SpoolError("records of this run come first", path=self._kept.path)
        ending = await anyio.to_thread.run_sync(read_ending, self._writer.entry)
        if ending is not None:
            await report_end(self._api, ending)
            self._writer.ack(Ranges([(0, 1)]))
            self.delivered = 1

    def close(self) -> str | None:
        """Let go of the entry; say what is left in it. Blocks: for a thread."""
        return _close(self._writer)


class _RecordReplay(_EndReplay):
    """Delivers the records of one entry."""

    async def run(self) -> None:
        """Deliver batch by batch.

        Raises:
            PrimeError: the platform cannot take them now; the rest stays.
        """
        state = self._writer.state()
        sink = self._sink(state.meta or Meta())
        source = batches(
            self._writer.entry, state, max_bytes=sink.max_bytes, max_records=sink.max_items
        )
        while True:
            found: SpoolBatch | None = await anyio.to_thread.run_sync(next, source, None)
            if found is None:
                return
            items = [Item(record.index, record.payload) for record in found.records]
            digest = found.cut.digest if found.cut is not None else None
            await self._send(sink, Batch(items, digest, from_disk=True))

    def _sink(self, meta: Meta) -> Sink:
        connection = Connection(self._api, AsyncTracesAPIClient._beside(self._api))
        said = meta.extra.get("context")
        sinks = sinks_of(
            connection,
            self._kept.run_kind,
            self._kept.run_id,
            push_id=meta.target.get("push_id", self._writer.entry.id),
            context=said if isinstance(said, dict) else {},
            opt_out=meta.extra.get("opt_out") is True,
        )
        lane = Lane(self._kept.kind)
        return next(sink for sink in sinks if sink.lane is lane)

    async def _send(self, sink: Sink, batch: Batch) -> None:
        batch.noted = self._note
        await anyio.to_thread.run_sync(self._prepare, sink, batch)
        try:
            outcome = await sink.send(batch)
        except PrimeError as error:
            if not is_rejection(error):
                raise
            await self._send_parts(sink, batch, error)
            return
        self._account(sink, outcome)
        if outcome.failed and outcome.error is not None:
            if not is_rejection(outcome.error):
                raise outcome.error
            await self._send(sink, Batch(list(outcome.failed), from_disk=True))

    async def _send_parts(self, sink: Sink, batch: Batch, error: PrimeError) -> None:
        if len(batch.items) == 1:
            status = getattr(error, "status", None)
            self._account(sink, Outcome(refused=[Refused(batch.items[0], str(error), status)]))
            return
        for half in batch.halves():
            await self._send(sink, half)

    def _prepare(self, sink: Sink, batch: Batch) -> None:
        sink.prepare(batch)
        self._note(batch)

    def _note(self, batch: Batch) -> None:
        self._writer.cut(Ranges.of(item.index for item in batch.items), batch.digest)

    def _account(self, sink: Sink, outcome: Outcome) -> None:
        if outcome.delivered:
            arrived = Ranges.of(item.index for item in outcome.delivered)
            self._writer.ack(arrived, outcome.receipt)
            self.delivered += len(outcome.delivered)
        if outcome.left_out:
            self._writer.ack(Ranges.of(item.index for item in outcome.left_out))
            self.left_out += len(outcome.left_out)
        for refused in outcome.refused:
            record = RefusedRecord(sink.name, refused.reason, refused.status, refused.item.index)
            self.refused.append(record)
            self._quarantine.keep(refused.item, record)
            self._writer.refuse(refused.item.index, refused.reason, status=refused.status)

    def __init__(
        self, api: AsyncAPIClient, spool: Spool, kept: KeptRecords, writer: EntryWriter
    ) -> None:
        super().__init__(api, spool, kept, writer)
        target = {"run_id": kept.run_id, "run_kind": kept.run_kind.value}
        self._quarantine = Quarantine(SpoolPlace(spool, kept.base_url, kept.context, target))

    def close(self) -> str | None:
        """Let go of the entry; say what is left in it. Blocks: for a thread."""
        self._quarantine.close()
        return _close(self._writer)


def _close(writer: EntryWriter) -> str | None:
    state = writer.state()
    try:
        if state.total is None:
            writer.end(state.present.stop)  # its process was killed: what is here is all there is
        state = writer.state()
        if state.complete and not state.damage:
            writer.remove()
            return None
        writer.close()
    except SpoolError as error:
        return str(error)
    if state.damage:
        return f"parts of it cannot be read: {state.damage[0]}"
    return f"{state.undelivered.total} records are left"
