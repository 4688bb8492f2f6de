"""Keepers: what a push leaves on disk, so that neither a crash nor an outage loses a sample.

A push of a file keeps a journal from its first batch on: which samples were sent and which are
confirmed. A push of a source that cannot be read again keeps the samples themselves, once they
cannot be delivered. A list needs neither: the caller still has it, and the receipt says what to
resume.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import anyio.to_thread

from prime_async.config import PrimePaths, home_directory
from prime_async.errors import SpoolError, UsageError
from prime_async.evals.batches import Batch
from prime_async.evals.receipts import RefusedSample
from prime_async.spool import EntryWriter, Meta, Ranges, Spool

__all__ = ["KIND", "Journal", "Keeper", "LastResort", "NoKeeper", "default_spool"]

KIND = "evals.push"
"""Folder of the spool where pushes are kept."""

_LOGGER = logging.getLogger("prime_async.evals")


def default_spool() -> Spool | None:
    """Return the user's spool, ``~/.prime/spool``, or None where there is no home folder."""
    home = home_directory()
    return None if home is None else Spool(PrimePaths(home).root / "spool")


class Keeper(Protocol):
    """Told about every step of a push."""

    path: Path | None
    kept: Ranges

    def sending(self, batch: Batch) -> None:
        """A batch is about to be sent for the first time."""

    def stored(self, indexes: Ranges) -> None:
        """The platform holds these samples."""

    def refused(self, sample: RefusedSample) -> None:
        """This sample is not to be sent again."""

    async def undelivered(self, batch: Batch, *, unknown: bool) -> None:
        """The batch could not be delivered; `unknown` when it may have arrived."""

    async def close(self, total: int | None, *, complete: bool, turned_away: bool) -> None:
        """The push is over.

        Args:
            total: how many samples the source held, if that is known.
            complete: nothing is left to do.
            turned_away: the platform took nothing, because of the account or the evaluation.
        """


class NoKeeper:
    """Keeps nothing: the caller has the samples."""

    path: Path | None = None

    def __init__(self) -> None:
        self.kept = Ranges()

    def sending(self, batch: Batch) -> None:
        pass

    def stored(self, indexes: Ranges) -> None:
        pass

    def refused(self, sample: RefusedSample) -> None:
        pass

    async def undelivered(self, batch: Batch, *, unknown: bool) -> None:
        pass

    async def close(self, total: int | None, *, complete: bool, turned_away: bool) -> None:
        pass


class Journal(NoKeeper):
    """Notes the progress of a push whose file can be read again.

    A note is one write(2) of some dozen bytes, made on the event loop. A journal that cannot be
    written costs the ability to resume after a crash, never the push.

    Args:
        writer: the entry.
        fresh: it was made for this push; a push that is turned away then leaves nothing behind.
        keep: leave it in its place even when the push is complete.
    """

    def __init__(self, writer: EntryWriter, *, fresh: bool = False, keep: bool = False) -> None:
        super().__init__()
        self._writer: EntryWriter | None = writer
        self._fresh = fresh
        self._keep = keep
        self._broken = False
        self.path = writer.entry.path

    @classmethod
    async def open(cls, spool: Spool | None, push_id: str, meta: Meta) -> Keeper:
        """Begin or continue the journal of a push; a :class:`NoKeeper` where that is impossible.

        Raises:
            SpoolError: the same push is running elsewhere: together they could send a sample twice.
        """
        if spool is None:
            return NoKeeper()
        try:
            writer, fresh = await anyio.to_thread.run_sync(_take_entry, spool, push_id, meta)
            return cls(writer, fresh=fresh)
        except _RunningElsewhereError:
            raise
        except SpoolError as error:
            _LOGGER.warning(
                "push_journal id=%s: cannot be kept, the push goes on: %s", push_id, error
            )
            return NoKeeper()

    def sending(self, batch: Batch) -> None:
        self._note(lambda writer: writer.cut(batch.indexes))

    def stored(self, indexes: Ranges) -> None:
        self._note(lambda writer: writer.ack(indexes))

    def refused(self, sample: RefusedSample) -> None:
        self._note(
            lambda writer: writer.refuse(
                sample.index, sample.reason, path=sample.path, status=sample.status
            )
        )

    async def undelivered(self, batch: Batch, *, unknown: bool) -> None:
        if not unknown:
            self._note(lambda writer: writer.release(batch.indexes))

    async def close(self, total: int | None, *, complete: bool, turned_away: bool) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        remove = (complete and not self._keep) or (turned_away and self._fresh)
        try:
            await anyio.to_thread.run_sync(_close_entry, writer, total, remove)
        except SpoolError as error:
            _LOGGER.warning("push_journal path=%s: %s", self.path, error)

    def _note(self, write: Callable[[EntryWriter], object]) -> None:
        if self._writer is None or self._broken:
            return
        try:
            write(self._writer)
        except SpoolError as error:
            self._broken = True  # closing it syncs the disk and is left to `close`
            _LOGGER.warning(
                "push_journal path=%s: no longer kept, the push goes on: %s", self.path, error
            )


