"""Leases in the store: statements only; what they mean is in :mod:`prime_async.server.leases`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, update

from prime_async.server.store.schema import leases as table

__all__ = ["Lease", "add", "drop", "due", "find", "of_kind", "postpone", "prolong"]


@dataclass(frozen=True, slots=True)
class Lease:
    """A right that ends by itself.

    Attributes:
        kind, subject: what is held, such as a sandbox and its id; one lease each.
        owner: who holds it.
        token: grows with every new holder of any lease; whoever has an old one has lost it.
        action: name of what is done when it runs out.
        payload: JSON text for the action.
        expires_at: end of the right, in seconds since the epoch.
        failures: how often the action has failed since.
    """

    kind: str
    subject: str
    owner: str
    token: int
    action: str
    payload: bytes
    expires_at: float
    failures: int = 0


_COLUMNS = (
    table.c.kind,
    table.c.subject,
    table.c.owner,
    table.c.token,
    table.c.action,
    table.c.payload,
    table.c.expires_at,
    table.c.failures,
)


def find(connection: Connection, kind: str, subject: str) -> Lease | None:
    """The lease on a subject."""
    query = select(*_COLUMNS).where(table.c.kind == kind, table.c.subject == subject)
    row = connection.execute(query).first()
    return None if row is None else Lease(*row)


def of_kind(connection: Connection, kind: str) -> list[Lease]:
    """All leases of a kind."""
    query = select(*_COLUMNS).where(table.c.kind == kind)
    return [Lease(*row) for row in connection.execute(query)]


def add(
    connection: Connection,
    kind: str,
    subject: str,
    owner: str,
    action: str,
    payload: bytes,
    expires_at: float,
) -> Lease:
    """Insert a lease under the next token."""
    row = {
        "kind": kind,
        "subject": subject,
        "owner": owner,
        "action": action,
        "payload": payload,
        "expires_at": expires_at,
        "due_at": expires_at,
        "failures": 0,
    }
    made = connection.execute(insert(table).values(row).returning(*_COLUMNS))
    return Lease(*made.one())


def prolong(connection: Connection, lease: Lease, expires_at: float, now: float) -> bool:
    """Move the end of a lease that has not ended; say whether it is still the holder's."""
    alive = and_(_same(lease), table.c.expires_at > now)
    change = update(table).where(alive).values(expires_at=expires_at, due_at=expires_at)
    return bool(connection.execute(change).rowcount)


def drop(connection: Connection, lease: Lease) -> bool:
    """Delete a lease; say whether it was still there with the same token."""
    return bool(connection.execute(delete(table).where(_same(lease))).rowcount)


def due(connection: Connection, now: float, limit: int) -> list[Lease]:
    """Leases whose action is due, the longest overdue first."""
    query = select(*_COLUMNS).where(table.c.due_at <= now).order_by(table.c.due_at).limit(limit)
    return [Lease(*row) for row in connection.execute(query)]


def postpone(connection: Connection, lease: Lease, due_at: float) -> None:
    """Count a failure of the action and try it again later; the right itself stays ended."""
    change = update(table).where(_same(lease))
    connection.execute(change.values(due_at=due_at, failures=table.c.failures + 1))


def _same(lease: Lease) -> ColumnElement[bool]:
    return table.c.token == lease.token
