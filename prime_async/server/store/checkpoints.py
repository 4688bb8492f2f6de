"""Checkpoints in the store. What an account may see is decided here, in the query itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update

from prime_async.sandboxes.models import ENDED_STATUSES
from prime_async.server.auth import Caller
from prime_async.server.store.schema import checkpoints as table
from prime_async.server.store.schema import sandboxes, volumes

__all__ = [
    "change",
    "count",
    "create",
    "durable_ids",
    "find",
    "find_any",
    "find_many",
    "forget",
    "is_head",
    "is_tip",
    "of_sandbox",
    "of_volume",
    "pending_of",
    "stored_bytes",
    "unfinished",
]

_ENDED = tuple(sorted(ENDED_STATUSES))


def create(connection: Connection, row: Mapping[str, Any]) -> RowMapping:
    """Insert a checkpoint."""
    made = connection.execute(insert(table).values(dict(row)).returning(*table.c))
    return made.mappings().one()


def find(connection: Connection, checkpoint_id: str, caller: Caller) -> RowMapping | None:
    """A checkpoint of the caller or one of his teams."""
    return find_many(connection, [checkpoint_id], caller).get(checkpoint_id)


def find_any(connection: Connection, checkpoint_id: str) -> RowMapping | None:
    """A checkpoint, whoever owns it."""
    return connection.execute(select(table).where(table.c.id == checkpoint_id)).mappings().first()


def find_many(connection: Connection, ids: Iterable[str], caller: Caller) -> dict[str, RowMapping]:
    """Those of some checkpoints that are the caller's or one of his teams', by id."""
    rows = connection.execute(select(table).where(table.c.id.in_(list(ids)))).mappings()
    return {row["id"]: row for row in rows if _is_of(row, caller)}


def _is_of(row: RowMapping, caller: Caller) -> bool:
    team = row["team_id"]
    return row["account_id"] == caller.account.id if team is None else team in caller.teams


def of_sandbox(connection: Connection, sandbox_id: str) -> Sequence[RowMapping]:
    """The checkpoints of a sandbox's own files, the oldest first."""
    own = (table.c.sandbox_id == sandbox_id) & table.c.volume_id.is_(None)
    query = select(table).where(own).order_by(table.c.number)
    return connection.execute(query).mappings().all()


def of_volume(connection: Connection, volume_id: str) -> Sequence[RowMapping]:
    """The versions of a volume, the oldest first."""
    query = select(table).where(table.c.volume_id == volume_id).order_by(table.c.number)
    return connection.execute(query).mappings().all()


def pending_of(connection: Connection, sandbox_id: str, volume_id: str | None) -> bool:
    """Whether a checkpoint of a sandbox, or of a volume, is being made."""
    own = (table.c.sandbox_id == sandbox_id) & table.c.volume_id.is_(None)
    same = own if volume_id is None else table.c.volume_id == volume_id
    query = select(table.c.number).where(same & (table.c.state == "PENDING")).limit(1)
    return connection.execute(query).first() is not None


def is_tip(connection: Connection, checkpoint_id: str) -> bool:
    """Whether a sandbox that has not ended goes on from it."""
    used = (sandboxes.c.checkpoint_id == checkpoint_id) & sandboxes.c.status.not_in(_ENDED)
    return connection.execute(select(sandboxes.c.number).where(used).limit(1)).first() is not None


def is_head(connection: Connection, checkpoint_id: str) -> bool:
    """Whether it is the newest version of a volume."""
    same = volumes.c.head_checkpoint_id == checkpoint_id
    return connection.execute(select(volumes.c.number).where(same).limit(1)).first() is not None


def count(connection: Connection) -> int:
    """How many there are."""
    total: int = connection.execute(select(func.count()).select_from(table)).scalar_one()
    return total


def durable_ids(connection: Connection) -> set[str]:
    """The ids of those that are whole."""
    return set(connection.execute(select(table.c.id).where(table.c.state == "DURABLE")).scalars())


def unfinished(connection: Connection) -> Sequence[RowMapping]:
    """Checkpoints that are being made, or being deleted."""
    query = select(table).where(table.c.state.in_(("PENDING", "DELETING")))
    return connection.execute(query).mappings().all()


def stored_bytes(connection: Connection) -> int:
    """What all checkpoints take."""
    query = select(func.coalesce(func.sum(table.c.stored_bytes), 0))
    total: int = connection.execute(query).scalar_one()
    return total


def change(connection: Connection, checkpoint_id: str, values: Mapping[str, Any]) -> None:
    """Change columns."""
    connection.execute(update(table).where(table.c.id == checkpoint_id).values(dict(values)))


def forget(connection: Connection, checkpoint_id: str) -> None:
    """Note that nothing of a checkpoint is left."""
    connection.execute(delete(table).where(table.c.id == checkpoint_id))
