"""From stored rows to the objects of the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import RowMapping

from prime_async.sandboxes.requests import CreateSandboxRequest
from prime_async.server.clock import timestamp
from prime_async.server.runtimes.egress_policy import EgressPolicy
from prime_async.server.runtimes.protocol import Limits

__all__ = [
    "MASK",
    "checkpoint_row",
    "checkpoint_wire",
    "limits_row",
    "policy_of",
    "policy_row",
    "sandbox_wire",
    "spec_row",
]

MASK = "***"
"""What is shown in place of a secret."""


def spec_row(request: CreateSandboxRequest, image: str, disk_gb: float) -> bytes:
    """What is kept of a request, and shown again: everything but the values of secrets.

    Args:
        image, disk_gb: of its checkpoint, where it has one.
    """
    wire = {**request.to_wire(), "docker_image": image, "disk_size_gb": disk_gb}
    if request.secrets is not None:
        wire["secrets"] = dict.fromkeys(request.secrets, MASK)
    wire.pop("idempotency_key", None)
    return msgspec.json.encode(wire)


def limits_row(limits: Limits) -> bytes:
    """The limits in force, in the units of the wire."""
    return msgspec.json.encode(
        {
            "cpuCores": limits.cpu_cores,
            "memoryGB": round(limits.memory_bytes / 1024**3, 3),
            "diskSizeGB": round(limits.disk_bytes / 1024**3, 3),
            "processes": limits.processes,
        }
    )


def policy_row(policy: EgressPolicy) -> bytes:
    """A policy as JSON text."""
    lists = {"allowlist": policy.allow, "denylist": policy.deny}
    return msgspec.json.encode(lists)


def policy_of(row: Mapping[str, Any] | RowMapping) -> EgressPolicy:
    """The policy of a stored sandbox."""
    lists = msgspec.json.decode(row["policy"])
    allow, deny = lists["allowlist"], lists["denylist"]
    return EgressPolicy(
        allow=None if allow is None else tuple(allow), deny=None if deny is None else tuple(deny)
    )


def sandbox_wire(row: RowMapping | Mapping[str, Any]) -> dict[str, Any]:
    """The sandbox object: official fields in camelCase; ``limits`` and ``notes`` are ours."""
    spec = msgspec.json.decode(row["spec"])
    lists = msgspec.json.decode(row["policy"])
    return {
        "id": row["id"],
        "name": row["name"],
        "dockerImage": spec.get("docker_image"),
        "startCommand": spec.get("start_command"),
        "cpuCores": spec["cpu_cores"],
        "memoryGB": spec["memory_gb"],
        "diskSizeGB": spec.get("disk_size_gb"),
        "diskMountPath": "/workspace",
        "gpuCount": 0,
        "gpuType": None,
        "vm": bool(row["vm"]),
        "networkAllowlist": lists["allowlist"],
        "networkDenylist": lists["denylist"],
        "status": row["status"],
        "timeoutMinutes": spec["timeout_minutes"],
        "idleTimeoutMinutes": spec.get("idle_timeout_minutes"),
        "terminationReason": row["termination_reason"],
        "environmentVars": spec.get("environment_vars"),
        "secrets": spec.get("secrets"),
        "advancedConfigs": spec.get("advanced_configs"),
        "labels": msgspec.Raw(row["labels"]),
        "createdAt": timestamp(row["created_at"]),
        "updatedAt": timestamp(row["updated_at"]),
        "startedAt": _moment(row["started_at"]),
        "terminatedAt": _moment(row["terminated_at"]),
        "exitCode": row["exit_code"],
        "errorType": row["error_type"],
        "errorMessage": row["error_message"],
        "userId": row["account_id"],
        "teamId": row["team_id"],
        "region": spec.get("region"),
        "pendingImageBuildId": None,
        "limits": None if row["limits"] is None else msgspec.Raw(row["limits"]),
        "notes": msgspec.Raw(row["notes"]),
    }


def checkpoint_row(
    checkpoint_id: str,
    sandbox: RowMapping,
    parent: RowMapping | None,
    now: float,
    volume_id: str | None = None,
) -> dict[str, Any]:
    """The row of a checkpoint that is about to be made.

    Args:
        parent: the checkpoint it follows.
        volume_id: the volume it is a version of.
    """
    spec = msgspec.json.decode(sandbox["spec"])
    return {
        "id": checkpoint_id,
        "account_id": sandbox["account_id"],
        "team_id": sandbox["team_id"],
        "sandbox_id": sandbox["id"],
        "volume_id": volume_id,
        "parent_id": None if parent is None else parent["id"],
        "state": "PENDING",
        "depth": 0 if parent is None else parent["depth"] + 1,
        "docker_image": spec["docker_image"],
        "disk_size_bytes": int(spec["disk_size_gb"] * 1024**3),
        "occupied_bytes": 0,
        "created_at": now,
        "updated_at": now,
    }


def checkpoint_wire(row: RowMapping) -> dict[str, Any]:
    """The checkpoint object; ``volume_id`` is ours."""
    return {
        "id": row["id"],
        "sandbox_id": row["sandbox_id"],
        "parent_id": row["parent_id"],
        "team_id": row["team_id"],
        "state": row["state"],
        "depth": row["depth"],
        "docker_image": row["docker_image"],
        "disk_size_bytes": row["disk_size_bytes"],
        "stored_bytes": row["stored_bytes"],
        "occupied_bytes": row["occupied_bytes"],
        "error": row["error"],
        "created_at": timestamp(row["created_at"]),
        "updated_at": timestamp(row["updated_at"]),
        "volume_id": row["volume_id"],
    }


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)
