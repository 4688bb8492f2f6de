"""What the traces service holds as long as the server lives: its files, its places, its index."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import anyio

from prime_async.server.config import ServerConfig
from prime_async.server.failures import RequestError
from prime_async.server.logs import log_event
from prime_async.server.store.blobs import Blobs
from prime_async.server.store.database import Database
from prime_async.server.store.traces import known_digests
from prime_async.server.tasks import Tasks
from prime_async.server.traces.indexing import Indexer

__all__ = ["Traces"]


class Traces:
    """The traces service.

    Attributes:
        blobs: the lines of uploads.
        readers: places for processes that read long lines.
    """

    def __init__(self, config: ServerConfig, database: Database) -> None:
        self.blobs = Blobs(config.traces_dir)
        self.readers = anyio.CapacityLimiter(config.limits.trace_readers)
        self._slots = anyio.Semaphore(config.limits.trace_uploads)
        self._database = database
        self._indexer = Indexer(database, self.blobs)
        self._tasks = Tasks()

    async def open(self) -> None:
        """Remove what an earlier server left half done, and begin to index."""
        removed = await self._database.scan(
            lambda reader: self.blobs.open(lambda digests: known_digests(reader, digests))
        )
        if removed:
            log_event(logging.INFO, "trace_files_removed", count=removed)
        await self._tasks.open()
        self._tasks.start(self._indexer.run)

    async def close(self) -> None:
        """Stop indexing; the next start goes on with it."""
        await self._tasks.close()

    def texts_wait(self) -> None:
        """There are traces to index."""
        self._indexer.wake()

    @asynccontextmanager
    async def bringing(self, digest: str) -> AsyncIterator[None]:
        """The time in which one upload is read: its file is left alone, the index stands back."""
        with self._indexer.paused():
            async with self._slots:
                try:
                    with self.blobs.pinned(digest):
                        yield
                except BaseException:
                    with anyio.CancelScope(shield=True):
                        await self.sweep([digest])
                    raise

    async def sweep(self, digests: Collection[str]) -> None:
        """Remove the files that no upload names any more; what is left goes at the next start."""
        if not digests:
            return
        try:
            await self._database.write(
                lambda connection: self.blobs.sweep(
                    digests, lambda asked: known_digests(connection, asked)
                )
            )
        except (OSError, RequestError) as failure:
            log_event(logging.WARNING, "trace_files_left", count=len(digests), reason=failure)
