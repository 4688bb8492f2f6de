"""Everything about sandboxes that lives as long as the server does."""

from __future__ import annotations

import logging
import socket
from dataclasses import dataclass

from aiohttp import web
from anyio import to_thread

from prime_async.errors import PrimeError
from prime_async.server.auth import ensure_key
from prime_async.server.clock import Clock
from prime_async.server.config import ServerConfig
from prime_async.server.failures import RequestError
from prime_async.server.leases import TICK_SECONDS, Leases
from prime_async.server.logs import log_event
from prime_async.server.metrics import Metrics
from prime_async.server.sandboxes.checkpoints import Checkpoints
from prime_async.server.sandboxes.choices import Choices, read_choices
from prime_async.server.sandboxes.exposures import Exposures
from prime_async.server.sandboxes.fleet import Fleet
from prime_async.server.sandboxes.host import MakeRuntime, RuntimeHost
from prime_async.server.sandboxes.images import Catalogue
from prime_async.server.sandboxes.jobs import Jobs
from prime_async.server.sandboxes.keeping import Keeping
from prime_async.server.sandboxes.tokens import Tokens
from prime_async.server.sandboxes.transfers import Transfers
from prime_async.server.sandboxes.volumes import Volumes
from prime_async.server.store.database import Database
from prime_async.server.tasks import Tasks

__all__ = ["Sandboxes"]


@dataclass(slots=True)
class Sandboxes:
    """The parts, as handlers see them.

    Attributes:
        url: where this server answers over TCP; set once it listens.
    """

    config: ServerConfig
    clock: Clock
    leases: Leases
    tasks: Tasks
    runtime_tasks: Tasks
    fleet: Fleet
    jobs: Jobs
    keeping: Keeping
    checkpoints: Checkpoints
    volumes: Volumes
    exposures: Exposures
    transfers: Transfers
    catalogue: Catalogue
    choices: Choices
    tokens: Tokens
    url: str = ""

    @classmethod
    def make(
        cls,
        config: ServerConfig,
        database: Database,
        clock: Clock,
        metrics: Metrics,
        runtime: MakeRuntime | None = None,
    ) -> Sandboxes:
        """Put the parts together; nothing is opened yet."""
        leases = Leases(database, clock)
        # Of their own: the runtime is left when nothing that uses it runs any more.
        tasks, runtime_tasks = Tasks(), Tasks()
        choices = Choices(config.sandbox_network, config.sandbox_runtime)
        host = RuntimeHost(runtime, runtime_tasks)
        fleet = Fleet(config, database, clock, tasks, metrics, host)
        jobs = Jobs()
        return cls(
            config,
            clock,
            leases,
            tasks,
            runtime_tasks,
            fleet,
            jobs,
            Keeping(fleet, leases, jobs, database, clock),
            Checkpoints(config, fleet, database, clock, tasks),
            Volumes(config, fleet, database, clock),
            Exposures(fleet, database, tasks),
            Transfers(fleet, database, clock),
            Catalogue(),
            choices,
            Tokens("", clock, config.limits.gateway_token_seconds),
        )

    async def open(self) -> None:
        """Take over what an earlier server left, and begin to watch.

        Raises:
            ConfigError, LocalPlatformError: the user's choices or the gateway's key are unusable.
        """
        self.choices = await to_thread.run_sync(read_choices, self.config)
        self.catalogue = Catalogue(self.choices.images)
        self.fleet.host.choose(self.config.sandboxes_dir, self.choices.runtime)
        key = await to_thread.run_sync(ensure_key, self.config.gateway_key_file)
        self.tokens = Tokens(key, self.clock, self.config.limits.gateway_token_seconds)
        await self.runtime_tasks.open()
        await self.tasks.open()
        await self.fleet.open()
        await self.keeping.open()
        await self.checkpoints.open()
        await self.volumes.open()
        await self.exposures.open(key)
        await self.transfers.open()
        for work in (
            self._end_leases,
            self.keeping.run,
            self.transfers.run,
            self.volumes.run,
        ):
            self.tasks.start(work)

    async def close(self) -> None:
        """Let go; sandboxes go on without this server."""
        await self.tasks.close()
        await self.fleet.leave()
        await self.runtime_tasks.close()

    def address(self, request: web.Request) -> str:
        """How who sent a request reaches this server: as he did, or, over the socket, by TCP."""
        transport = request.transport
        own = None if transport is None else transport.get_extra_info("socket")
        if own is None or own.family not in (socket.AF_INET, socket.AF_INET6):
            return self.url
        return f"http://{request.host}"

    async def _end_leases(self) -> None:
        while True:
            try:
                await self.leases.expire()
            except (RequestError, PrimeError) as error:
                log_event(logging.ERROR, "leases_not_ended", error=error)
            await self.clock.sleep(TICK_SECONDS)
