"""From a request to a stored sandbox that is being started."""

from __future__ import annotations

import hashlib
import platform as machine
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, RowMapping

from prime_async.errors import UsageError
from prime_async.sandboxes.requests import CreateSandboxRequest
from prime_async.server.endpoints import Call
from prime_async.server.failures import RequestError, invalid
from prime_async.server.identifiers import new_id
from prime_async.server.runtimes.egress_policy import EgressPolicy
from prime_async.server.runtimes.protocol import Mount, SandboxSpec
from prime_async.server.sandboxes.endings import End, failed
from prime_async.server.sandboxes.fleet import Start
from prime_async.server.sandboxes.images import HOST_IMAGE
from prime_async.server.sandboxes.keeping import add_leases
from prime_async.server.sandboxes.records import policy_row, spec_row
from prime_async.server.sandboxes.sources import Source, find_mounts, find_source, require_source
from prime_async.server.store import sandboxes as store
from prime_async.server.store.volumes import add_mounts

__all__ = ["CreateBody", "create_sandbox"]

_GIB = 1024**3
_ORPHAN_SECONDS = 60.0
"""How much longer than its time a sandbox lives that no platform ends."""

_ARCHS = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class CreateBody(CreateSandboxRequest, kw_only=True):
    """Body of a create: the official fields, and the seconds of a client's lease."""

    lease_seconds: Annotated[float, Meta(ge=1, le=86400)] | None = None


async def create_sandbox(call: Call) -> tuple[RowMapping, bool]:
    """Store a sandbox and start it; return it, and whether a request with its key had done so.

    Raises:
        RequestError: 422 a field; 404 a checkpoint or volume; 409 the key was used for another
            request, or the checkpoint is not durable; 429 too many live.
    """
    body: CreateBody = call.body
    _refuse_what_is_missing(body)
    policy = _policy(call, body)
    source = find_source(call, body)
    values = _row(call, body, policy, source)
    start = _start(call, body, values["id"], policy, source)
    # Stored and started, or neither: also when the client goes away in between.
    return await call.platform.sandboxes.tasks.finish(_make, call, values, start, source)


async def _make(
    call: Call, values: dict[str, Any], start: Start, source: Source
) -> tuple[RowMapping, bool]:
    body: CreateBody = call.body
    limit = call.platform.config.limits.sandboxes
    scope, folder = values["team_id"] or values["account_id"], call.platform.config.volumes_dir
    mounts: tuple[Mount, ...] = ()

    def write(connection: Connection) -> tuple[RowMapping, bool]:
        nonlocal mounts
        known = _made_before(connection, values)
        if known is not None:
            return known, True
        require_source(connection, source)
        stored, mounts = find_mounts(connection, scope, values["id"], body.volumes or [], folder)
        if store.count_active(connection) >= limit:
            raise RequestError(
                429,
                "too_many_sandboxes",
                f"{limit} sandboxes live on this platform; delete some first",
            )
        row = store.create(connection, values, body.labels)
        add_mounts(connection, stored)
        add_leases(
            connection,
            row,
            values["created_at"],
            minutes=body.timeout_minutes,
            idle_minutes=body.idle_timeout_minutes,
            client_seconds=body.lease_seconds,
        )
        return row, False

    row, replayed = await call.platform.database.write(write, rows=4)
    if not replayed:
        call.platform.metrics.sandboxes.inc()
        spec = replace(start.spec, mounts=mounts)
        call.platform.sandboxes.fleet.begin(replace(start, spec=spec))
    return row, replayed


def _made_before(connection: Connection, values: dict[str, Any]) -> RowMapping | None:
    key = values["request_key"]
    known = None if key is None else store.by_key(connection, values["account_id"], key)
    if known is not None and known["request_digest"] != values["request_digest"]:
        raise RequestError(
            409, "idempotency_conflict", "this idempotency_key was used for a different request"
        )
    return known


def _refuse_what_is_missing(body: CreateBody) -> None:
    if body.gpu_count:
        raise invalid(["body", "gpu_count"], "sandboxes of this local platform have no GPU")
    own = _ARCHS.get(machine.machine().lower())
    if body.arch is not None and body.arch != own:
        raise invalid(["body", "arch"], f"this machine is {own}")


def _policy(call: Call, body: CreateBody) -> EgressPolicy:
    allow, deny = body.network_allowlist, body.network_denylist
    if allow is None and deny is None and call.platform.sandboxes.choices.network == "none":
        return EgressPolicy.closed()
    try:
        return EgressPolicy(
            allow=None if allow is None else tuple(allow),
            deny=None if deny is None else tuple(deny),
        )
    except UsageError as error:
        name = "network_denylist" if allow is None else "network_allowlist"
        raise invalid(["body", name], error.message) from error


def _row(call: Call, body: CreateBody, policy: EgressPolicy, source: Source) -> dict[str, Any]:
    now = call.platform.clock.now()
    return {
        "id": new_id(),
        "account_id": call.caller.account.id,
        "team_id": call.caller.team(body.team_id),
        "name": body.name,
        "vm": body.vm,
        "status": "PENDING",
        "spec": spec_row(body, source.image, source.disk_gb),
        "labels": msgspec.json.encode(body.labels),
        "notes": b"[]",
        "policy": policy_row(policy),
        "generation": 0,
        "applied_generation": -1,
        "request_key": body.idempotency_key or call.key_text,
        "request_digest": hashlib.sha256(call.raw).digest(),
        "created_at": now,
        "updated_at": now,
        "checkpoint_id": source.checkpoint_id,
    }


def _start(
    call: Call, body: CreateBody, sandbox_id: str, policy: EgressPolicy, source: Source
) -> Start:
    catalogue = call.platform.sandboxes.catalogue
    note = catalogue.find(source.image)
    refused: End | None = None
    if note is None:
        refused = failed("IMAGE_PULL_FAILED", catalogue.unknown(source.image))
    minutes = body.timeout_minutes
    spec = SandboxSpec(
        id=sandbox_id,
        image=HOST_IMAGE,
        cpu_cores=body.cpu_cores,
        memory_bytes=int(body.memory_gb * _GIB),
        disk_bytes=int(source.disk_gb * _GIB),
        # Both are leases of ours. The runtime's own limit comes later, and is for a sandbox whose
        # platform never comes back.
        timeout_seconds=(minutes * 60.0 + _ORPHAN_SECONDS) if minutes else None,
        idle_seconds=None,
        environment={**(body.environment_vars or {}), **(body.secrets or {})},
        egress=policy,
        snapshot=source.archive,
    )
    idle = body.idle_timeout_minutes
    command = body.start_command
    return Start(
        spec,
        () if note is None else (note,),
        body.vm,
        None if idle is None else idle * 60.0,
        refused,
        () if command is None else (command.executable, *command.args),
    )
