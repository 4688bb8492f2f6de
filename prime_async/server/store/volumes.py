"""Volumes in the store, and which sandboxes mount them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, insert, or_, select, update

from prime_async.sandboxes.models import ENDED_STATUSES
from prime_async.server.store.schema import checkpoints, sandboxes
from prime_async.server.store.schema import volume_mounts as mounts
from prime_async.server.store.schema import volumes as table

__all__ = [
    "StoredMount",
    "add_mounts",
    "change",
    "count",
    "create",
    "find",
    "forget",
    "ids",
    "mount_of",
    "mounted_by",
    "page",
    "rebase",
    "sizes",
    "writers",
]

_ENDED = tuple(sorted(ENDED_STATUSES))


@dataclass(frozen=True, slots=True)
class StoredMount:
    """A volume in a sandbox.

    Attributes:
        base_checkpoint_id: the head of the volume that the sandbox has seen.
    """

    sandbox_id: str
    mount_path: str
    volume_id: str
    read_only: bool
    base_checkpoint_id: str | None


def create(connection: Connection, row: Mapping[str, Any]) -> RowMapping | None:
    """Insert a volume; None when its name is taken."""
    if find(connection, row["scope"], row["name"]) is not None:
        return None
    made = connection.execute(insert(table).values(dict(row)).returning(*table.c))
    return made.mappings().one()


def find(connection: Connection, scope: str, name: str) -> RowMapping | None:
    """A volume by the team or account it belongs to, and its name there."""
    same = (table.c.scope == scope) & (table.c.name == name)
    return connection.execute(select(table).where(same)).mappings().first()


def page(
    connection: Connection, scope: str, skip: int, limit: int
) -> tuple[Sequence[RowMapping], int]:
    """One page of the volumes of a team or account, newest first, and how many there are."""
    mine = table.c.scope == scope
    total = connection.execute(select(func.count()).select_from(table).where(mine)).scalar_one()
    newest = table.c.number.desc()
    query = select(table).where(mine).order_by(newest).offset(skip).limit(limit)
    return connection.execute(query).mappings().all(), total


def ids(connection: Connection) -> set[str]:
    """The ids of all volumes."""
    return set(connection.execute(select(table.c.id)).scalars())


def count(connection: Connection) -> int:
    """How many there are."""
    total: int = connection.execute(select(func.count()).select_from(table)).scalar_one()
    return total


def sizes(connection: Connection, scope: str) -> dict[str, int]:
    """What the newest version takes of each volume that has one, in a team or account."""
    query = (
        select(table.c.id, checkpoints.c.occupied_bytes)
        .join(checkpoints, checkpoints.c.id == table.c.head_checkpoint_id)
        .where(table.c.scope == scope)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def change(connection: Connection, volume_id: str, values: Mapping[str, Any]) -> None:
    """Change columns."""
    connection.execute(update(table).where(table.c.id == volume_id).values(dict(values)))


def forget(connection: Connection, volume_id: str) -> None:
    """Note that nothing of a volume is left."""
    connection.execute(delete(table).where(table.c.id == volume_id))
    connection.execute(delete(mounts).where(mounts.c.volume_id == volume_id))


def add_mounts(connection: Connection, rows: Iterable[StoredMount]) -> None:
    """Note what a sandbox mounts."""
    values = [{name: getattr(row, name) for name in StoredMount.__slots__} for row in rows]
    if values:
        connection.execute(insert(mounts), values)


def mount_of(connection: Connection, sandbox_id: str, volume_id: str) -> StoredMount | None:
    """How a sandbox mounts a volume; where it does so twice, the mount that may be written."""
    same = (mounts.c.sandbox_id == sandbox_id) & (mounts.c.volume_id == volume_id)
    row = connection.execute(select(mounts).where(same).order_by(mounts.c.read_only)).first()
    return None if row is None else StoredMount(*row)


def mounted_by(connection: Connection, volume_id: str, *, writable: bool = False) -> list[str]:
    """The sandboxes that mount a volume and of which something may be left."""
    live = or_(sandboxes.c.status.not_in(_ENDED), sandboxes.c.runtime.is_not(None))
    query = (
        select(mounts.c.sandbox_id)
        .join(sandboxes, sandboxes.c.id == mounts.c.sandbox_id)
        .where((mounts.c.volume_id == volume_id) & live)
    )
    if writable:
        query = query.where(~mounts.c.read_only)
    return list(dict.fromkeys(connection.execute(query).scalars()))


def writers(connection: Connection) -> dict[tuple[str, str], list[str]]:
    """The running sandboxes that may write to a volume, by its team or account and its id."""
    running = ~mounts.c.read_only & (sandboxes.c.status == "RUNNING")
    query = (
        select(table.c.scope, table.c.id, mounts.c.sandbox_id)
        .join(mounts, mounts.c.volume_id == table.c.id)
        .join(sandboxes, sandboxes.c.id == mounts.c.sandbox_id)
        .where(running)
    )
    found: dict[tuple[str, str], list[str]] = {}
    for scope, volume_id, sandbox_id in connection.execute(query):
        found.setdefault((scope, volume_id), []).append(sandbox_id)
    return found


def rebase(connection: Connection, sandbox_id: str, volume_id: str, checkpoint_id: str) -> None:
    """Note that a sandbox has seen this version of a volume."""
    same = (mounts.c.sandbox_id == sandbox_id) & (mounts.c.volume_id == volume_id)
    connection.execute(update(mounts).where(same).values(base_checkpoint_id=checkpoint_id))
