"""Volumes: folders that sandboxes of one owner mount; publishing makes a checkpoint of one."""

from __future__ import annotations

from typing import Annotated, Any

import anyio
from msgspec import Meta, Struct
from sqlalchemy import Connection, RowMapping

from prime_async.sandboxes.checkpoint_models import SandboxCheckpoint, Volume, VolumeListResponse
from prime_async.server.answers import Answer, answer
from prime_async.server.clock import timestamp
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError
from prime_async.server.identifiers import NAME_PATTERN, new_id
from prime_async.server.routes.checkpoints import require_room, require_tar
from prime_async.server.routes.sandboxes import find as find_sandbox
from prime_async.server.routes.sandboxes import not_running
from prime_async.server.sandboxes.records import checkpoint_row, checkpoint_wire
from prime_async.server.store import checkpoints as checkpoint_store
from prime_async.server.store import volumes as store

__all__ = ["FIXED", "OF_ONE"]

_GIB = 1024**3


class CreateVolume(Struct, kw_only=True):
    """Body of a create."""

    name: Annotated[str, Meta(pattern=NAME_PATTERN)]
    team_id: str | None = None


class OwnerQuery(Struct, kw_only=True):
    """Whose volume: a team's, or one's own."""

    team_id: str | None = None


class ListQuery(OwnerQuery, kw_only=True):
    """Query of the list; ``page`` counts from 1."""

    page: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    per_page: Annotated[int, Meta(ge=1, le=1000)] = 50


class Publish(Struct, kw_only=True):
    """Body of a publish; ``force`` replaces a version that this sandbox has not seen."""

    force: bool = False


async def create(call: Call) -> Reply:
    """Make a volume."""
    return await call.platform.sandboxes.tasks.finish(_create, call)


async def _create(call: Call) -> Answer:
    body: CreateVolume = call.body
    team, account = call.caller.team(body.team_id), call.caller.account.id
    volume_id = new_id()
    row = {
        "id": volume_id,
        "account_id": account,
        "team_id": team,
        "scope": team or account,
        "name": body.name,
        "created_at": call.platform.clock.now(),
    }
    made: list[RowMapping] = []

    def write(connection: Connection) -> Answer:
        limit = call.platform.config.limits.volumes
        if store.count(connection) >= limit:
            raise RequestError(
                429, "too_many_volumes", f"this platform keeps {limit} volumes: delete some"
            )
        stored = store.create(connection, row)
        if stored is None:
            raise RequestError(409, "volume_exists", f"there is a volume {body.name!r} already")
        made.append(stored)
        return answer(_wire(stored, 0))

    volumes = call.platform.sandboxes.volumes
    # The folder first: a row without one could not be mounted.
    await volumes.make(volume_id)
    try:
        return await call.commit(write)
    finally:
        if not made:
            await volumes.remove(volume_id)


async def list_page(call: Call) -> Reply:
    """Read one page of volumes, newest first."""
    query: ListQuery = call.query
    scope, skip = _scope(call), (query.page - 1) * query.per_page

    def read(reader: Connection) -> tuple[Any, int, int]:
        rows, total = store.page(reader, scope, skip, query.per_page)
        sizes = store.sizes(reader, scope)
        wires = [_wire(row, sizes.get(row["id"], 0)) for row in rows]
        return wires, total, sum(sizes.values())

    wires, total, used = await call.platform.database.scan(read)
    return answer(
        {
            "volumes": wires,
            "total": total,
            "page": query.page,
            "per_page": query.per_page,
            "has_next": skip + len(wires) < total,
            "storage_used_bytes": used,
            "storage_limit_gb": _limit_gb(call),
        }
    )


async def get(call: Call) -> Reply:
    """Read one volume."""
    row, scope = _find(call), _scope(call)
    sizes = await call.platform.database.scan(lambda reader: store.sizes(reader, scope))
    return answer(
        {
            **_wire(row, sizes.get(row["id"], 0)),
            "account_storage_used_bytes": sum(sizes.values()),
            "account_storage_limit_gb": _limit_gb(call),
        }
    )


async def delete(call: Call) -> Reply:
    """Delete a volume, its files and its versions, unless a sandbox mounts it."""
    await call.platform.sandboxes.tasks.finish(_delete, call, _find(call))
    return Answer(204, b"")


async def _delete(call: Call, row: RowMapping) -> None:
    volume_id, now = row["id"], call.platform.clock.now()

    def mark(connection: Connection) -> list[str]:
        _require_unused(connection, row)
        versions = [one["id"] for one in checkpoint_store.of_volume(connection, volume_id)]
        for version in versions:
            values = {"state": "DELETING", "updated_at": now}
            checkpoint_store.change(connection, version, values)
        store.forget(connection, volume_id)
        return versions

    versions = await call.platform.database.write(mark, rows=4)
    parts = call.platform.sandboxes
    await parts.volumes.remove(volume_id)
    async with anyio.create_task_group() as group:
        for version in versions:
            group.start_soon(parts.checkpoints.delete, version)


def _require_unused(connection: Connection, row: RowMapping) -> None:
    using = store.mounted_by(connection, row["id"])
    why: str | None = None
    if using:
        why = f"is mounted by {', '.join(using[:3])}{' and others' if len(using) > 3 else ''}"
    elif checkpoint_store.pending_of(connection, "", row["id"]):
        why = "is being published"
    if why is not None:
        raise RequestError(409, "volume_in_use", f"volume {row['name']!r} {why}")


