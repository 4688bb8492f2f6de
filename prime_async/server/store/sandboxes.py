"""Sandboxes in the store. What an account may see is decided here, in the query itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from prime_async.sandboxes.models import ENDED_STATUSES
from prime_async.server.auth import Caller
from prime_async.server.store.schema import exposures, leases
from prime_async.server.store.schema import sandbox_labels as labels
from prime_async.server.store.schema import sandbox_uploads as uploads
from prime_async.server.store.schema import sandboxes as table
from prime_async.server.store.schema import volume_mounts as mounts

__all__ = [
    "Filter",
    "LEASE_KINDS",
    "StoredUpload",
    "active",
    "by_key",
    "change",
    "count_active",
    "create",
    "drop_upload",
    "find",
    "find_any",
    "find_many",
    "find_upload",
    "forget",
    "leftovers",
    "page",
    "put_upload",
    "replace_policy",
    "stale_uploads",
    "wanted_ids",
]

LEASE_KINDS = ("sandbox-client", "sandbox-idle", "sandbox-time")
"""The leases a sandbox may have: its client's, and those that end it after some time."""

_ENDED = tuple(sorted(ENDED_STATUSES))
_BY_ID = select(table).where(table.c.id == bindparam("id"))
_BY_IDS = select(table).where(table.c.id.in_(bindparam("ids", expanding=True)))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which sandboxes a list asks for; a sandbox must have all the labels."""

    team_id: str | None = None
    user_id: str | None = None
    status: str | None = None
    active: bool | None = None
    labels: Sequence[str] = ()


def create(connection: Connection, row: Mapping[str, Any], tags: Sequence[str]) -> RowMapping:
    """Insert a sandbox and its labels."""
    made = connection.execute(insert(table).values(dict(row)).returning(*table.c))
    stored = made.mappings().one()
    rows = [{"sandbox": stored["number"], "label": label} for label in dict.fromkeys(tags)]
    if rows:
        connection.execute(insert(labels), rows)
    return stored


def by_key(connection: Connection, account_id: str, key: str) -> RowMapping | None:
    """The sandbox that a request with this key has made."""
    same = (table.c.account_id == account_id) & (table.c.request_key == key)
    return connection.execute(select(table).where(same)).mappings().first()


def find(connection: Connection, sandbox_id: str, caller: Caller) -> RowMapping | None:
    """A sandbox of the caller or one of his teams."""
    row = find_any(connection, sandbox_id)
    return row if row is not None and _is_of(row, caller) else None


def find_many(connection: Connection, ids: Iterable[str], caller: Caller) -> dict[str, RowMapping]:
    """Those of some sandboxes that are the caller's or one of his teams', by id."""
    rows = connection.execute(_BY_IDS, {"ids": list(ids)}).mappings()
    return {row["id"]: row for row in rows if _is_of(row, caller)}


def _is_of(row: RowMapping, caller: Caller) -> bool:
    team = row["team_id"]
    return row["account_id"] == caller.account.id if team is None else team in caller.teams


def find_any(connection: Connection, sandbox_id: str) -> RowMapping | None:
    """A sandbox, whoever owns it."""
    return connection.execute(_BY_ID, {"id": sandbox_id}).mappings().first()


def change(
    connection: Connection,
    sandbox_id: str,
    values: Mapping[str, Any],
    *,
    unless: Sequence[str] = (),
) -> bool:
    """Change columns, unless the sandbox has one of these statuses; say whether it was done."""
    here = and_(table.c.id == sandbox_id, table.c.status.not_in(list(unless)))
    return bool(connection.execute(update(table).where(here).values(dict(values))).rowcount)


def replace_policy(connection: Connection, sandbox_id: str, policy: bytes) -> bool:
    """Store another policy under a new generation, unless the sandbox has ended; say so."""
    here = and_(table.c.id == sandbox_id, table.c.status.not_in(_ENDED))
    values = {"policy": policy, "generation": table.c.generation + 1}
    return bool(connection.execute(update(table).where(here).values(values)).rowcount)


def page(
    connection: Connection, caller: Caller, wanted: Filter, skip: int, limit: int
) -> tuple[Sequence[RowMapping], int]:
    """One page of sandboxes, newest first, and how many there are."""
    where = _where(caller, wanted)
    total = connection.execute(select(func.count()).select_from(table).where(where)).scalar_one()
    newest = table.c.number.desc()
    query = select(table).where(where).order_by(newest).offset(skip).limit(limit)
    return connection.execute(query).mappings().all(), total


def wanted_ids(connection: Connection, caller: Caller, wanted: Filter, limit: int) -> list[str]:
    """The ids of the sandboxes a bulk delete means."""
    query = select(table.c.id).where(_where(caller, wanted)).order_by(table.c.number).limit(limit)
    return list(connection.execute(query).scalars())


def active(connection: Connection) -> Sequence[RowMapping]:
    """Every sandbox that has not ended, the oldest first."""
    query = select(table).where(table.c.status.not_in(_ENDED)).order_by(table.c.number)
    return connection.execute(query).mappings().all()


def leftovers(connection: Connection) -> Sequence[RowMapping]:
    """Sandboxes that have ended, but of which something may be left on this machine."""
    ended = and_(table.c.status.in_(_ENDED), table.c.runtime.is_not(None))
    return connection.execute(select(table).where(ended)).mappings().all()


def count_active(connection: Connection) -> int:
    """How many have not ended."""
    query = select(func.count()).select_from(table).where(table.c.status.not_in(_ENDED))
    count: int = connection.execute(query).scalar_one()
    return count


@dataclass(frozen=True, slots=True)
class StoredUpload:
    """An upload on its way; one that is not resumable is worth nothing without its request."""

    upload_id: str
    sandbox_id: str
    path: bytes
    resumable: bool
    updated_at: float


def put_upload(connection: Connection, upload: StoredUpload) -> None:
    """Note an upload that begins or goes on."""
    drop_upload(connection, upload.upload_id)
    row = {name: getattr(upload, name) for name in StoredUpload.__slots__}
    connection.execute(insert(uploads).values(row))


def drop_upload(connection: Connection, upload_id: str) -> None:
    """Note that nothing is left of an upload but the file."""
    connection.execute(delete(uploads).where(uploads.c.upload_id == upload_id))


def find_upload(connection: Connection, upload_id: str, sandbox_id: str) -> StoredUpload | None:
    """An upload of a sandbox."""
    same = (uploads.c.upload_id == upload_id) & (uploads.c.sandbox_id == sandbox_id)
    row = connection.execute(select(uploads).where(same)).first()
    return None if row is None else StoredUpload(*row)


def stale_uploads(connection: Connection, before: float, *, plain: bool) -> list[StoredUpload]:
    """Resumable uploads that did not go on since then; with ``plain`` all others, too."""
    old = uploads.c.resumable & (uploads.c.updated_at <= before)
    query = select(uploads).where(or_(old, ~uploads.c.resumable) if plain else old)
    return [StoredUpload(*row) for row in connection.execute(query)]


def forget(connection: Connection, sandbox_id: str) -> None:
    """Note that nothing of a sandbox is left on this machine: no processes, files or leases."""
    here = table.c.id == sandbox_id
    connection.execute(update(table).where(here).values(runtime=None))
    connection.execute(delete(mounts).where(mounts.c.sandbox_id == sandbox_id))
    connection.execute(delete(exposures).where(exposures.c.sandbox_id == sandbox_id))
    connection.execute(delete(uploads).where(uploads.c.sandbox_id == sandbox_id))
    of_sandboxes = leases.c.kind.in_(LEASE_KINDS)
    connection.execute(delete(leases).where(of_sandboxes & (leases.c.subject == sandbox_id)))


def _mine(caller: Caller) -> ColumnElement[bool]:
    own = and_(table.c.account_id == caller.account.id, table.c.team_id.is_(None))
    return or_(own, table.c.team_id.in_(list(caller.teams)))


def _where(caller: Caller, wanted: Filter) -> ColumnElement[bool]:
    team = caller.team(wanted.team_id)
    conditions = [_mine(caller) if team is None else table.c.team_id == team]
    if wanted.user_id is not None:
        conditions.append(table.c.account_id == wanted.user_id)
    if wanted.status is not None:
        conditions.append(table.c.status == wanted.status)
    if wanted.active is not None:
        ended = table.c.status.in_(_ENDED)
        conditions.append(~ended if wanted.active else ended)
    for label in wanted.labels:
        having = select(labels.c.sandbox).where(labels.c.label == label)
        conditions.append(table.c.number.in_(having))
    return and_(*conditions)
