"""Idempotency keys: the first answer is stored in the transaction of its data, then replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from prime_async.server.answers import Answer
from prime_async.server.failures import RequestError
from prime_async.server.store.schema import idempotency_keys as table

__all__ = ["IdempotencyKey", "once"]

_SWEEP = 16
"""Expired keys dropped with each new one: more than are added, so the table cannot grow on."""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A key within its scope (account and team), and the digest of the request that carries it."""

    scope: str
    key: str
    fingerprint: bytes
    now: float
    expires_at: float


def once(
    connection: Connection, key: IdempotencyKey, action: Callable[[Connection], Answer]
) -> Answer:
    """Run an action, or replay the answer of the request that carried this key before.

    Raises:
        RequestError: 409 ``idempotency_conflict``: the key was used for another request.
    """
    here = (table.c.scope == key.scope) & (table.c.key == key.key)
    connection.execute(delete(table).where(here & (table.c.expires_at <= key.now)))
    _sweep(connection, key.now)
    columns = table.c.fingerprint, table.c.status, table.c.body
    row = connection.execute(select(*columns).where(here)).first()
    if row is None:
        first = action(connection)
        _keep(connection, key, first)
        return first
    if row.fingerprint != key.fingerprint:
        raise RequestError(
            409, "idempotency_conflict", "this Idempotency-Key was used for a different request"
        )
    return Answer(row.status, row.body, replayed=True)


def _keep(connection: Connection, key: IdempotencyKey, first: Answer) -> None:
    row = {
        "scope": key.scope,
        "key": key.key,
        "fingerprint": key.fingerprint,
        "status": first.status,
        "body": first.body,
        "expires_at": key.expires_at,
    }
    connection.execute(insert(table).values(row))


def _sweep(connection: Connection, now: float) -> None:
    expired = select(table.c.scope, table.c.key).where(table.c.expires_at <= now).limit(_SWEEP)
    for scope, key in connection.execute(expired).all():
        connection.execute(delete(table).where((table.c.scope == scope) & (table.c.key == key)))
