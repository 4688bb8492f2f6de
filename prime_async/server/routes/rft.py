"""Training runs that report from elsewhere: create, list, read, close, delete.

A run is RUNNING from its creation until its client closes it: as COMPLETED or FAILED, there are no
other ends. What is closed stays closed, except that a client whose run was closed for its silence
may still say how it really ended. Rows, distributions and samples may still follow the close, as
they do when a client delivers late what it had kept on its disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import Connection, RowMapping

from prime_async.runs.wire import (
    CloseRun,
    CreateTrainingRun,
    FinalizeTrainingRun,
    TrainingRunAnswer,
    TrainingRunPage,
)
from prime_async.server.answers import Answer, answer
from prime_async.server.clock import timestamp
from prime_async.server.decoding import decode_fields
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError
from prime_async.server.identifiers import new_id
from prime_async.server.routes.run_leases import LEASE, begin_with
from prime_async.server.runs.cursors import read_cursor, write_cursor
from prime_async.server.runs.leases import end_lease
from prime_async.server.store import runs, sample_objects
from prime_async.server.store.run_records import purge_records
from prime_async.server.store.runs import Filter, Subject

__all__ = ["ENDPOINTS", "run_closed", "training_run_not_found"]

_COPIED = (
    "max_steps",
    "batch_size",
    "rollouts_per_example",
    "seq_len",
    "wandb_entity",
    "wandb_project",
    "wandb_run_name",
)


class ListQuery(Struct, kw_only=True):
    """Query of the list; without ``team_id`` the account's own runs and those of its teams."""

    team_id: str | None = None
    status: Literal["RUNNING", "COMPLETED", "FAILED"] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: str | None = None


async def create(call: Call) -> Reply:
    """Store a new training run."""
    body: CreateTrainingRun = call.body
    row = _new_row(call, body)

    def write(connection: Connection) -> Answer:
        made = runs.create(connection, row)
        begin_with(call, connection, "train", made["id"])
        return answer({"run": _wire(made)}, 201)

    return await call.commit(write)


def _new_row(call: Call, body: CreateTrainingRun) -> dict[str, Any]:
    now = call.platform.clock.now()
    run_id = new_id()
    return {
        "id": run_id,
        "account_id": call.caller.account.id,
        "team_id": call.caller.team(body.team_id),
        "name": body.name or f"{body.base_model.rpartition('/')[2]}-{run_id[-8:]}",
        "base_model": body.base_model,
        "environments": msgspec.json.encode(body.environments or []),
        "run_config": _object(call.raw, "run_config", body.run_config),
        **{name: getattr(body, name) for name in _COPIED},
        "status": "RUNNING",
        "lapsed": False,
        "created_at": now,
        "updated_at": now,
    }


def _object(raw: bytes, name: str, decoded: Any) -> bytes | None:
    """A free-form object of a body, as the JSON text that was sent."""
    return None if decoded is None else bytes(decode_fields(raw)[name])


async def get(call: Call) -> Reply:
    """Read one training run."""
    run_id = call.path["run_id"]
    row = call.platform.database.point(lambda reader: runs.find(reader, run_id, call.caller))
    if row is None:
        raise training_run_not_found(run_id)
    return answer({"run": _wire(row)})


async def list_page(call: Call) -> Reply:
    """Read one page of training runs, newest first."""
    query: ListQuery = call.query
    before = None if query.cursor is None else read_cursor(query.cursor, tuple[int])[0]
    wanted = Filter(query.team_id or None, query.status or None, before)
    caller = call.caller

    def read(connection: Connection) -> Answer:
        rows = runs.page(connection, caller, wanted, query.limit)
        here = rows[: query.limit]
        more = write_cursor((here[-1]["number"],)) if len(rows) > len(here) else None
        return answer({"runs": [_wire(row) for row in here], "next_cursor": more})

    return await call.platform.database.scan(read)


async def put_status(call: Call) -> Reply:
    """Close a training run as completed or failed."""
    body: CloseRun = call.body
    status = body.status.upper()
    values: dict[str, Any] = {
        "status": status,
        "error_message": body.error_message if status == "FAILED" else None,
        **_summary(call.raw, body),
    }
    return await _close(call, call.path["run_id"], values, again=False)


async def finalize(call: Call) -> Reply:
    """Close a training run by its exit code; twice is the same as once."""
    body: FinalizeTrainingRun = call.body
    done = body.exit_code == 0
    values: dict[str, Any] = {
        "status": "COMPLETED" if done else "FAILED",
        "error_message": None if done else f"exit code {body.exit_code}",
        **_summary(call.raw, body),
    }
    return await _close(call, body.run_id, values, again=done)


