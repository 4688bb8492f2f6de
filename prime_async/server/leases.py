"""Leases: a right with an owner, an end, and something that is done when nobody renews it.

A lease lives in the store, so it ends on time whether or not the server ran in between. Once it has
ended, its owner has lost it for good, and its subject is free again after the action succeeded: the
action of an old lease never meets a new owner. An action that fails, or that nobody has registered
yet, is tried again with growing pauses.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import msgspec
from sqlalchemy import Connection

from prime_async.errors import PrimeError
from prime_async.server.clock import Clock
from prime_async.server.logs import log_event
from prime_async.server.store import leases as store
from prime_async.server.store.database import Database
from prime_async.server.store.leases import Lease

__all__ = ["Action", "Lease", "LeaseHeldError", "LeaseLostError", "Leases"]

Action = Callable[[Lease], Awaitable[None]]

TICK_SECONDS = 1.0
"""How often :meth:`Leases.run` looks for ended leases."""

ACTION_SECONDS = 60.0
"""How long one action may take."""

_AT_ONCE = 16
_LONGEST_PAUSE = 300.0


class LeaseHeldError(PrimeError):
    """The subject is held by another owner, or its last lease ended and the action is not done."""


class LeaseLostError(PrimeError):
    """The lease ended, or was released: its holder must stop using the subject."""


class Leases:
    """Gives, renews and ends leases.

    Args:
        database: where they are kept.
        clock: what time it is; tests inject their own.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._actions: dict[str, Action] = {}
        self._sweep = anyio.Lock()

    def register(self, name: str, action: Action) -> None:
        """Say what an action's name stands for. It may run more than once for a lease."""
        self._actions[name] = action

    async def acquire(
        self,
        kind: str,
        subject: str,
        owner: str,
        seconds: float,
        action: str,
        payload: Mapping[str, Any] | None = None,
    ) -> Lease:
        """Take the lease on a subject; an owner that already holds it gets it anew, with a new
        token.

        Raises:
            LeaseHeldError: another owner holds it, or its end has not been dealt with.
        """
        encoded = msgspec.json.encode(dict(payload or {}))

        def write(connection: Connection) -> Lease:
            now = self._clock.now()
            held = store.find(connection, kind, subject)
            if held is not None:
                if held.owner != owner or held.expires_at <= now:
                    raise LeaseHeldError(f"{kind} {subject} is held by {held.owner}")
                store.drop(connection, held)
            return store.add(connection, kind, subject, owner, action, encoded, now + seconds)

        return await self._database.write(write)

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """Move the end of a lease to ``seconds`` from now.

        Raises:
            LeaseLostError: it has ended, or somebody took it anew.
        """
        now = self._clock.now()
        expires_at = now + seconds
        if not await self._database.write(
            lambda connection: store.prolong(connection, lease, expires_at, now)
        ):
            raise LeaseLostError(f"the lease on {lease.kind} {lease.subject} has ended")
        return replace(lease, expires_at=expires_at)

    async def release(self, lease: Lease) -> bool:
        """Give a lease back, without its action; say whether it was still there."""
        return await self._database.write(lambda connection: store.drop(connection, lease))

    def get(self, kind: str, subject: str) -> Lease | None:
        """The lease on a subject, ended or not."""
        return self._database.point(lambda reader: store.find(reader, kind, subject))

    async def expire(self) -> int:
        """Run the actions that are due; return how many succeeded."""
        async with self._sweep:
            done = 0
            now = self._clock.now()
            while batch := await self._database.scan(
                lambda reader: store.due(reader, now, _AT_ONCE)
            ):
                results: list[bool] = []
                async with anyio.create_task_group() as group:
                    for lease in batch:
                        group.start_soon(self._end, lease, results)
                done += sum(results)
            return done

    async def run(self) -> None:
        """Run due actions until cancelled."""
        while True:
            await self.expire()
            await self._clock.sleep(TICK_SECONDS)

    async def _end(self, lease: Lease, results: list[bool]) -> None:
        try:
            await self._act(lease)
        except Exception as error:
            pause = min(2.0**lease.failures, _LONGEST_PAUSE)
            log_event(
                logging.ERROR,
                "lease_action_failed",
                kind=lease.kind,
                subject=lease.subject,
                action=lease.action,
                again_in=pause,
                error=error,
            )
            due_at = self._clock.now() + pause
            await self._database.write(partial(store.postpone, lease=lease, due_at=due_at))
            return
        await self._database.write(partial(store.drop, lease=lease))
        results.append(True)

    async def _act(self, lease: Lease) -> None:
        action = self._actions.get(lease.action)
        if action is None:
            raise LookupError(f"nobody has registered the action {lease.action}")
        with anyio.fail_after(ACTION_SECONDS):
            await action(lease)