class LastResort(NoKeeper):
    """Keeps samples that could not be delivered and whose source cannot be read again."""

    def __init__(self, spool: Spool | None, push_id: str, meta: Meta) -> None:
        super().__init__()
        self._spool = spool
        self._push_id = push_id
        self._meta = meta
        self._writer: EntryWriter | None = None
        self._lock = anyio.Lock()
        self._gone = Ranges()

    async def undelivered(self, batch: Batch, *, unknown: bool) -> None:
        async with self._lock:
            if self._spool is not None:
                await anyio.to_thread.run_sync(self._keep, batch, unknown)

    async def close(self, total: int | None, *, complete: bool, turned_away: bool) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await anyio.to_thread.run_sync(self._finish, writer)

    def _keep(self, batch: Batch, unknown: bool) -> None:
        assert self._spool is not None
        try:
            if self._writer is None:
                self._writer, _ = _take_entry(self._spool, self._push_id, self._meta)
                self.path = self._writer.entry.path
            for index, data in batch.samples:
                self._writer.data(index, data)
                self.kept.add(index)
            if unknown:
                self._writer.cut(batch.indexes)
        except (SpoolError, UsageError) as error:  # the disk is full, or a record beyond its limit
            self._gone.update(batch.indexes - self.kept)
            _LOGGER.error("push_spool id=%s: samples could not be kept: %s", self._push_id, error)

    def _finish(self, writer: EntryWriter) -> None:
        try:
            writer.end(self.kept.stop)
            # The entry holds only what was left: what else was sent is none of its business. What
            # could not be kept now may be in it since an earlier try.
            if settled := self.kept.complement(self.kept.stop) - self._gone:
                writer.ack(settled)
            writer.close()
        except SpoolError as error:
            _LOGGER.error("push_spool path=%s: %s", self.path, error)


class _RunningElsewhereError(SpoolError):
    pass


def _take_entry(spool: Spool, push_id: str, meta: Meta) -> tuple[EntryWriter, bool]:
    """Create the entry of a push, or take over what an earlier, interrupted process left of it;
    say which.
    """
    existing = next((entry for entry in spool.entries(KIND) if entry.id == push_id), None)
    if existing is None:
        return spool.create(KIND, push_id, meta), True
    writer = existing.try_take_over("push")
    if writer is None:
        raise _RunningElsewhereError(
            f"push {push_id} is running elsewhere: {existing.holder() or 'in this process'}",
            path=existing.path,
            hint="wait until that has ended",
        )
    if _is_of_an_earlier_file(writer, meta):
        return _renewed(writer, spool, push_id, meta), False
    return writer, False


def _is_of_an_earlier_file(writer: EntryWriter, meta: Meta) -> bool:
    before = writer.state().meta
    if before is None or before.source is None or meta.source is None:
        return False
    return not meta.source.same_content(before.source)


def _renewed(writer: EntryWriter, spool: Spool, push_id: str, meta: Meta) -> EntryWriter:
    """Begin the journal of a file that has grown again, with what is known of its deliveries."""
    known = writer.state()
    writer.remove(discard=True)
    renewed = spool.create(KIND, push_id, meta)
    if known.unknown:
        renewed.cut(known.unknown)
    if known.acked:
        renewed.ack(known.acked)
    return renewed


def _close_entry(writer: EntryWriter, total: int | None, remove: bool) -> None:
    if total is not None:
        writer.end(total)
    if remove:
        writer.remove(discard=True)
    else:
        writer.close()
