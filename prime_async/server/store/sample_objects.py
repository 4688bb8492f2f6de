"""Files of samples in the store: promised, whole once received, listed once confirmed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, insert, select, tuple_, update

from prime_async.server.store.schema import sample_objects as table
from prime_async.server.store.schema import training_runs

__all__ = [
    "Place",
    "StoredObject",
    "add",
    "change",
    "drop",
    "find",
    "known",
    "of_token",
    "page",
    "stale",
    "take_back",
    "take_back_leftovers",
]


class StoredObject(NamedTuple):
    """One row; ``sha256`` and ``format`` are None until the file is whole."""

    number: int
    key: str
    run: int
    step: int
    format: str | None
    size: int
    sha256: bytes | None
    expires_at: float | None
    confirmed: bool
    created_at: float


class Place(NamedTuple):
    """Behind which object a page begins."""

    step: int
    number: int


_COLUMNS = tuple(table.c[name] for name in StoredObject._fields)


def add(connection: Connection, row: Mapping[str, Any]) -> None:
    """Insert an object."""
    connection.execute(insert(table).values(dict(row)))


def change(connection: Connection, key: str, values: Mapping[str, Any]) -> None:
    """Change columns of an object."""
    connection.execute(update(table).where(table.c.key == key).values(dict(values)))


def drop(connection: Connection, key: str) -> None:
    """Forget an object."""
    connection.execute(delete(table).where(table.c.key == key))


def find(connection: Connection, run: int, key: str) -> StoredObject | None:
    """An object of a run by its name."""
    return _first(connection, (table.c.key == key) & (table.c.run == run))


def of_token(connection: Connection, token: bytes) -> StoredObject | None:
    """The object that the holder of a token may upload."""
    return _first(connection, table.c.token == token)


def known(connection: Connection, run: int, step: int, sha256: bytes) -> StoredObject | None:
    """A confirmed object of a step with these contents."""
    here = (table.c.run == run) & (table.c.step == step) & (table.c.sha256 == sha256)
    return _first(connection, here & table.c.confirmed)


def _first(connection: Connection, where: Any) -> StoredObject | None:
    row = connection.execute(select(*_COLUMNS).where(where)).first()
    return None if row is None else StoredObject(*row)


def page(
    connection: Connection, run: int, step: int | None, after: Place | None, limit: int
) -> Sequence[StoredObject]:
    """Confirmed objects by step and arrival; one more than ``limit`` when there is a next page."""
    query = select(*_COLUMNS).where(table.c.run == run, table.c.confirmed)
    if step is not None:
        query = query.where(table.c.step == step)
    if after is not None:
        query = query.where(tuple_(table.c.step, table.c.number) > tuple_(*after))
    query = query.order_by(table.c.step, table.c.number).limit(limit + 1)
    return [StoredObject(*row) for row in connection.execute(query)]


def stale(connection: Connection, now: float, limit: int) -> Sequence[StoredObject]:
    """Objects that were promised and never confirmed in time, and those that were taken back."""
    over = table.c.confirmed.is_(False) & (table.c.expires_at <= now)
    query = select(*_COLUMNS).where(over).limit(limit)
    return [StoredObject(*row) for row in connection.execute(query)]


def take_back(connection: Connection, run: int) -> None:
    """Make the objects of a run stale: it is being deleted."""
    values = {"confirmed": False, "expires_at": 0.0}
    connection.execute(update(table).where(table.c.run == run).values(values))


def take_back_leftovers(connection: Connection) -> None:
    """The same for objects of runs that are gone."""
    gone = table.c.run.not_in(select(training_runs.c.number))
    connection.execute(update(table).where(gone).values({"confirmed": False, "expires_at": 0.0}))
