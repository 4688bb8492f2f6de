"""How jobs look in tables and documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prime_async_cli.tables import Column

__all__ = ["JOBS", "LISTED", "row_of", "state_of"]


def state_of(status: Any) -> str:
    """Say in a word how a job is."""
    if status.error_code is not None:
        return f"unknown ({status.error_code})"
    return "completed" if status.completed else "running"


def row_of(status: Any) -> dict[str, Any]:
    """Return a status with all its fields: what is not known is null."""
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(status)
    return row


JOBS = (
    Column("SANDBOX", "sandbox_id", whole=True),
    Column("JOB", "job_id", whole=True),
    Column("STATE", "state"),
    Column("EXIT", "exit_code", right=True),
    Column("WHY", "error", drop=1),
)


def _started(row: Mapping[str, Any]) -> Any:
    import datetime

    moment = row.get("started_at")
    if moment is None:
        return None
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


LISTED = (
    Column("JOB", "job_id", whole=True),
    Column("STATE", "state"),
    Column("EXIT", "exit_code", right=True),
    Column("STARTED", _started, drop=2),
    Column("COMMAND", "command", drop=1),
)
