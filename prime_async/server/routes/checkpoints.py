"""Checkpoints of sandboxes: make, list, read, delete."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from msgspec import Meta, Struct
from sqlalchemy import Connection, RowMapping

from prime_async.sandboxes.checkpoint_models import (
    BatchCheckpointResponse,
    DeleteSandboxCheckpointsResponse,
    SandboxCheckpoint,
    SandboxCheckpointList,
)
from prime_async.server.answers import Answer, answer
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError, invalid
from prime_async.server.identifiers import new_id
from prime_async.server.routes.sandboxes import find, not_running
from prime_async.server.runtimes.protocol import RunningSandbox
from prime_async.server.runtimes.snapshots import TarMissingError, find_tar
from prime_async.server.sandboxes.checkpoints import root_of
from prime_async.server.sandboxes.records import checkpoint_row, checkpoint_wire
from prime_async.server.store import checkpoints as store
from prime_async.server.store import sandboxes as sandbox_store

__all__ = ["ENDPOINTS", "checkpoint_not_found", "require_room", "require_tar"]

_BATCH = 100


class ListQuery(Struct, kw_only=True):
    """Query of a list: one checkpoint of it, or all."""

    checkpoint_id: str | None = None


class BatchCheckpoints(Struct, kw_only=True):
    """Body of a look-up; no id twice."""

    checkpoint_ids: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=64)]],
        Meta(min_length=1, max_length=_BATCH),
    ]


async def create(call: Call) -> Reply:
    """Begin a checkpoint of a sandbox's files; it is made in the background."""
    row = find(call)
    live = call.platform.sandboxes.fleet.use(row["id"])
    if live is None or live.running.end is not None:
        raise not_running(row)
    await require_tar()
    return await call.platform.sandboxes.tasks.finish(_begin, call, row, live.running)


async def _begin(call: Call, row: RowMapping, running: RunningSandbox) -> Answer:
    made: list[RowMapping] = []
    now = call.platform.clock.now()

    def write(connection: Connection) -> Answer:
        require_room(connection, call, row["id"], None)
        parent = sandbox_store.find_any(connection, row["id"])
        parent_id = None if parent is None else parent["checkpoint_id"]
        above = None if parent_id is None else store.find_any(connection, parent_id)
        values = checkpoint_row(new_id(), row, above, now)
        made.append(store.create(connection, values))
        return answer(checkpoint_wire(made[-1]))

    reply = await call.commit(write, rows=2)
    if made:
        checkpoint_id = made[-1]["id"]

        def then(connection: Connection) -> None:
            tip = {"checkpoint_id": checkpoint_id}
            sandbox_store.change(connection, row["id"], tip)

        call.platform.sandboxes.checkpoints.begin(made[-1], root_of(running), [running], then)
    return reply


async def require_tar() -> None:
    """Refuse a checkpoint that this machine could not make.

    Raises:
        RequestError: 501, with the remedy.
    """
    try:
        await to_thread.run_sync(find_tar)
    except TarMissingError as error:
        raise RequestError(501, error.code, f"{error.message}; {error.hint}") from error


def require_room(
    connection: Connection, call: Call, sandbox_id: str, volume_id: str | None
) -> None:
    """Refuse a checkpoint where another one is being made, or where there are too many.

    Raises:
        RequestError: 409, 429.
    """
    if store.pending_of(connection, sandbox_id, volume_id):
        what = f"sandbox {sandbox_id}" if volume_id is None else "this volume"
        raise RequestError(
            409, "checkpoint_pending", f"another checkpoint of {what} is being made: wait for it"
        )
    limit = call.platform.config.limits.checkpoints
    if store.count(connection) >= limit:
        raise RequestError(
            429, "too_many_checkpoints", f"this platform keeps {limit} checkpoints: delete some"
        )


async def list_all(call: Call) -> Reply:
    """List the checkpoints of a sandbox, the oldest first."""
    sandbox_id, only = find(call)["id"], call.query.checkpoint_id
    rows = await call.platform.database.scan(lambda reader: store.of_sandbox(reader, sandbox_id))
    wanted = [row for row in rows if not only or row["id"] == only]
    return answer({"checkpoints": [checkpoint_wire(row) for row in wanted]})


async def get(call: Call) -> Reply:
    """Read one checkpoint."""
    return answer(checkpoint_wire(_find(call)))


