"""Checkpoints: archives of sandboxes' private roots and of volumes, made beside the loop.

The store says which there are. An archive is a file named after its checkpoint in one folder of the
server's own; what lies there without a durable row is removed by the next start, and a row that was
being made then has failed. Archives are whole, so each can be deleted without its parents.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from sqlalchemy import Connection, RowMapping

from prime_async.errors import PrimeError
from prime_async.server.clock import Clock
from prime_async.server.config import ServerConfig
from prime_async.server.failures import RequestError
from prime_async.server.logs import log_event
from prime_async.server.runtimes.folders import disk_usage
from prime_async.server.runtimes.protocol import RunningSandbox
from prime_async.server.runtimes.snapshots import SnapshotError, write_snapshot
from prime_async.server.runtimes.watchdog import FREE_BYTES
from prime_async.server.sandboxes.fleet import Fleet
from prime_async.server.sandboxes.stillness import Stillness
from prime_async.server.store import checkpoints as store
from prime_async.server.store.database import Database
from prime_async.server.tasks import Tasks

__all__ = ["Checkpoints", "root_of"]

_AT_ONCE = 2
_NO_LIMIT = 2**62
_SUFFIX = ".tar"
_INTERRUPTED = "the platform ended while it was made"
_GONE = "the sandbox ended while it was made"

Then = Callable[[Connection], None]
"""What else is written when a checkpoint is durable, in the same transaction."""


def root_of(running: RunningSandbox) -> Path:
    """The private root of a sandbox on the host: all of its files that its user can change."""
    return Path(running.record.folder) / "root"


class Checkpoints:
    """Makes archives and removes them."""

    def __init__(
        self, config: ServerConfig, fleet: Fleet, database: Database, clock: Clock, tasks: Tasks
    ) -> None:
        self._config = config
        self._fleet = fleet
        self._database = database
        self._clock = clock
        self._tasks = tasks
        self._stillness = Stillness()
        self._growing: dict[str, int] = {}
        self._turns: anyio.CapacityLimiter | None = None

    def archive(self, checkpoint_id: str) -> Path:
        """Where the archive of a checkpoint is."""
        return self._config.checkpoints_dir / f"{checkpoint_id}{_SUFFIX}"

    async def open(self) -> None:
        """Finish what an earlier server left undone."""
        self._turns = anyio.CapacityLimiter(_AT_ONCE)
        rows = await self._database.scan(store.unfinished)
        pending = [row["id"] for row in rows if row["state"] == "PENDING"]
        if pending:
            for live in list(self._fleet.live.values()):
                await self._stillness.wake(live.running)
        for checkpoint_id in pending:
            await self._fail(checkpoint_id, _INTERRUPTED)
        durable = await self._database.scan(store.durable_ids)
        await to_thread.run_sync(_sweep, self._config.checkpoints_dir, durable)
        for row in rows:
            if row["state"] == "DELETING":
                await self._forget(row["id"])

    def begin(
        self, row: RowMapping, folder: Path, quiet: Sequence[RunningSandbox], then: Then
    ) -> None:
        """Make a checkpoint that is stored as PENDING, in the background.

        Args:
            folder: what it is made of.
            quiet: sandboxes that stand still meanwhile; the first is the one it is made in.
            then: what else becomes true with it.
        """
        # A volume stays when a sandbox ends; a sandbox's own files do not.
        source = quiet[0] if row["volume_id"] is None else None
        self._tasks.start(self._make, row["id"], folder, quiet, source, then)

    async def delete(self, checkpoint_id: str) -> None:
        """Remove a checkpoint that is stored as DELETING; goes on when the caller is cancelled."""
        await self._tasks.finish(self._remove, checkpoint_id)

    async def _make(
        self,
        checkpoint_id: str,
        folder: Path,
        quiet: Sequence[RunningSandbox],
        source: RunningSandbox | None,
        then: Then,
    ) -> None:
        assert self._turns is not None
        try:
            async with self._turns, self._stillness.of(quiet):
                values = await self._write(checkpoint_id, folder)
            if source is not None and source.end is not None:
                # Its files went while they were read: nobody knows what of them is missing.
                await self._drop(checkpoint_id)
                raise SnapshotError(_GONE)
        except (PrimeError, RequestError) as error:
            gone = source is not None and source.end is not None
            await self._fail(checkpoint_id, _GONE if gone else str(error))
        except Exception:
            await self._fail(checkpoint_id, "the platform failed; see its log")
            raise
        else:
            await self._keep(checkpoint_id, values, then)

    async def _write(self, checkpoint_id: str, folder: Path) -> Mapping[str, Any]:
        taken = await self._database.scan(store.stored_bytes)
        occupied = await to_thread.run_sync(disk_usage, folder, _NO_LIMIT)

        def check(written: int) -> None:
            self._growing[checkpoint_id] = written
            self._require_room(taken + sum(self._growing.values()))

        try:
            self._require_room(taken + occupied)
            stored = await write_snapshot(folder, self.archive(checkpoint_id), check)
        except OSError as error:
            words = error.strerror or str(error)
            raise SnapshotError(f"its files could not be read or stored: {words}") from error
        finally:
            self._growing.pop(checkpoint_id, None)
        return {"stored_bytes": stored, "occupied_bytes": occupied}

    def _require_room(self, bytes_taken: int) -> None:
        limit = self._config.limits.checkpoint_bytes
        if bytes_taken > limit:
            raise SnapshotError(
                f"the checkpoints of this platform would take more than the {limit >> 20} MiB they "
                "may: delete some"
            )
        space = os.statvfs(self._config.checkpoints_dir)
        if space.f_bavail * space.f_frsize < FREE_BYTES:
            raise SnapshotError(
                f"the machine's disk has less than {FREE_BYTES >> 20} MiB left: free some"
            )

    async def _keep(self, checkpoint_id: str, values: Mapping[str, Any], then: Then) -> None:
        changed = {**values, "state": "DURABLE", "updated_at": self._clock.now()}

        def write(connection: Connection) -> None:
            store.change(connection, checkpoint_id, changed)
            then(connection)

        try:
            await self._database.write(write, rows=3)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._drop(checkpoint_id)
            raise
        log_event(logging.INFO, "checkpoint_made", checkpoint=checkpoint_id)

    async def _fail(self, checkpoint_id: str, why: str) -> None:
        values = {"state": "FAILED", "error": why, "updated_at": self._clock.now()}
        await self._database.write(
            lambda connection: store.change(connection, checkpoint_id, values)
        )
        log_event(logging.WARNING, "checkpoint_failed", checkpoint=checkpoint_id, why=why)

    async def _remove(self, checkpoint_id: str) -> None:
        await self._drop(checkpoint_id)
        await self._forget(checkpoint_id)

    async def _drop(self, checkpoint_id: str) -> None:
        archive = self.archive(checkpoint_id)
        await to_thread.run_sync(lambda: archive.unlink(missing_ok=True))

    async def _forget(self, checkpoint_id: str) -> None:
        await self._database.write(lambda connection: store.forget(connection, checkpoint_id))


def _sweep(folder: Path, durable: set[str]) -> None:
    """Remove what no durable checkpoint stands for."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.suffix != _SUFFIX or path.stem not in durable:
            with suppress(OSError):
                path.unlink()
