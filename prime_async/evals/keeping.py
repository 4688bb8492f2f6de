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
from prime_async.errors import SpoolError
from prime_async.evals.batches import Batch
from prime_async.evals.receipts import RefusedSample
from prime_async.spool import EntryWriter, Meta, Ranges, SourceInfo, Spool

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

    async def close(self, total: int | None, *, complete: bool) -> None:
        """The push is over."""


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

    async def close(self, total: int | None, *, complete: bool) -> None:
        pass


class Journal(NoKeeper):
    """Notes the progress of a push whose file can be read again.

    A note is one write(2) of some dozen bytes, made on the event loop. A journal that cannot be
    written costs the ability to resume after a crash, never the push.
    """

    def __init__(self, writer: EntryWriter) -> None:
        super().__init__()
        self._writer: EntryWriter | None = writer
        self._broken = False
        self.path = writer.entry.path

    @classmethod
    async def open(cls, spool: Spool | None, push_id: str, meta: Meta) -> Keeper:
        """Begin or continue the journal of a push; a :class:`NoKeeper` where that is impossible."""
        if spool is None:
            return NoKeeper()
        try:
            return cls(await anyio.to_thread.run_sync(_take_entry, spool, push_id, meta))
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

    async def close(self, total: int | None, *, complete: bool) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            await anyio.to_thread.run_sync(_close_entry, writer, total, complete)
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

    async def undelivered(self, batch: Batch, *, unknown: bool) -> None:
        async with self._lock:
            if self._spool is not None:
                await anyio.to_thread.run_sync(self._keep, batch, unknown)

    async def close(self, total: int | None, *, complete: bool) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await anyio.to_thread.run_sync(self._finish, writer)

    def _keep(self, batch: Batch, unknown: bool) -> None:
        assert self._spool is not None
        try:
            if self._writer is None:
                self._writer = _take_entry(self._spool, self._push_id, self._meta)
                self.path = self._writer.entry.path
            for index, data in batch.samples:
                self._writer.data(index, data)
                self.kept.add(index)
            if unknown:
                self._writer.cut(batch.indexes)
        except SpoolError as error:
            _LOGGER.error("push_spool id=%s: samples could not be kept: %s", self._push_id, error)

    def _finish(self, writer: EntryWriter) -> None:
        try:
            writer.end(self.kept.stop)
            # The entry holds only what was left: everything else is none of its business.
            if gaps := self.kept.complement(self.kept.stop):
                writer.ack(gaps)
            writer.close()
        except SpoolError as error:
            _LOGGER.error("push_spool path=%s: %s", self.path, error)


def journal_meta(
    evaluation_id: str, push_id: str, base_url: str, context: str, source: SourceInfo | None
) -> Meta:
    """Describe a push for its entry on disk."""
    return Meta(
        base_url=base_url,
        context=context,
        target={"evaluation_id": evaluation_id, "push_id": push_id},
        source=source,
    )


def _take_entry(spool: Spool, push_id: str, meta: Meta) -> EntryWriter:
    """Create the entry of a push, or take over what an earlier, interrupted process left of it."""
    existing = next((entry for entry in spool.entries(KIND) if entry.id == push_id), None)
    if existing is None:
        return spool.create(KIND, push_id, meta)
    writer = existing.try_take_over("push")
    if writer is None:
        raise SpoolError(f"push {push_id} is running in another process", path=existing.path)
    return writer


def _close_entry(writer: EntryWriter, total: int | None, complete: bool) -> None:
    if total is not None:
        writer.end(total)
    if complete:
        writer.remove(discard=True)
    else:
        writer.close()
