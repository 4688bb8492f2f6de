"""Files of samples: promised to whoever holds a token, received once, kept by their content.

A presigned address holds a token of 256 random bits, of which only the digest is stored. It is good
for one upload and for a limited time; the same bytes once more are answered as before, since a
client whose answer got lost sends them again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

import anyio
from anyio import to_thread
from sqlalchemy import Connection, select

from prime_async.server.clock import Clock
from prime_async.server.config import ServerConfig
from prime_async.server.failures import RequestError
from prime_async.server.identifiers import new_id
from prime_async.server.logs import log_event
from prime_async.server.store import sample_objects as store
from prime_async.server.store.blobs import Blobs
from prime_async.server.store.database import Database
from prime_async.server.store.sample_objects import StoredObject
from prime_async.server.store.schema import sample_objects as table

__all__ = ["PRESIGNED_SECONDS", "SampleObjects"]

PRESIGNED_SECONDS = 900
"""How long an address is good for."""

CONFIRM_SECONDS = 24 * 3600.0
"""How long an uploaded file waits for its confirmation."""

_SWEPT_AT_ONCE = 64
_SWEEP_SECONDS = 300.0


class SampleObjects:
    """Receives files and finds them again."""

    def __init__(self, config: ServerConfig, database: Database, clock: Clock) -> None:
        self.blobs = Blobs(config.run_samples_dir)
        self._database = database
        self._clock = clock
        self._swept_at = 0.0

    async def open(self) -> None:
        """Remove what an earlier server left half done, and what nobody can ask for any more."""
        await self._database.write(store.take_back_leftovers)
        await self.forget_stale()
        removed = await self._database.scan(
            lambda reader: self.blobs.open(lambda names: _known(reader, names))
        )
        if removed:
            log_event(logging.INFO, "sample_files_removed", count=removed)

    async def presign(self, run: int, step: int) -> tuple[str, str]:
        """Promise a place for a file of a step; return its token and its name."""
        token, key = secrets.token_urlsafe(32), new_id()
        now = self._clock.now()
        row = {
            "key": key,
            "run": run,
            "step": step,
            "size": 0,
            "token": _digest(token),
            "expires_at": now + PRESIGNED_SECONDS,
            "confirmed": False,
            "created_at": now,
        }
        await self._database.write(lambda connection: store.add(connection, row))
        if now - self._swept_at >= _SWEEP_SECONDS:
            await self.forget_stale()
        return token, key

    def promised(self, token: str) -> StoredObject:
        """What the holder of a token may upload.

        Raises:
            RequestError: 404 for a token nobody was given, 403 when its time is over.
        """
        digest = _digest(token)
        found = self._database.point(lambda reader: store.of_token(reader, digest))
        if found is None:
            raise RequestError(404, "upload_not_found", "there is no such upload")
        if found.sha256 is None and (found.expires_at or 0) <= self._clock.now():
            raise RequestError(403, "upload_expired", "the time for this upload is over")
        return found

    async def receive(
        self, promised: StoredObject, pieces: AsyncIterable[bytes], kind: str
    ) -> None:
        """Take the file of a promise in.

        Raises:
            RequestError: 409, another file was uploaded there.
        """
        draft = self.blobs.new_draft()
        try:
            size, sha256 = await _write(draft, pieces)
            await self._keep(draft, promised, size, sha256, kind)
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(_remove, draft)

    async def _keep(
        self, draft: Path, promised: StoredObject, size: int, sha256: bytes, kind: str
    ) -> None:
        expires_at = self._clock.now() + CONFIRM_SECONDS
        values = {"sha256": sha256, "size": size, "format": kind, "expires_at": expires_at}

        def write(connection: Connection) -> None:
            now = store.find(connection, promised.run, promised.key)
            if now is None:
                raise RequestError(404, "upload_not_found", "there is no such upload")
            if now.sha256 not in (None, sha256):
                raise RequestError(409, "upload_used", "another file was uploaded there already")
            if now.sha256 is None:
                store.change(connection, promised.key, values)

        async with self.bringing(sha256.hex()):
            await to_thread.run_sync(self.blobs.keep, draft, sha256.hex())
            await self._database.write(write)

    async def confirm(self, run: int, step: int, key: str) -> StoredObject:
        """List a file under its step from now on; twice is the same as once.

        Raises:
            RequestError: 404 for a name that was not promised for this step, 409 when the file has
                not arrived.
        """

        def write(connection: Connection) -> StoredObject:
            found = store.find(connection, run, key)
            if found is None or found.step != step:
                raise RequestError(404, "upload_not_found", f"no upload {key[:100]} at step {step}")
            if found.sha256 is None:
                raise RequestError(409, "not_uploaded", "the file has not arrived")
            store.change(connection, key, {"confirmed": True, "expires_at": None})
            return found

        return await self._database.write(write)

    @asynccontextmanager
    async def bringing(self, digest: str) -> AsyncIterator[None]:
        """The time between a file (its digest in hex) and its row; when there is none in the end,
        the file goes.
        """
        try:
            with self.blobs.pinned(digest):
                yield
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._sweep(digest)
            raise

    async def _sweep(self, digest: str) -> None:
        try:
            await self._database.write(
                lambda connection: self.blobs.sweep(
                    [digest], lambda asked: _known(connection, asked)
                )
            )
        except (OSError, RequestError) as failure:
            # The next start removes it.
            log_event(logging.WARNING, "sample_file_left", reason=failure)

    async def keep_text(self, data: bytes, digest: str) -> None:
        """Bring the samples of a request to the disk under their digest (hex).

        The caller names them in a row, under :meth:`bringing`.
        """
        await to_thread.run_sync(self._keep_text, data, digest)

    def _keep_text(self, data: bytes, digest: str) -> None:
        draft = self.blobs.new_draft()
        try:
            with draft.open("xb") as file:
                file.write(data)
                _to_disk(file)
            self.blobs.keep(draft, digest)
        finally:
            draft.unlink(missing_ok=True)

    async def forget_stale(self) -> None:
        """Drop the files that were never confirmed in time, and those that were taken back."""
        now = self._swept_at = self._clock.now()

        def write(connection: Connection) -> int:
            found = store.stale(connection, now, _SWEPT_AT_ONCE)
            for one in found:
                store.drop(connection, one.key)
            names = [one.sha256.hex() for one in found if one.sha256 is not None]
            if names:
                self.blobs.sweep(names, lambda asked: _known(connection, asked))
            return len(found)

        while await self._database.write(write) == _SWEPT_AT_ONCE:
            continue


def _known(connection: Connection, names: Collection[str]) -> set[str]:
    """Which of some digests have a row."""
    known: set[str] = set()
    wanted = [bytes.fromhex(name) for name in names]
    for start in range(0, len(wanted), 500):
        query = select(table.c.sha256).where(table.c.sha256.in_(wanted[start : start + 500]))
        known.update(digest.hex() for digest in connection.execute(query).scalars())
    return known


async def _write(draft: Path, pieces: AsyncIterable[bytes]) -> tuple[int, bytes]:
    """Write a file piece by piece; return its size and its digest."""
    size, sha256 = 0, hashlib.sha256()
    file = await to_thread.run_sync(draft.open, "xb")
    try:
        async for piece in pieces:
            size += len(piece)
            await to_thread.run_sync(_append, file, sha256, piece)
        await to_thread.run_sync(_to_disk, file)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(file.close)
    return size, sha256.digest()


def _append(file: BinaryIO, sha256: hashlib._Hash, piece: bytes) -> None:
    sha256.update(piece)
    file.write(piece)


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fdatasync(file.fileno())


def _remove(draft: Path) -> None:
    draft.unlink(missing_ok=True)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
