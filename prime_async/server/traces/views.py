"""Rows as the wire shows them; the shapes are those of :mod:`prime_async.traces.models`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from prime_async.server.clock import timestamp

__all__ = ["episode_summary", "run_summary", "trace_summary"]


def trace_summary(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A trace as lists show it: all but its tools, which may be large."""
    return {
        "trace_id": row["trace_id"],
        "upload_id": row["digest"],
        "episode_id": row["episode_id"],
        "created_at": timestamp(row["created_at"]),
        "ingested_at": timestamp(row["ingested_at"]),
        "run_id": row["run_id"],
        "environment_id": row["environment_id"],
        "model": {"provider": row["model_provider"], "id": row["model_id"]},
        "task_id": row["task_id"],
        "agent_name": row["agent_name"],
        "score": {"reward": row["reward"], "outcome": row["outcome"]},
        "execution": {"has_error": row["has_error"], "is_truncated": row["is_truncated"]},
        "duration_ms": row["duration_ms"],
        "total_tokens": row["total_tokens"],
        "size_bytes": row["length"],
        "context": msgspec.json.decode(row["context"]),
        "user_id": row["user_id"],
        "run_step": row["run_step"],
        "generation": row["generation"],
        **msgspec.json.decode(row["extras"]),
    }


def episode_summary(row: Mapping[Any, Any]) -> dict[str, Any]:
    """An episode as lists show it."""
    return {
        "episode_id": row["episode_id"],
        "upload_id": row["digest"],
        "schema_version": row["schema_version"],
        "created_at": timestamp(row["created_at"]),
        "ingested_at": timestamp(row["ingested_at"]),
        "run_id": row["run_id"],
        "environment_id": row["environment_id"],
        "outcome": row["outcome"],
        "has_error": row["has_error"],
        "error": {"type": row["error_type"], "message": row["error_message"]},
    }


def run_summary(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run."""
    return {
        "run_id": run["run_id"],
        "first_trace_created_at": timestamp(run["first_created_at"]),
        "last_trace_created_at": timestamp(run["last_created_at"]),
        "last_trace_ingested_at": timestamp(run["last_ingested_at"]),
        "trace_count": run["trace_count"],
        "episode_count": run["episode_count"],
        "avg_reward": run["avg_reward"],
        "step_min": run["step_min"],
        "step_max": run["step_max"],
        "step_count": run["step_count"],
        "has_error": run["has_error"],
        "first_user_id": run["first_user_id"],
        "environment_ids": run["environment_ids"],
        "model_ids": run["model_ids"],
        "context": run["context"],
    }