async def publish(call: Call) -> Reply:
    """Begin a checkpoint of a volume, as a sandbox that may write to it sees it."""
    sandbox = find_sandbox(call)
    live = call.platform.sandboxes.fleet.use(sandbox["id"])
    if live is None or live.running.end is not None:
        raise not_running(sandbox)
    await require_tar()
    return await call.platform.sandboxes.tasks.finish(_publish, call, sandbox)


async def _publish(call: Call, sandbox: RowMapping) -> Answer:
    scope, name = sandbox["team_id"] or sandbox["account_id"], call.path["name"]
    now, force = call.platform.clock.now(), call.body.force
    made: list[tuple[RowMapping, list[str]]] = []

    def write(connection: Connection) -> Answer:
        volume = _require_publishable(connection, scope, sandbox["id"], name, force=force)
        require_room(connection, call, sandbox["id"], volume["id"])
        head = volume["head_checkpoint_id"]
        above = None if head is None else checkpoint_store.find_any(connection, head)
        values = checkpoint_row(new_id(), sandbox, above, now, volume["id"])
        row = checkpoint_store.create(connection, values)
        made.append((row, store.mounted_by(connection, volume["id"], writable=True)))
        return answer(checkpoint_wire(row))

    reply = await call.commit(write, rows=2)
    if made:
        _begin(call, sandbox["id"], *made[-1])
    return reply


def _begin(call: Call, sandbox_id: str, row: RowMapping, writers: list[str]) -> None:
    parts = call.platform.sandboxes
    live = (parts.fleet.live.get(one) for one in writers)
    quiet = [one.running for one in live if one is not None]
    volume_id, checkpoint_id = row["volume_id"], row["id"]

    def then(connection: Connection) -> None:
        store.change(connection, volume_id, {"head_checkpoint_id": checkpoint_id})
        store.rebase(connection, sandbox_id, volume_id, checkpoint_id)

    parts.checkpoints.begin(row, parts.volumes.folder(volume_id), quiet, then)


def _require_publishable(
    connection: Connection, scope: str, sandbox_id: str, name: str, *, force: bool
) -> RowMapping:
    volume = store.find(connection, scope, name)
    mount = None if volume is None else store.mount_of(connection, sandbox_id, volume["id"])
    if volume is None or mount is None:
        raise RequestError(
            404, "volume_not_attached", f"sandbox {sandbox_id} does not mount a volume {name!r}"
        )
    if mount.read_only:
        raise RequestError(
            400, "volume_read_only", f"sandbox {sandbox_id} mounts {name!r} read-only"
        )
    if mount.base_checkpoint_id != volume["head_checkpoint_id"] and not force:
        raise RequestError(
            409,
            "volume_moved",
            f"another version of {name!r} was published meanwhile: look at it, then use force",
        )
    return volume


def _scope(call: Call) -> str:
    return call.caller.team(call.query.team_id) or call.caller.account.id


def _find(call: Call) -> RowMapping:
    scope, name = _scope(call), call.path["name"]
    row = call.platform.database.point(lambda reader: store.find(reader, scope, name))
    if row is None:
        raise RequestError(404, "volume_not_found", f"no volume {name!r}")
    return row


def _limit_gb(call: Call) -> int:
    return max(1, call.platform.config.limits.volume_bytes // _GIB)


def _wire(row: RowMapping, occupied: int) -> dict[str, Any]:
    return {
        "id": row["id"],
        "name": row["name"],
        "user_id": row["account_id"] if row["team_id"] is None else None,
        "team_id": row["team_id"],
        "head_checkpoint_id": row["head_checkpoint_id"],
        "created_at": timestamp(row["created_at"]),
        "occupied_bytes": occupied,
    }


_MISSING = {404: ErrorAnswer}
_ALL = "/sandbox/volumes"
_ONE = "/sandbox/volumes/{name}"

FIXED: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        _ALL,
        create,
        "Make a volume",
        {200: Volume, **_MISSING, 409: ErrorAnswer, 429: ErrorAnswer},
        body=CreateVolume,
    ),
    Endpoint(
        "GET",
        _ALL,
        list_page,
        "List volumes, newest first",
        {200: VolumeListResponse, **_MISSING},
        query=ListQuery,
    ),
    Endpoint("GET", _ONE, get, "Read a volume", {200: Volume, **_MISSING}, query=OwnerQuery),
    Endpoint(
        "DELETE",
        _ONE,
        delete,
        "Delete a volume, its files and versions",
        {204: None, **_MISSING, 409: ErrorAnswer},
        query=OwnerQuery,
    ),
)
"""Paths that have to be matched before ``/sandbox/{sandbox_id}``."""

OF_ONE: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/sandbox/{sandbox_id}/volumes/{name}/publish",
        publish,
        "Make a checkpoint of a volume it may write to",
        {
            200: SandboxCheckpoint,
            400: ErrorAnswer,
            **_MISSING,
            409: ErrorAnswer,
            429: ErrorAnswer,
            501: ErrorAnswer,
        },
        body=Publish,
        body_optional=True,
    ),
)
