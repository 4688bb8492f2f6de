"""The folders of volumes: made, watched, removed.

Each is named after its volume's id, below the folder of sandboxes, where keepers can mount it; it
belongs to whom sandboxes run as. The server itself never opens anything in it by name: it is
measured and archived by descriptors that follow no link, and removed as a whole.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from pathlib import Path

from anyio import to_thread

from prime_async.errors import PrimeError
from prime_async.server.clock import Clock
from prime_async.server.config import ServerConfig
from prime_async.server.failures import RequestError
from prime_async.server.logs import log_event
from prime_async.server.runtimes.folders import disk_usage, make_store, remove_folder
from prime_async.server.runtimes.identity import find_owner
from prime_async.server.sandboxes.endings import failed
from prime_async.server.sandboxes.fleet import Fleet
from prime_async.server.store import volumes as store
from prime_async.server.store.database import Database

__all__ = ["Volumes"]

_WATCH_SECONDS = 5.0
"""How often volumes that are being written to are measured."""

_MODE = 0o755


class Volumes:
    """Keeps the folders in step with the store."""

    def __init__(
        self, config: ServerConfig, fleet: Fleet, database: Database, clock: Clock
    ) -> None:
        self._config = config
        self._fleet = fleet
        self._database = database
        self._clock = clock

    def folder(self, volume_id: str) -> Path:
        """Where a volume is on the host."""
        return self._config.volumes_dir / volume_id

    async def open(self) -> None:
        """Remove the folders of volumes that no longer are, or never came to be."""
        known = await self._database.scan(store.ids)
        await to_thread.run_sync(_sweep, self._config.volumes_dir, known)

    async def make(self, volume_id: str) -> None:
        """Make the folder of a volume.

        Raises:
            RequestError: 507, the disk is full.
        """
        try:
            await to_thread.run_sync(_make, self._config, self.folder(volume_id))
        except OSError as error:
            raise RequestError(507, "storage_full", "the volume's folder was not made") from error

    async def remove(self, volume_id: str) -> None:
        """Remove the folder of a volume; what cannot be removed now, the next start removes."""
        try:
            await to_thread.run_sync(remove_folder, self.folder(volume_id))
        except OSError as error:
            log_event(logging.ERROR, "volume_left", volume=volume_id, error=error)

    async def run(self) -> None:
        """End sandboxes that write more to volumes than there may be, until cancelled."""
        while True:
            await self._clock.sleep(_WATCH_SECONDS)
            try:
                await self._look()
            except (RequestError, PrimeError, OSError) as error:
                log_event(logging.WARNING, "volumes_not_measured", error=error)

    async def _look(self) -> None:
        if not self._fleet.live:
            return
        written = await self._database.scan(store.writers)
        limit = self._config.limits.volume_bytes
        used: dict[str, int] = defaultdict(int)
        for scope, volume_id in written:
            folder = self.folder(volume_id)
            used[scope] += await to_thread.run_sync(disk_usage, folder, limit)
        for (scope, _), writers in written.items():
            if used[scope] > limit:
                why = f"its volumes took more than the {limit >> 20} MiB they may"
                for sandbox_id in writers:
                    await self._fleet.end(sandbox_id, failed("DISK_FULL", why))


def _make(config: ServerConfig, folder: Path) -> None:
    identity = find_owner().identity
    for store_folder in (config.sandboxes_dir, config.volumes_dir):
        make_store(store_folder, identity)
    folder.mkdir()
    folder.chmod(_MODE)
    if os.geteuid() == 0:
        os.chown(folder, identity.uid, identity.gid)


def _sweep(volumes: Path, known: set[str]) -> None:
    if not volumes.exists():
        return
    for folder in volumes.iterdir():
        if folder.name not in known:
            remove_folder(folder)