def _summary(raw: bytes, body: CloseRun | FinalizeTrainingRun) -> dict[str, bytes | None]:
    if body.summary is UNSET or body.summary is None:
        return {}
    return {"summary": _object(raw, "summary", body.summary)}


async def _close(call: Call, run_id: str, values: Mapping[str, Any], *, again: bool) -> Answer:
    caller, now = call.caller, call.platform.clock.now()

    def write(connection: Connection) -> Answer:
        row = runs.find(connection, run_id, caller)
        if row is None:
            raise training_run_not_found(run_id)
        is_open = row["status"] == "RUNNING" or row["lapsed"]
        if not is_open and not (again and row["status"] == "COMPLETED"):
            raise run_closed(row["status"])
        changed = {**values, "updated_at": now, "lapsed": False}
        if is_open:
            changed["completed_at"] = now
        end_lease(connection, "train", row["id"])
        return answer({"run": _wire(runs.change(connection, row["number"], changed))})

    return await call.commit(write)


async def delete(call: Call) -> Reply:
    """Delete a training run and what it reported; its traces stay."""
    caller, run_id = call.caller, call.path["run_id"]

    def write(connection: Connection) -> Subject:
        found = runs.subject(connection, "train", run_id, caller)
        if found is None:
            raise training_run_not_found(run_id)
        end_lease(connection, "train", run_id)
        runs.remove(connection, found.number)
        sample_objects.take_back(connection, found.number)
        return found

    run = await call.platform.database.write(write)
    await purge_records(call.platform.database, run)
    await call.platform.runs.objects.forget_stale()
    return Answer(204, b"")


def training_run_not_found(run_id: str) -> RequestError:
    """The 404 of a training run that is not there, or not the caller's."""
    return RequestError(404, "run_not_found", f"no training run {run_id[:100]}")


def run_closed(status: str) -> RequestError:
    """The 409 of a run that its client has closed already."""
    return RequestError(409, "run_closed", f"the run is closed: it is {status}")


def _wire(row: RowMapping) -> dict[str, Any]:
    """The run object: the fields of :class:`TrainingRun`, in camelCase as the wire has it."""
    copied = {name: row[name] for name in ("id", "name", "base_model", "status", *_COPIED)}
    run = {
        **copied,
        "kind": "EXTERNAL",
        "user_id": row["account_id"],
        "team_id": row["team_id"],
        "environments": msgspec.Raw(row["environments"]),
        "run_config": _raw(row["run_config"]),
        "summary": _raw(row["summary"]),
        "latest_step": row["latest_step"],
        "error_message": row["error_message"],
        "created_at": timestamp(row["created_at"]),
        "updated_at": timestamp(row["updated_at"]),
        "started_at": timestamp(row["created_at"]),
        "completed_at": row["completed_at"] and timestamp(row["completed_at"]),
    }
    return {_camel(name): value for name, value in run.items()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _raw(text: bytes | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text)


_ERRORS = {404: ErrorAnswer, 409: ErrorAnswer}

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/rft/external-runs",
        create,
        "Create a training run that reports from elsewhere",
        {201: TrainingRunAnswer, **_ERRORS},
        body=CreateTrainingRun,
        headers=(LEASE,),
    ),
    Endpoint(
        "GET",
        "/rft/external-runs",
        list_page,
        "List training runs, newest first",
        {200: TrainingRunPage, 404: ErrorAnswer},
        query=ListQuery,
    ),
    Endpoint(
        "GET",
        "/rft/external-runs/{run_id}",
        get,
        "Read a training run",
        {200: TrainingRunAnswer, 404: ErrorAnswer},
    ),
    Endpoint(
        "DELETE",
        "/rft/external-runs/{run_id}",
        delete,
        "Delete a training run and what it reported",
        {204: None, 404: ErrorAnswer},
    ),
    Endpoint(
        "PUT",
        "/rft/external-runs/{run_id}/status",
        put_status,
        "Close a training run",
        {200: TrainingRunAnswer, **_ERRORS},
        body=CloseRun,
    ),
    Endpoint(
        "POST",
        "/rft/finalize",
        finalize,
        "Close a training run by its exit code",
        {200: TrainingRunAnswer, **_ERRORS},
        body=FinalizeTrainingRun,
    ),
)
