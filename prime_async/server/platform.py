"""The parts of a running platform, as handlers see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
from aiohttp import web

from prime_async.server.auth import Keys
from prime_async.server.budget import ByteBudget
from prime_async.server.clock import Clock, SystemClock
from prime_async.server.config import ServerConfig
from prime_async.server.identifiers import new_id
from prime_async.server.metrics import Metrics
from prime_async.server.otlp.turns import Turns
from prime_async.server.rates import Rate
from prime_async.server.runs.parts import Runs
from prime_async.server.sandboxes.host import MakeRuntime
from prime_async.server.sandboxes.parts import Sandboxes
from prime_async.server.store.database import Database
from prime_async.server.store.pages import Directories
from prime_async.server.traces.service import Traces

__all__ = ["PLATFORM", "InFlight", "Platform"]


WORK_THREADS = 4
"""Pieces of CPU work (decoding, inflating, hashing) at the same time."""

Result = TypeVar("Result")


class InFlight:
    """Counts the requests that are being handled, so that an end can wait for them."""

    def __init__(self) -> None:
        self.closing = False
        self._count = 0
        self._none = anyio.Event()

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if self.closing and not self._count:
            self._none.set()

    async def drain(self, seconds: float) -> int:
        """Take no more requests and wait for those in flight; return how many did not end."""
        self.closing = True
        if self._count:
            with anyio.move_on_after(seconds):
                await self._none.wait()
        return self._count


@dataclass(slots=True)
class Platform:
    """Everything that lives as long as the server does."""

    config: ServerConfig
    database: Database
    keys: Keys
    bodies: ByteBudget
    metrics: Metrics
    sandboxes: Sandboxes
    traces: Traces
    runs: Runs
    ingest: Rate
    clock: Clock = field(default_factory=SystemClock)
    directories: Directories = field(default_factory=Directories)
    span_turns: Turns = field(default_factory=Turns)
    threads: anyio.CapacityLimiter = field(
        default_factory=lambda: anyio.CapacityLimiter(WORK_THREADS)
    )
    in_flight: InFlight = field(default_factory=InFlight)
    instance: str = field(default_factory=new_id)

    async def in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do work that takes CPU beside the loop; a few pieces at a time, the rest waits."""
        return await anyio.to_thread.run_sync(work, *arguments, limiter=self.threads)

    @classmethod
    def make(
        cls,
        config: ServerConfig,
        clock: Clock | None = None,
        runtime: MakeRuntime | None = None,
    ) -> Platform:
        """Put the parts together; nothing is opened yet."""
        clock = clock or SystemClock()
        limits = config.limits
        database = Database(
            config.database, queued_writes=limits.queued_writes, max_bytes=limits.database_bytes
        )
        bodies = ByteBudget(limits.bodies_in_memory_bytes)
        metrics = Metrics(database.writer, bodies)
        sandboxes = Sandboxes.make(config, database, clock, metrics, runtime)
        runs = Runs.make(config, database, clock, sandboxes.leases)
        traces = Traces(config, database)
        keys = Keys(database, clock)
        ingest = Rate(limits.ingest_per_second, clock)
        return cls(config, database, keys, bodies, metrics, sandboxes, traces, runs, ingest, clock)


PLATFORM: web.AppKey[Platform] = web.AppKey("platform", Platform)
