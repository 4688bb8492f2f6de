"""Looks after all sandboxes of a runtime: time, idleness, memory where no group limits it, disk."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread

from prime_async.server.logs import log_event
from prime_async.server.runtimes.folders import disk_usage
from prime_async.server.runtimes.processes import Table, read_table
from prime_async.server.runtimes.protocol import Ending
from prime_async.server.runtimes.sandbox import Sandbox

__all__ = ["FREE_BYTES", "Watchdog"]

TICK_SECONDS = 0.5
"""How often everything is looked at that costs little."""

FREE_BYTES = 512 * 1024 * 1024
"""Floor under the free space of the machine's disk: below it the largest sandbox ends."""

_DISK_SECONDS = 1.0
_DISK_SHARE = 20
"""Measuring a sandbox's files takes at most a twentieth of the time."""


@dataclass(slots=True)
class _Disk:
    due: float = 0.0


@dataclass(slots=True)
class _Found:
    """What one look found, in a thread; acted on by the loop."""

    out_of_memory: list[Sandbox] = field(default_factory=list)
    disk_full: list[tuple[Sandbox, str]] = field(default_factory=list)


class Watchdog:
    """Looks and ends.

    Args:
        folder: of the sandboxes; its file system is the one that must not fill up.
        sandboxes: those there are; read anew at every look.
        counts: whether memory has to be counted here, because no control group limits it.
        free_bytes: the floor under the free space.
    """

    def __init__(
        self,
        folder: Path,
        sandboxes: Mapping[str, Sandbox],
        *,
        counts: bool,
        free_bytes: int = FREE_BYTES,
    ) -> None:
        self._folder = folder
        self._sandboxes = sandboxes
        self._counts = counts
        self._free_bytes = free_bytes
        self._disks: dict[str, _Disk] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await anyio.sleep(TICK_SECONDS)
            try:
                await self.look()
            except OSError as error:
                log_event(logging.ERROR, "watchdog_failed", error=error)

    async def look(self) -> None:
        """Look once, and end what has to end."""
        live = [sandbox for sandbox in self._sandboxes.values() if sandbox.end is None]
        self._look_at_clocks(live)
        if not live:
            return
        found = await to_thread.run_sync(self._measure, live)
        for sandbox in found.out_of_memory:
            sandbox.finish_for_memory()
        for sandbox, why in found.disk_full:
            sandbox.finish(Ending.DISK_FULL, why)

    def _look_at_clocks(self, live: Iterable[Sandbox]) -> None:
        now, wall = time.monotonic(), time.time()
        for sandbox in live:
            state = sandbox.state
            if state.deadline is not None and wall >= state.deadline:
                sandbox.finish(Ending.TIMEOUT, "its time was over")
            elif state.idle_seconds is not None and not sandbox.commands:
                idle = now - sandbox.used_at
                if idle >= state.idle_seconds:
                    sandbox.finish(Ending.IDLE, f"nothing was asked of it for {idle:.0f} s")

    def _measure(self, live: list[Sandbox]) -> _Found:
        found = _Found()
        table = read_table() if self._counts else None
        for sandbox in live:
            self._measure_usage(sandbox, table, found)
            self._measure_disk(sandbox, found)
        self._guard_floor(live, found)
        known = self._sandboxes.keys()
        for gone in self._disks.keys() - known:
            del self._disks[gone]
        return found

    def _measure_usage(self, sandbox: Sandbox, table: Table | None, found: _Found) -> None:
        if table is None:
            over = sandbox.glance()
        else:
            limit = sandbox.limits.memory_bytes
            usage = table.usage(sandbox.roots(), limit)
            sandbox.processes = usage.processes
            over = usage.memory_bytes > limit
        if over:
            found.out_of_memory.append(sandbox)

    def _measure_disk(self, sandbox: Sandbox, found: _Found) -> None:
        disk = self._disks.setdefault(sandbox.id, _Disk())
        now = time.monotonic()
        # What does nothing writes nothing; uploads are counted as they come.
        if now < disk.due or not (sandbox.active or disk.due == 0.0):
            return
        used, limit = self._use(sandbox), sandbox.limits.disk_bytes
        disk.due = time.monotonic() + max(_DISK_SECONDS, _DISK_SHARE * (time.monotonic() - now))
        if used > limit:
            why = f"its files took {used >> 20} MiB, more than the {limit >> 20} MiB it was given"
            found.disk_full.append((sandbox, why))

    def _use(self, sandbox: Sandbox) -> int:
        try:
            sandbox.disk_bytes = disk_usage(
                sandbox.state.folder / "root", sandbox.limits.disk_bytes
            )
        except FileNotFoundError:
            return 0  # It is being removed.
        return sandbox.disk_bytes

    def _guard_floor(self, live: list[Sandbox], found: _Found) -> None:
        space = os.statvfs(self._folder)
        free = space.f_bavail * space.f_frsize
        if free >= self._free_bytes or found.disk_full:
            return
        largest = max(live, key=self._use)
        why = (
            f"the machine's disk had only {free >> 20} MiB left, and its files were the largest "
            f"({largest.disk_bytes >> 20} MiB)"
        )
        found.disk_full.append((largest, why))
