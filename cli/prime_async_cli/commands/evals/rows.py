"""How evaluations and samples look in tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prime_async_cli.tables import Column

__all__ = ["EVALUATIONS", "SAMPLES", "evaluation_fields"]


def _environment(row: Mapping[str, Any]) -> Any:
    names = row.get("environment_names") or [row.get("dataset")]
    return names[0]


def _id(row: Mapping[str, Any]) -> Any:
    return row.get("evaluation_id") or row.get("id")


def _message_text(value: Any) -> Any:
    """The text of the last message; other shapes as they are."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        return value[-1].get("content")
    return value


EVALUATIONS = (
    Column("ID", _id, whole=True),
    Column("NAME", "name", drop=2),
    Column("ENVIRONMENT", _environment, drop=4),
    Column("MODEL", "model_name", drop=3),
    Column("STATUS", "status", drop=1),
    Column("SAMPLES", "total_samples", drop=5, right=True),
    Column("CREATED", "created_at", drop=6),
)

SAMPLES = (
    Column("INDEX", "_index", whole=True, right=True),
    Column("EXAMPLE", "example_id", drop=3),
    Column("REWARD", "reward", drop=1, right=True),
    Column("ANSWER", "answer", drop=4),
    Column("COMPLETION", lambda row: _message_text(row.get("completion")), drop=2),
)

_FIRST = ("evaluation_id", "name", "status", "model_name", "environment_names", "total_samples")


def evaluation_fields(evaluation: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return every field that is set, the ones people look for first; ``id`` is a second name of
    the first.
    """
    rest = [name for name in evaluation if name not in (*_FIRST, "id")]
    return [
        (name, evaluation[name])
        for name in (*_FIRST, *rest)
        if evaluation.get(name) not in (None, [], {})
    ]
