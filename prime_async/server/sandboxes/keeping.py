"""What ends sandboxes by time: their own limits, the silence of their users, a client that is gone.

Each is a lease in the store, so it is kept over restarts. Time in which the platform did not run
counts for a sandbox's life time, but not as its client's or its users' silence. A command that
runs and a connection to an exposed port count as use, and so does a background job, which no client
may be watching.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection, RowMapping

from prime_async.errors import PrimeError
from prime_async.server.clock import Clock
from prime_async.server.failures import RequestError
from prime_async.server.leases import Lease, LeaseLostError, Leases
from prime_async.server.logs import log_event
from prime_async.server.sandboxes.endings import End
from prime_async.server.sandboxes.fleet import Fleet, Live
from prime_async.server.sandboxes.jobs import Jobs
from prime_async.server.store import leases as store
from prime_async.server.store.database import Database

__all__ = ["GRACE_SECONDS", "Keeping", "add_leases"]

GRACE_SECONDS = 60.0
"""What a client's lease has left, at least, after the platform started again."""

TICK_SECONDS = 15.0
"""How often the use of sandboxes is written down; an idle one ends at most so much later."""

_CLIENT, _IDLE, _TIME = "sandbox-client", "sandbox-idle", "sandbox-time"

_ENDS = {
    _TIME: End("TIMEOUT", "TIMEOUT", "TIMEOUT", "its time (timeout_minutes) is over"),
    _IDLE: End(
        "TIMEOUT", "IDLE_TIMEOUT", "TIMEOUT", "nothing was asked of it for idle_timeout_minutes"
    ),
    _CLIENT: End(
        "TERMINATED", "ABANDONED", None, "its client did not renew its lease, so it is gone"
    ),
}


def add_leases(
    connection: Connection,
    row: RowMapping,
    now: float,
    *,
    minutes: int,
    idle_minutes: int | None,
    client_seconds: float | None,
) -> None:
    """Give a new sandbox its leases, in the transaction that makes it."""
    wanted = {
        _TIME: minutes * 60.0 or None,
        _IDLE: None if idle_minutes is None else idle_minutes * 60.0 + TICK_SECONDS,
        _CLIENT: client_seconds,
    }
    for kind, seconds in wanted.items():
        if seconds is not None:
            store.add(connection, kind, row["id"], row["account_id"], kind, b"{}", now + seconds)


class Keeping:
    """Renews and ends the leases of sandboxes."""

    def __init__(
        self, fleet: Fleet, leases: Leases, jobs: Jobs, database: Database, clock: Clock
    ) -> None:
        self._fleet = fleet
        self._leases = leases
        self._jobs = jobs
        self._database = database
        self._clock = clock
        for kind, end in _ENDS.items():
            leases.register(kind, partial(self._end, end))

    async def open(self) -> None:
        """Forgive the silence of the time in which nobody could be heard."""
        for sandbox_id, live in self._fleet.live.items():
            await self._extend(_CLIENT, sandbox_id, GRACE_SECONDS)
            if live.idle_seconds is not None:
                await self._extend(_IDLE, sandbox_id, live.idle_seconds + TICK_SECONDS)

    async def renew(self, sandbox_id: str, owner: str, seconds: float) -> float:
        """Renew a client's lease, or give it one; return when it ends.

        Raises:
            LeaseHeldError: it has ended already.
        """
        lease = await self._leases.acquire(_CLIENT, sandbox_id, owner, seconds, _CLIENT)
        return lease.expires_at

    async def release(self, sandbox_id: str) -> bool:
        """Let a sandbox live without its client; say whether it had a lease."""
        lease = self._leases.get(_CLIENT, sandbox_id)
        return lease is not None and await self._leases.release(lease)

    async def run(self) -> None:
        """Note the use of sandboxes, until cancelled."""
        while True:
            await self._clock.sleep(TICK_SECONDS)
            try:
                await self._note_use()
            except (RequestError, PrimeError) as error:
                log_event(logging.WARNING, "use_not_noted", error=error)

    async def _note_use(self) -> None:
        watched = [live for live in self._fleet.live.values() if live.idle_seconds is not None]
        working = await self._jobs.any_runs(live.running for live in watched if not live.busy)
        now = self._clock.now()
        for live in watched:
            if live.running.id in working:
                live.used_at = now
            lease = self._leases.get(_IDLE, live.running.id)
            if lease is not None and _used_lately(live, now):
                assert live.idle_seconds is not None
                seconds = live.idle_seconds + TICK_SECONDS
                await self._renew(lease, seconds if live.busy else seconds - (now - live.used_at))

    async def _renew(self, lease: Lease, seconds: float) -> None:
        try:
            await self._leases.renew(lease, seconds)
        except LeaseLostError:
            # It ends right now: the action is on its way.
            log_event(logging.DEBUG, "idle_lease_lost", sandbox=lease.subject)

    async def _extend(self, kind: str, sandbox_id: str, seconds: float) -> None:
        """Give a lease at least so much time, whether or not it has ended."""
        write: Callable[[Connection], None] = partial(
            _extend, kind=kind, sandbox_id=sandbox_id, expires_at=self._clock.now() + seconds
        )
        await self._database.write(write)

    async def _end(self, end: End, lease: Lease) -> None:
        await self._fleet.end(lease.subject, end)


def _used_lately(live: Live, now: float) -> bool:
    return live.busy or now - live.used_at <= 2 * TICK_SECONDS


def _extend(connection: Connection, kind: str, sandbox_id: str, expires_at: float) -> None:
    lease = store.find(connection, kind, sandbox_id)
    if lease is None or lease.expires_at >= expires_at:
        return
    store.drop(connection, lease)
    store.add(connection, kind, sandbox_id, lease.owner, lease.action, lease.payload, expires_at)
