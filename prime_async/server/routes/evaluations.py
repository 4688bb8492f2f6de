"""Evaluations: create, list, read, update, finalize, delete.

An evaluation is PENDING until samples arrive, then RUNNING; finalizing makes it COMPLETED.
Finalizing again is allowed and refreshes metrics and time. Samples may still follow a finalize; the
status stays COMPLETED. An evaluation that does not complete is closed by its client as FAILED or
CANCELLED, once; one that was closed for its client's silence may still be closed by its client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct
from sqlalchemy import Connection

from prime_async.evals.models import Evaluation, EvaluationList
from prime_async.evals.requests import CreateEvaluation, FinalizeEvaluation, UpdateEvaluation
from prime_async.server.answers import Answer, answer
from prime_async.server.clock import timestamp
from prime_async.server.decoding import decode_fields
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError, invalid
from prime_async.server.identifiers import new_id
from prime_async.server.routes.run_leases import LEASE, begin_with
from prime_async.server.runs.leases import end_lease
from prime_async.server.store import environments, evaluations, runs
from prime_async.server.store.evaluations import Filter, Stored
from prime_async.server.store.run_records import purge_records
from prime_async.server.store.runs import Subject
from prime_async.server.store.samples import purge

__all__ = ["ENDPOINTS", "evaluation_not_found"]

_TEXTS = ("model_name", "dataset", "framework", "task_type", "description")


class ListQuery(Struct, kw_only=True):
    """Query of the list; ``environment_name`` is a name or owner/name; blanks do not filter."""

    skip: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    environment_name: str | None = None
    suite_id: str | None = None
    team_id: str | None = None


async def create(call: Call) -> Reply:
    """Store a new evaluation."""
    body: CreateEvaluation = call.body
    references = body.environments or []
    if not body.run_id and not references:
        raise invalid(["body", "environments"], "give at least one environment, or a run_id")
    caller = call.caller
    row = _new_row(call, body)

    def write(connection: Connection) -> Answer:
        missing = environments.missing(connection, [one.id for one in references], caller)
        if missing:
            raise invalid(["body", "environments"], f"no environment has the id {missing[0]}")
        made = evaluations.create(connection, row, references)
        begin_with(call, connection, "eval", row["id"])
        return answer(_wire(made))

    return await call.commit(write)


def _new_row(call: Call, body: CreateEvaluation) -> dict[str, Any]:
    now = call.platform.clock.now()
    return {
        "id": new_id(),
        "account_id": call.caller.account.id,
        "team_id": call.caller.team(body.team_id),
        "name": body.name,
        **{name: getattr(body, name) for name in _TEXTS},
        "suite_id": body.suite_id,
        "run_id": body.run_id,
        "is_public": bool(body.is_public),
        "tags": msgspec.json.encode(body.tags or []),
        **_objects(call.raw, body),
        "status": "PENDING",
        "total_samples": 0,
        "created_at": now,
        "updated_at": now,
    }


def _objects(raw: bytes, body: Any) -> dict[str, bytes | None]:
    """``metadata`` and ``metrics`` of a body, as the JSON text that was sent."""
    given = [name for name in ("metadata", "metrics") if getattr(body, name, UNSET) is not UNSET]
    if not given:
        return {}
    fields = decode_fields(raw)
    return {name: None if getattr(body, name) is None else bytes(fields[name]) for name in given}


async def get(call: Call) -> Reply:
    """Read one evaluation."""
    return answer(_wire(_readable(call)))


async def list_page(call: Call) -> Reply:
    """Read one page of evaluations, newest first."""
    query: ListQuery = call.query
    wanted = Filter(query.environment_name or None, query.suite_id or None, query.team_id or None)
    caller = call.caller

    def read(connection: Connection) -> Answer:
        found, total = evaluations.page(connection, caller, wanted, query.skip, query.limit)
        page = [_wire(one) for one in found]
        return answer(
            {"evaluations": page, "total": total, "skip": query.skip, "limit": query.limit}
        )

    return await call.platform.database.scan(read)


async def update(call: Call) -> Reply:
    """Change what the body names."""
    body: UpdateEvaluation = call.body
    values: dict[str, Any] = {
        name: value for name in ("name", *_TEXTS) if (value := getattr(body, name)) is not UNSET
    }
    if body.tags is None or body.tags:
        # UNSET is falsy and [] too: both leave the stored tags alone (see UpdateEvaluation).
        values["tags"] = msgspec.json.encode(body.tags or [])
    values |= _objects(call.raw, body)
    if body.error_message is not UNSET:
        values["error_message"] = body.error_message
    if body.status is UNSET:
        return await _change(call, values)
    closed = {"status": body.status, "finalized_at": call.platform.clock.now()}
    return await _change(call, values | closed, closes=True)


async def finalize(call: Call) -> Reply:
    """Close an evaluation."""
    body: FinalizeEvaluation = call.body
    values: dict[str, Any] = {"status": "COMPLETED", "finalized_at": call.platform.clock.now()}
    if body.metrics is not None:
        values |= _objects(call.raw, body)
    values["error_message"] = None
    return await _change(call, values, closes=True)


async def _change(call: Call, values: Mapping[str, Any], *, closes: bool = False) -> Answer:
    caller, evaluation_id = call.caller, call.path["evaluation_id"]
    values = {**values, "updated_at": call.platform.clock.now()}
    if closes:
        values["lapsed"] = False

    def write(connection: Connection) -> Answer:
        stored = evaluations.find(connection, evaluation_id, caller)
        if stored is None:
            raise evaluation_not_found(evaluation_id)
        if closes:
            _check_open(stored, values["status"])
            end_lease(connection, "eval", evaluation_id)
        return answer(_wire(evaluations.change(connection, stored.number, values)))

    return await call.commit(write)


def _check_open(stored: Stored, status: str) -> None:
    """Refuse to close what is closed already; completing twice is allowed."""
    now = stored.row["status"]
    twice = now == status == "COMPLETED"
    if now not in runs.OPEN and not stored.row["lapsed"] and not twice:
        raise RequestError(409, "run_closed", f"the evaluation is closed: it is {now}")


async def delete(call: Call) -> Reply:
    """Delete an evaluation and its samples."""
    caller, evaluation_id = call.caller, call.path["evaluation_id"]

    def write(connection: Connection) -> int:
        stored = evaluations.find(connection, evaluation_id, caller)
        if stored is None:
            raise evaluation_not_found(evaluation_id)
        end_lease(connection, "eval", evaluation_id)
        evaluations.remove(connection, stored.number)
        return stored.number

    number = await call.platform.database.write(write)
    call.platform.directories.drop(number)
    await purge(call.platform.database, number)
    await purge_records(call.platform.database, Subject("eval", number))
    return Answer(204, b"")


def _readable(call: Call) -> Stored:
    evaluation_id = call.path["evaluation_id"]
    stored = call.platform.database.point(
        lambda reader: evaluations.find(reader, evaluation_id, call.caller, public=True)
    )
    if stored is None:
        raise evaluation_not_found(evaluation_id)
    return stored


def evaluation_not_found(evaluation_id: str) -> RequestError:
    """The 404 of an evaluation that is not there, or not the caller's."""
    return RequestError(404, "evaluation_not_found", f"no evaluation {evaluation_id}")


