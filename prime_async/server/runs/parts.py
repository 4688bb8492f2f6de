"""Everything about runs that lives as long as the server does."""

from __future__ import annotations

from dataclasses import dataclass

from prime_async.server.clock import Clock
from prime_async.server.config import ServerConfig
from prime_async.server.leases import Leases
from prime_async.server.runs.leases import RunLeases
from prime_async.server.runs.objects import SampleObjects
from prime_async.server.store.database import Database

__all__ = ["Runs"]


@dataclass(slots=True)
class Runs:
    """The parts, as handlers see them."""

    leases: RunLeases
    objects: SampleObjects

    @classmethod
    def make(cls, config: ServerConfig, database: Database, clock: Clock, leases: Leases) -> Runs:
        """Put the parts together; nothing is opened yet."""
        return cls(RunLeases(leases, database, clock), SampleObjects(config, database, clock))

    async def open(self) -> None:
        """Take over what an earlier server left; before leases are looked after again."""
        await self.leases.open()
        await self.objects.open()
