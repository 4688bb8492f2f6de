"""Sandboxes: create, list, read, statuses, tokens, leases, network, delete."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import anyio
from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import RowMapping

from prime_async.errors import PrimeError, UsageError
from prime_async.sandboxes.models import (
    ENDED_STATUSES,
    BatchSandboxStatusResponse,
    BulkDeleteSandboxResponse,
    EgressPolicyStatus,
    GatewayAccess,
    Sandbox,
    SandboxListResponse,
)
from prime_async.server.answers import Answer, answer
from prime_async.server.clock import timestamp
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError, invalid
from prime_async.server.leases import LeaseHeldError
from prime_async.server.runtimes.egress_policy import EgressPolicy
from prime_async.server.sandboxes.creation import CreateBody, create_sandbox
from prime_async.server.sandboxes.endings import deleted
from prime_async.server.sandboxes.records import policy_of, policy_row, sandbox_wire
from prime_async.server.sandboxes.startcommand import read_log, remove_log
from prime_async.server.store import sandboxes as store
from prime_async.server.store.sandboxes import Filter

__all__ = ["ENDPOINTS", "find", "gateway_access", "not_running", "sandbox_not_found"]

_BULK = 1000
_BATCH = 100
_AT_ONCE = 16


class ListQuery(Struct, kw_only=True):
    """Query of the list; ``page`` counts from 1; a sandbox must have all ``labels``."""

    repeated: ClassVar[frozenset[str]] = frozenset({"labels"})

    team_id: str | None = None
    user_id: str | None = None
    status: str | None = None
    is_active: bool | UnsetType = UNSET  # None would let the word "null" pass for it
    labels: list[str] = []
    page: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    per_page: Annotated[int, Meta(ge=1, le=1000)] = 50


class BulkDelete(Struct, kw_only=True):
    """Body of a bulk delete: ids, or labels that a sandbox must all have."""

    sandbox_ids: list[str] | None = None
    labels: list[str] | None = None
    team_id: str | None = None
    user_id: str | None = None
    all_users: bool = False


class BatchStatus(Struct, kw_only=True):
    """Body of a status look-up."""

    sandbox_ids: Annotated[list[str], Meta(min_length=1, max_length=_BATCH)]


class LeaseBody(Struct, kw_only=True):
    """Body of a lease: the client is thought gone when it does not renew it in time."""

    seconds: Annotated[float, Meta(ge=1, le=86400)] = 90.0


class LeaseAnswer(Struct, kw_only=True):
    """A lease: when it ends (ISO 8601), in how many seconds."""

    sandbox_id: str
    expires_at: str
    seconds: float


class EgressBody(Struct, kw_only=True):
    """Body of a policy; replaces the one before. One list at most; an empty allow list closes."""

    allowlist: list[str] | None = None
    denylist: list[str] | None = None


class Logs(Struct, kw_only=True):
    """What the start command of a sandbox wrote, its last MiB."""

    logs: str


class ErrorContextAnswer(Struct, kw_only=True, rename="camel"):
    """Why a sandbox is not well."""

    status: str
    error_type: str | None = None
    error_message: str | None = None
    termination_reason: str | None = None


class Deleted(Struct, kw_only=True):
    """Answer of a delete."""

    id: str
    status: str


async def create(call: Call) -> Reply:
    """Store a sandbox and start it in the background."""
    row, replayed = await create_sandbox(call)
    wire = {**sandbox_wire(row), "gatewayAuth": gateway_access(call, row)}
    return Answer(*answer(wire)[:2], replayed=replayed)


async def get(call: Call) -> Reply:
    """Read one sandbox."""
    return answer(sandbox_wire(find(call)))


async def list_page(call: Call) -> Reply:
    """Read one page of sandboxes, newest first."""
    query: ListQuery = call.query
    wanted = Filter(
        query.team_id or None,
        query.user_id or None,
        query.status or None,
        None if query.is_active is UNSET else query.is_active,
        query.labels,
    )
    skip, caller = (query.page - 1) * query.per_page, call.caller
    rows, total = await call.platform.database.scan(
        lambda reader: store.page(reader, caller, wanted, skip, query.per_page)
    )
    return answer(
        {
            "sandboxes": [sandbox_wire(row) for row in rows],
            "total": total,
            "page": query.page,
            "perPage": query.per_page,
            "hasNext": skip + len(rows) < total,
        }
    )


async def delete(call: Call) -> Reply:
    """End a sandbox and remove everything in it."""
    sandbox_id = find(call)["id"]
    await _delete(call, sandbox_id)
    return answer(Deleted(id=sandbox_id, status=_status(call, sandbox_id)))


async def _delete(call: Call, sandbox_id: str) -> None:
    await call.platform.sandboxes.fleet.end(sandbox_id, deleted())
    await remove_log(call.platform.config, sandbox_id)


def _status(call: Call, sandbox_id: str) -> str:
    row = call.platform.database.point(lambda reader: store.find_any(reader, sandbox_id))
    return "TERMINATED" if row is None else row["status"]


async def bulk_delete(call: Call) -> Reply:
    """End the named sandboxes, or all that have the labels."""
    ids, failed = await _bulk_ids(call)
    succeeded: list[str] = []
    limit = anyio.CapacityLimiter(_AT_ONCE)

    async def end(sandbox_id: str) -> None:
        async with limit:
            try:
                await _delete(call, sandbox_id)
                succeeded.append(sandbox_id)
            except (RequestError, PrimeError) as error:
                failed.append({"sandbox_id": sandbox_id, "error": str(error)})

    async with anyio.create_task_group() as group:
        for sandbox_id in ids:
            group.start_soon(end, sandbox_id)
    order = {sandbox_id: place for place, sandbox_id in enumerate(ids)}
    succeeded.sort(key=order.__getitem__)
    message = f"{len(succeeded)} sandboxes deleted, {len(failed)} not"
    return answer({"succeeded": succeeded, "failed": failed, "message": message})


async def _bulk_ids(call: Call) -> tuple[list[str], list[dict[str, str]]]:
    body: BulkDelete = call.body
    if not body.sandbox_ids and not body.labels:
        raise invalid(["body", "sandbox_ids"], "give ids or labels")
    if body.sandbox_ids:
        named = list(dict.fromkeys(body.sandbox_ids))
        if len(named) > _BULK:
            raise invalid(["body", "sandbox_ids"], f"at most {_BULK} at a time")
        known = [one for one in named if find_by_id(call, one) is not None]
        missing = set(named) - set(known)
        return known, [
            {"sandbox_id": one, "error": f"no sandbox {one}"} for one in named if one in missing
        ]
    user = body.user_id or (None if body.all_users else call.caller.account.id)
    wanted = Filter(body.team_id or None, user, None, True, body.labels or ())
    caller = call.caller
    ids = await call.platform.database.scan(
        lambda reader: store.wanted_ids(reader, caller, wanted, _BULK)
    )
    return ids, []


async def statuses(call: Call) -> Reply:
    """Read the statuses of many sandboxes."""
    check_key(call)
    body: BatchStatus = call.body
    if len(set(body.sandbox_ids)) != len(body.sandbox_ids):
        raise invalid(["body", "sandbox_ids"], "an id is given twice")
    found: list[dict[str, Any]] = []
    errors: list[dict[str, str]] = []
    for sandbox_id in body.sandbox_ids:
        row = find_by_id(call, sandbox_id)
        if row is None:
            message = f"no sandbox {sandbox_id}"
            errors.append({"sandbox_id": sandbox_id, "code": "NOT_FOUND", "message": message})
        else:
            found.append(
                {
                    "sandbox_id": sandbox_id,
                    "status": row["status"],
                    "error_type": row["error_type"],
                    "error_message": row["error_message"],
                    "pending_image_build_id": None,
                }
            )
    return answer({"statuses": found, "errors": errors})


async def logs(call: Call) -> Reply:
    """Read what the start command wrote."""
    row = find(call)
    return answer(Logs(logs=await read_log(call.platform.config, row["id"])))


async def error_context(call: Call) -> Reply:
    """Say why a sandbox is not well."""
    row = find(call)
    return answer(
        ErrorContextAnswer(
            status=row["status"],
            error_type=row["error_type"],
            error_message=row["error_message"],
            termination_reason=row["termination_reason"],
        )
    )


async def auth(call: Call) -> Reply:
    """Hand out a token for the gateway; of an ended sandbox too, whose gateway tells of its end."""
    check_key(call)
    return answer(gateway_access(call, find(call)))


async def renew_lease(call: Call) -> Reply:
    """Renew the lease of the client that uses a sandbox, or begin one."""
    check_key(call)
    row, body = find(call), call.body
    if row["status"] in ENDED_STATUSES:
        # Not 409, which clients answer by trying again: there is nothing left to hold.
        raise RequestError(404, "sandbox_not_running", f"sandbox {row['id']} has ended")
    keeping = call.platform.sandboxes.keeping
    try:
        ends = await keeping.renew(row["id"], row["account_id"], body.seconds)
    except LeaseHeldError as error:
        raise RequestError(404, "lease_ended", "the lease has ended; so has the sandbox") from error
    return answer(
        LeaseAnswer(sandbox_id=row["id"], expires_at=timestamp(ends), seconds=body.seconds)
    )


async def end_lease(call: Call) -> Reply:
    """Let a sandbox live on without the client that uses it."""
    await call.platform.sandboxes.keeping.release(find(call)["id"])
    return Answer(204, b"")


async def get_egress(call: Call) -> Reply:
    """Read what a sandbox may reach."""
    return answer(_egress(find(call)))


async def put_egress(call: Call) -> Reply:
    """Replace what a sandbox may reach; in force at once."""
    row, body = find(call), call.body
    policy = egress_policy(body.allowlist, body.denylist, ("allowlist", "denylist"))
    fleet, sandbox_id = call.platform.sandboxes.fleet, row["id"]
    changed = await call.platform.database.write(
        lambda connection: store.replace_policy(connection, sandbox_id, policy_row(policy))
    )
    if not changed:
        raise not_running(find(call))
    # In force even if the client goes away now: what is stored and what holds must agree.
    await call.platform.sandboxes.tasks.finish(fleet.apply_policy, sandbox_id)
    return answer(_egress(find(call)))


def egress_policy(
    allow: list[str] | None, deny: list[str] | None, names: tuple[str, str]
) -> EgressPolicy:
    """Check the lists of a request.

    Raises:
        RequestError: 422, naming the entry.
    """
    try:
        return EgressPolicy(
            allow=None if allow is None else tuple(allow),
            deny=None if deny is None else tuple(deny),
        )
    except UsageError as error:
        name = names[1] if (error.field or "").startswith("deny") else names[0]
        raise invalid(["body", name], error.message) from error


def _egress(row: RowMapping) -> dict[str, Any]:
    policy = policy_of(row)
    return {
        "policy": {"allowlist": policy.allow, "denylist": policy.deny},
        "generation": row["generation"],
        "applied_generation": row["applied_generation"],
        "applied": row["generation"] == row["applied_generation"],
    }


def check_key(call: Call) -> None:
    """What is the same when it is done twice needs no key, and takes none that is malformed."""
    _ = call.key_text


def find(call: Call) -> RowMapping:
    """The sandbox of the path.

    Raises:
        RequestError: 404, there is none, or it is not the caller's.
    """
    sandbox_id = call.path["sandbox_id"]
    row = find_by_id(call, sandbox_id)
    if row is None:
        raise sandbox_not_found(sandbox_id)
    return row


def find_by_id(call: Call, sandbox_id: str) -> RowMapping | None:
    """A sandbox that the caller may see, None when there is none of this id."""
    caller = call.caller
    return call.platform.database.point(lambda reader: store.find(reader, sandbox_id, caller))


def sandbox_not_found(sandbox_id: str) -> RequestError:
    """The 404 of a sandbox that is not there, or not the caller's."""
    return RequestError(404, "sandbox_not_found", f"no sandbox {sandbox_id}")


