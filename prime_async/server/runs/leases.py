"""Notices runs whose client fell silent without a word: killed, out of memory, unplugged.

A client that wants it asks for a lease when it creates a run and renews it. When it does not, the
run is marked failed. That is a guess, so it is taken back when the client turns up again, after a
night of its laptop's sleep for example: renewing opens the run once more, and finishing it counts.
Time in which the platform did not run is nobody's silence.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection

from prime_async.runs.wire import RunKind
from prime_async.server.clock import Clock
from prime_async.server.leases import Lease, Leases
from prime_async.server.store import leases as store
from prime_async.server.store import runs
from prime_async.server.store.database import Database
from prime_async.server.store.runs import Lapse, Subject

__all__ = ["RunLeases", "begin_lease", "end_lease"]

_KINDS: dict[RunKind, str] = {"eval": "run-eval", "train": "run-train"}
_ACTION = "run-lapsed"


class _Terms(msgspec.Struct):
    seconds: float


class Grant(NamedTuple):
    """What a lease is for."""

    kind: RunKind
    run_id: str
    owner: str
    seconds: float


def begin_lease(connection: Connection, grant: Grant, now: float) -> float:
    """Give a run a lease in place of the one it has; return when it ends."""
    end_lease(connection, grant.kind, grant.run_id)
    ends = now + grant.seconds
    terms = msgspec.json.encode(_Terms(grant.seconds))
    store.add(connection, _KINDS[grant.kind], grant.run_id, grant.owner, _ACTION, terms, ends)
    return ends


def end_lease(connection: Connection, kind: RunKind, run_id: str) -> None:
    """Take the lease of a run away, without a word about the run."""
    held = store.find(connection, _KINDS[kind], run_id)
    if held is not None:
        store.drop(connection, held)


class RunLeases:
    """Renews the leases of runs and ends the runs of those that are over."""

    def __init__(self, leases: Leases, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        leases.register(_ACTION, self._lapse)

    async def open(self) -> None:
        """Give every lease its whole time again: nobody could renew while nobody listened."""
        now = self._clock.now()
        await self._database.write(lambda connection: _forgive(connection, now))

    async def renew(self, run: Subject, grant: Grant) -> float | None:
        """Renew the lease of a run, or begin one; open a run again that was closed for silence.

        Returns:
            When it ends, or None when its client closed the run.
        """
        now = self._clock.now()

        def write(connection: Connection) -> float | None:
            status = runs.revive(connection, run.kind, run.number, now)
            return begin_lease(connection, grant, now) if status in runs.OPEN else None

        return await self._database.write(write)

    async def _lapse(self, lease: Lease) -> None:
        now = self._clock.now()
        await self._database.write(partial(_lapse, lease=lease, now=now))


def _lapse(connection: Connection, lease: Lease, now: float) -> None:
    held = store.find(connection, lease.kind, lease.subject)
    if held is None or held.token != lease.token:
        # Renewed, or the run was closed, after this lease was found to be over.
        return
    kind = next(kind for kind, name in _KINDS.items() if name == lease.kind)
    seconds = msgspec.json.decode(lease.payload, type=_Terms).seconds
    message = f"crashed: no sign of life for {seconds:g} s"
    runs.lapse(connection, Lapse(kind, lease.subject, message, now))


def _forgive(connection: Connection, now: float) -> None:
    for name in _KINDS.values():
        for lease in store.of_kind(connection, name):
            seconds = msgspec.json.decode(lease.payload, type=_Terms).seconds
            store.drop(connection, lease)
            store.add(
                connection, name, lease.subject, lease.owner, _ACTION, lease.payload, now + seconds
            )
