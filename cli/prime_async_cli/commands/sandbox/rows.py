"""How sandboxes and their files look in tables and documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prime_async_cli.tables import Column

__all__ = [
    "CHECKPOINTS",
    "EXPOSURES",
    "FILES",
    "SANDBOXES",
    "VOLUMES",
    "file_row",
    "masked",
    "sandbox_fields",
    "set_fields",
]

_HIDDEN = "***"
_MASKED = ("environmentVars", "environment_vars", "secrets")


def _resources(row: Mapping[str, Any]) -> str:
    return f"{_number(row.get('cpuCores'))} CPU, {_number(row.get('memoryGB'))} GB"


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else "?"


def _state(row: Mapping[str, Any]) -> Any:
    reason = row.get("errorType")
    return f"{row.get('status')} ({reason})" if reason else row.get("status")


SANDBOXES = (
    Column("ID", "id", whole=True),
    Column("NAME", "name", drop=1),
    Column("IMAGE", "dockerImage", drop=3),
    Column("STATUS", _state),
    Column("RESOURCES", _resources, drop=4),
    Column("LABELS", "labels", drop=5),
    Column("CREATED", "createdAt", drop=2),
)

FILES = (
    Column("MODE", "permissions", drop=2),
    Column("SIZE", "size", drop=1, right=True),
    Column("CHANGED", "modified_at", drop=3),
    Column("PATH", "shown", whole=True),
)

CHECKPOINTS = (
    Column("ID", "id", whole=True),
    Column("STATE", "state"),
    Column("DEPTH", "depth", drop=2, right=True),
    Column("BYTES", "occupied_bytes", drop=1, right=True),
    Column("CREATED", "created_at", drop=3),
)

VOLUMES = (
    Column("NAME", "name", whole=True),
    Column("HEAD", "head_checkpoint_id", drop=2),
    Column("BYTES", "occupied_bytes", drop=1, right=True),
    Column("CREATED", "created_at", drop=3),
)

EXPOSURES = (
    Column("ID", "exposure_id", whole=True),
    Column("SANDBOX", "sandbox_id", whole=True),
    Column("PORT", "port", right=True),
    Column("NAME", "name", drop=2),
    Column("ADDRESS", lambda row: row.get("external_endpoint") or row.get("url"), drop=1),
)

_FIRST = ("id", "name", "status", "errorType", "errorMessage", "dockerImage", "notes")


def masked(sandbox: Any) -> dict[str, Any]:
    """Return a sandbox as the platform sends it, the values of its environment hidden."""
    row = dict(sandbox.to_wire())
    row.pop("gatewayAuth", None)  # a token: nobody's to read
    for key in _MASKED:
        if isinstance(row.get(key), Mapping):
            row[key] = dict.fromkeys(row[key], _HIDDEN)
    return row


def sandbox_fields(row: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return every field that is set, the ones people look for first."""
    names = [*_FIRST, *(name for name in row if name not in _FIRST)]
    return set_fields({name: row.get(name) for name in names})


def set_fields(row: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return every field that is set."""
    return [(name, value) for name, value in row.items() if value not in (None, [], {})]


def file_row(entry: Any) -> dict[str, Any]:
    """Return one entry of a folder, with the columns that only the table has."""
    import stat

    kinds = {"directory": stat.S_IFDIR, "symlink": stat.S_IFLNK, "file": stat.S_IFREG}
    row = dict(entry.to_wire())
    row["permissions"] = stat.filemode(kinds.get(entry.type, 0) | entry.mode)
    end = "/" if entry.type == "directory" else ""
    row["shown"] = entry.path + end + (f" -> {entry.target}" if entry.target else "")
    return row