def not_running(row: RowMapping) -> RequestError:
    """The 409 of a sandbox that does not run."""
    ended = row["status"] in ENDED_STATUSES
    words = f"has ended ({row['termination_reason']})" if ended else "does not run yet"
    return RequestError(409, "sandbox_not_running", f"sandbox {row['id']} {words}")


def gateway_access(call: Call, row: RowMapping) -> dict[str, Any]:
    """Where the sandbox is reached, and a token for it."""
    parts = call.platform.sandboxes
    token, ends = parts.tokens.make(row["id"])
    return {
        "gateway_url": f"{parts.address(call.request)}/gateway",
        "user_ns": f"u-{row['team_id'] or row['account_id']}",
        "job_id": row["id"],
        "token": token,
        "expires_at": timestamp(ends),
        "is_vm": bool(row["vm"]),
    }


_NOT_FOUND = {404: ErrorAnswer}
_ONE = "/sandbox/{sandbox_id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/sandbox",
        create,
        "Create a sandbox",
        {200: Sandbox, **_NOT_FOUND, 409: ErrorAnswer, 429: ErrorAnswer, 501: ErrorAnswer},
        body=CreateBody,
    ),
    Endpoint(
        "GET",
        "/sandbox",
        list_page,
        "List sandboxes, newest first",
        {200: SandboxListResponse, **_NOT_FOUND},
        query=ListQuery,
    ),
    Endpoint(
        "DELETE",
        "/sandbox",
        bulk_delete,
        "End many sandboxes",
        {200: BulkDeleteSandboxResponse, **_NOT_FOUND},
        body=BulkDelete,
    ),
    Endpoint(
        "POST",
        "/sandbox/status:batchGet",
        statuses,
        "Read the statuses of many sandboxes",
        {200: BatchSandboxStatusResponse},
        body=BatchStatus,
    ),
    Endpoint("GET", _ONE, get, "Read a sandbox", {200: Sandbox, **_NOT_FOUND}),
    Endpoint("DELETE", _ONE, delete, "End a sandbox", {200: Deleted, **_NOT_FOUND}),
    Endpoint("GET", f"{_ONE}/logs", logs, "Read its start command's output", {200: Logs}),
    Endpoint(
        "GET",
        f"{_ONE}/error-context",
        error_context,
        "Why a sandbox is not well",
        {200: ErrorContextAnswer, **_NOT_FOUND},
    ),
    Endpoint("POST", f"{_ONE}/auth", auth, "Get a token for its gateway", {200: GatewayAccess}),
    Endpoint(
        "POST",
        f"{_ONE}/lease",
        renew_lease,
        "Renew the lease of the client that uses it",
        {200: LeaseAnswer, **_NOT_FOUND},
        body=LeaseBody,
        body_optional=True,
    ),
    Endpoint("DELETE", f"{_ONE}/lease", end_lease, "Give that lease back", {204: None}),
    Endpoint(
        "GET", f"{_ONE}/egress-policy", get_egress, "What it may reach", {200: EgressPolicyStatus}
    ),
    Endpoint(
        "PUT",
        f"{_ONE}/egress-policy",
        put_egress,
        "Replace what it may reach",
        {200: EgressPolicyStatus, 409: ErrorAnswer},
        body=EgressBody,
    ),
)