def _wire(stored: Stored) -> dict[str, Any]:
    """The evaluation object: the fields of :class:`Evaluation`, and ``id`` beside
    ``evaluation_id``.
    """
    row = stored.row
    copied = {
        name: row[name]
        for name in ("name", *_TEXTS, "suite_id", "run_id", "team_id", "status", "total_samples")
    }
    return {
        "evaluation_id": row["id"],
        "id": row["id"],
        **copied,
        "user_id": row["account_id"],
        "is_hosted": False,
        "is_public": bool(row["is_public"]),
        "tags": msgspec.Raw(row["tags"]),
        "environment_ids": [one.id for one in stored.environments],
        "environment_names": [str(one) for one in stored.environments],
        "metadata": _raw(row["metadata"]),
        "metrics": _raw(row["metrics"]),
        "created_at": timestamp(row["created_at"]),
        "updated_at": timestamp(row["updated_at"]),
        "finalized_at": row["finalized_at"] and timestamp(row["finalized_at"]),
        "error_message": row["error_message"],
        "viewer_url": None,
    }


def _raw(text: bytes | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text)


_NOT_FOUND = {404: ErrorAnswer}

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/evaluations/",
        create,
        "Create an evaluation",
        {200: Evaluation, **_NOT_FOUND, 409: ErrorAnswer},
        body=CreateEvaluation,
        headers=(LEASE,),
    ),
    Endpoint(
        "GET",
        "/evaluations/",
        list_page,
        "List evaluations, newest first",
        {200: EvaluationList, **_NOT_FOUND, 413: ErrorAnswer},
        query=ListQuery,
    ),
    Endpoint(
        "GET",
        "/evaluations/{evaluation_id}",
        get,
        "Read an evaluation",
        {200: Evaluation, **_NOT_FOUND},
    ),
    Endpoint(
        "PUT",
        "/evaluations/{evaluation_id}",
        update,
        "Change an evaluation, or close it as failed or cancelled",
        {200: Evaluation, **_NOT_FOUND, 409: ErrorAnswer},
        body=UpdateEvaluation,
    ),
    Endpoint(
        "DELETE",
        "/evaluations/{evaluation_id}",
        delete,
        "Delete an evaluation and its samples",
        {204: None, **_NOT_FOUND},
    ),
    Endpoint(
        "POST",
        "/evaluations/{evaluation_id}/finalize",
        finalize,
        "Close an evaluation",
        {200: Evaluation, **_NOT_FOUND, 409: ErrorAnswer},
        body=FinalizeEvaluation,
        body_optional=True,
    ),
)
