"""Files on their way into sandboxes: noted in the store while they are, so that nothing half
written is left when a server or client is killed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager

import anyio

from prime_async.errors import PrimeError
from prime_async.server.clock import Clock
from prime_async.server.failures import RequestError
from prime_async.server.identifiers import new_id
from prime_async.server.logs import log_event
from prime_async.server.runtimes.errors import SandboxFileError
from prime_async.server.runtimes.files import FileInfo
from prime_async.server.sandboxes.fleet import Fleet, Live
from prime_async.server.store import sandboxes as store
from prime_async.server.store.database import Database
from prime_async.server.store.sandboxes import StoredUpload

__all__ = ["Transfers"]

STALE_SECONDS = 3600.0
"""How long an upload that broke off may be gone on with."""

_SWEEP_SECONDS = 300.0


class Transfers:
    """Takes uploads and removes what is left of those that ended early."""

    def __init__(self, fleet: Fleet, database: Database, clock: Clock) -> None:
        self._fleet = fleet
        self._database = database
        self._clock = clock
        self._turns: dict[str, anyio.Lock] = {}

    async def open(self) -> None:
        """Roll back what a killed server was receiving."""
        await self._sweep(plain=True)

    async def run(self) -> None:
        """Remove abandoned uploads, until cancelled."""
        while True:
            await self._clock.sleep(_SWEEP_SECONDS)
            try:
                await self._sweep(plain=False)
            except (RequestError, PrimeError) as error:
                log_event(logging.WARNING, "uploads_not_swept", error=error)

    async def whole(
        self, live: Live, path: str, chunks: AsyncIterable[bytes], *, sha256: str | None, mode: int
    ) -> FileInfo:
        """Write a file from one request.

        Raises:
            SandboxFileError: see :meth:`SandboxFiles.upload`.
        """
        upload = self._note(live, new_id(), path, resumable=False)
        await self._database.write(lambda connection: store.put_upload(connection, upload))
        files = live.running.files
        try:
            done = await files.upload(
                path, chunks, mode=mode, sha256=sha256, upload_id=upload.upload_id
            )
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._discard(upload)
            raise
        await self._drop(upload)
        return done

    async def part(
        self,
        live: Live,
        upload_id: str,
        path: str,
        chunks: AsyncIterable[bytes],
        *,
        offset: int,
        sha256: str | None,
        final: bool,
        mode: int,
    ) -> FileInfo:
        """Write the next part of a file; what arrived of it stays when it breaks off.

        Raises:
            SandboxFileError: see :meth:`SandboxFiles.upload`.
        """
        async with self._turn(f"{live.running.id}/{upload_id}"):
            upload = self._note(live, upload_id, path, resumable=True)
            await self._database.write(lambda connection: store.put_upload(connection, upload))
            done = await live.running.files.upload(
                path,
                chunks,
                mode=mode,
                sha256=sha256,
                upload_id=upload_id,
                offset=offset,
                final=final,
            )
            if final:
                await self._drop(upload)
        return done

    async def received(self, live: Live, upload_id: str) -> int | None:
        """How much of an upload is here; None when there is no such upload."""
        found = self._database.point(
            lambda reader: store.find_upload(reader, upload_id, live.running.id)
        )
        if found is None:
            return None
        async with self._turn(f"{live.running.id}/{upload_id}"):
            return await live.running.files.partial_size(os.fsdecode(found.path), upload_id)

    async def abandon(self, live: Live, upload_id: str) -> bool:
        """Remove an upload that is not wanted any more; say whether there was one."""
        found = self._database.point(
            lambda reader: store.find_upload(reader, upload_id, live.running.id)
        )
        if found is not None:
            await self._discard(found)
        return found is not None

    @asynccontextmanager
    async def _turn(self, key: str) -> AsyncIterator[None]:
        """One request at a time for an upload: a client may come back before we miss it."""
        lock = self._turns.setdefault(key, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._turns.pop(key, None)

    def _note(self, live: Live, upload_id: str, path: str, *, resumable: bool) -> StoredUpload:
        now = self._clock.now()
        return StoredUpload(upload_id, live.running.id, os.fsencode(path), resumable, now)

    async def _sweep(self, *, plain: bool) -> None:
        before = self._clock.now() - STALE_SECONDS
        for upload in await self._database.scan(
            lambda reader: store.stale_uploads(reader, before, plain=plain)
        ):
            if f"{upload.sandbox_id}/{upload.upload_id}" not in self._turns:
                await self._discard(upload)

    async def _discard(self, upload: StoredUpload) -> None:
        live = self._fleet.live.get(upload.sandbox_id)
        if live is not None:
            try:
                await live.running.files.discard_partial(os.fsdecode(upload.path), upload.upload_id)
            except SandboxFileError as error:
                log_event(logging.WARNING, "upload_left", sandbox=upload.sandbox_id, error=error)
        await self._drop(upload)

    async def _drop(self, upload: StoredUpload) -> None:
        await self._database.write(
            lambda connection: store.drop_upload(connection, upload.upload_id)
        )