async def many(call: Call) -> Reply:
    """Read many checkpoints."""
    _ = call.key_text  # malformed ones are refused everywhere alike
    ids: list[str] = call.body.checkpoint_ids
    if len(set(ids)) != len(ids):
        raise invalid(["body", "checkpoint_ids"], "an id is given twice")
    caller = call.caller
    found = call.platform.database.point(lambda reader: store.find_many(reader, ids, caller))
    return answer(
        {
            "checkpoints": [checkpoint_wire(found[one]) for one in ids if one in found],
            "errors": [_lookup_error(one, "NOT_FOUND") for one in ids if one not in found],
        }
    )


def _lookup_error(checkpoint_id: str, code: str, message: str | None = None) -> dict[str, Any]:
    return {
        "checkpoint_id": checkpoint_id,
        "code": code,
        "message": message or f"no checkpoint {checkpoint_id}",
    }


async def delete(call: Call) -> Reply:
    """Delete a checkpoint, unless something goes on from it."""
    await _delete(call, _find(call)["id"])
    return Answer(204, b"")


async def delete_all(call: Call) -> Reply:
    """Delete the checkpoints of a sandbox, but those that something goes on from."""
    sandbox_id = find(call)["id"]
    rows = await call.platform.database.scan(lambda reader: store.of_sandbox(reader, sandbox_id))
    deleted: list[str] = []
    errors: list[dict[str, Any]] = []
    for row in rows:
        try:
            await _delete(call, row["id"])
            deleted.append(row["id"])
        except RequestError as error:
            code = "NOT_FOUND" if error.status == 404 else "CONFLICT"
            errors.append(_lookup_error(row["id"], code, error.message))
    return answer({"deleted": deleted, "errors": errors})


async def _delete(call: Call, checkpoint_id: str) -> None:
    now = call.platform.clock.now()

    def mark(connection: Connection) -> None:
        _require_free(connection, checkpoint_id)
        store.change(connection, checkpoint_id, {"state": "DELETING", "updated_at": now})

    await call.platform.database.write(mark)
    await call.platform.sandboxes.checkpoints.delete(checkpoint_id)


def _require_free(connection: Connection, checkpoint_id: str) -> None:
    row = store.find_any(connection, checkpoint_id)
    if row is None:
        raise checkpoint_not_found(checkpoint_id)
    why: str | None = None
    if row["state"] == "PENDING":
        why = "is being made: wait for it"
    elif store.is_tip(connection, checkpoint_id):
        why = "is the newest one of a running sandbox: its next one would follow it"
    elif store.is_head(connection, checkpoint_id):
        why = "is the newest version of a volume: delete the volume"
    if why is not None:
        raise RequestError(409, "checkpoint_in_use", f"checkpoint {checkpoint_id} {why}")


def _find(call: Call) -> RowMapping:
    checkpoint_id, caller = call.path["checkpoint_id"], call.caller
    row = call.platform.database.point(lambda reader: store.find(reader, checkpoint_id, caller))
    if row is None:
        raise checkpoint_not_found(checkpoint_id)
    return row


def checkpoint_not_found(checkpoint_id: str) -> RequestError:
    """The 404 of a checkpoint that is not there, or not the caller's."""
    return RequestError(404, "checkpoint_not_found", f"no checkpoint {checkpoint_id}")


_MISSING = {404: ErrorAnswer}
_ONE = "/sandbox/checkpoints/{checkpoint_id}"
_OF_SANDBOX = "/sandbox/{sandbox_id}/checkpoints"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", _ONE, get, "Read a checkpoint", {200: SandboxCheckpoint, **_MISSING}),
    Endpoint(
        "DELETE",
        _ONE,
        delete,
        "Delete a checkpoint",
        {204: None, **_MISSING, 409: ErrorAnswer},
    ),
    Endpoint(
        "POST",
        "/sandbox/checkpoints:batchGet",
        many,
        "Read many checkpoints",
        {200: BatchCheckpointResponse},
        body=BatchCheckpoints,
    ),
    Endpoint(
        "POST",
        _OF_SANDBOX,
        create,
        "Make a checkpoint of its files",
        {200: SandboxCheckpoint, **_MISSING, 501: ErrorAnswer, 409: ErrorAnswer, 429: ErrorAnswer},
    ),
    Endpoint(
        "GET",
        _OF_SANDBOX,
        list_all,
        "List its checkpoints, oldest first",
        {200: SandboxCheckpointList, **_MISSING},
        query=ListQuery,
    ),
    Endpoint(
        "DELETE",
        _OF_SANDBOX,
        delete_all,
        "Delete its checkpoints",
        {200: DeleteSandboxCheckpointsResponse, **_MISSING},
    ),
)
