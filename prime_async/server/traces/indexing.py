"""Indexes the texts of new traces while nothing is uploaded.

Indexing takes more time than storing does, and nothing waits for it: a search reads the traces that
are not indexed yet. So it goes in small steps, each one a write of its own, and only while no
upload is on its way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import attrgetter

import anyio
from sqlalchemy import Connection

from prime_async.server.failures import RequestError
from prime_async.server.logs import log_event
from prime_async.server.portions import portions
from prime_async.server.store.blobs import Blobs
from prime_async.server.store.database import Database
from prime_async.server.store.trace_texts import (
    Unindexed,
    add_piece,
    forget_texts,
    refresh,
    set_indexed,
    unindexed,
)
from prime_async.server.traces.texts import pieces_of, texts_of

__all__ = ["Indexer"]

TRACES_AT_ONCE = 64
"""Traces that are looked up together."""

PART_BYTES = 128 * 1024
"""Bytes of traces that are read and, if they are short, written together."""

REFRESH_PIECES = 10_000
"""Pieces added after which it is looked whether most of the index is about what is gone."""

RETRY_SECONDS = 30.0
"""Pause after the store refused a write."""

_Indexed = tuple[int, list[str]]
"""A trace's number and the pieces of its texts."""


class Indexer:
    """Brings the index up to date; one task runs it."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._blobs = blobs
        self._new = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()
        self._uploads = 0
        self._added = REFRESH_PIECES

    def wake(self) -> None:
        """There are new traces."""
        self._new.set()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stand back while the block runs."""
        if not self._uploads:
            self._idle = anyio.Event()
        self._uploads += 1
        try:
            yield
        finally:
            self._uploads -= 1
            if not self._uploads:
                self._idle.set()

    async def run(self) -> None:
        """Index what comes, until it is cancelled."""
        while True:
            try:
                await self._catch_up()
            except RequestError as failure:
                # The store is full or broken: searches go on without the index.
                log_event(logging.WARNING, "indexing_postponed", reason=failure.code)
                await anyio.sleep(RETRY_SECONDS)
                continue
            await self._new.wait()
            self._new = anyio.Event()

    async def _catch_up(self) -> None:
        if self._added >= REFRESH_PIECES:
            # It counts all pieces: not for every upload.
            self._added = 0
            await self._database.write(refresh)
        while waiting := await self._database.scan(
            lambda reader: unindexed(reader, TRACES_AT_ONCE)
        ):
            for part in portions(waiting, attrgetter("length"), PART_BYTES):
                await self._index_part(part)

    async def _index_part(self, part: list[Unindexed]) -> None:
        found = await anyio.to_thread.run_sync(lambda: [self._pieces(trace) for trace in part])
        self._added += sum(map(len, found))
        short: list[_Indexed] = []
        for trace, pieces in zip(part, found, strict=True):
            if len(pieces) > 1:
                await self._index_long(trace.number, pieces)
            else:
                short.append((trace.number, pieces))
        await self._step(partial(_index, traces=short))

    async def _index_long(self, trace: int, pieces: list[str]) -> None:
        # Whoever was cut short before may have left some of them.
        await self._step(partial(forget_texts, trace=trace))
        for piece in pieces:
            await self._step(partial(add_piece, trace=trace, piece=piece))
        await self._step(partial(set_indexed, trace=trace))

    def _pieces(self, trace: Unindexed) -> list[str]:
        try:
            line = self._blobs.read(trace.digest, trace.offset, trace.length)
        except FileNotFoundError:
            # It is being deleted.
            return []
        except OSError as error:
            log_event(logging.ERROR, "trace_unreadable", trace=trace.number, error=error)
            return []
        return list(pieces_of(texts_of(line)))

    async def _step(self, write: Callable[[Connection], None]) -> None:
        await self._idle.wait()
        await self._database.write(write)


def _index(connection: Connection, traces: list[_Indexed]) -> None:
    for trace, pieces in traces:
        forget_texts(connection, trace)
        for piece in pieces:
            add_piece(connection, trace, piece)
        set_indexed(connection, trace)
