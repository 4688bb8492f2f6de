"""Evaluations, the environments they name, and their samples."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    UniqueConstraint,
    text,
)

from prime_async.server.store.schema.base import metadata

__all__ = ["environments", "evaluation_environments", "evaluations", "pushes", "sample_chunks"]

environments = Table(
    "environments",
    metadata,
    Column("id", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("name", String, nullable=False),
    Column("account_id", String, nullable=False),
    Column("team_id", String),
    Column("visibility", String, nullable=False),
    Column("description", String),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    UniqueConstraint("owner", "name"),
)

# ``number`` gives the order of creation; ``metadata`` and ``metrics`` are the JSON text as it was
# sent.
evaluations = Table(
    "evaluations",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("account_id", String, nullable=False),
    Column("team_id", String),
    Column("name", String, nullable=False),
    Column("model_name", String),
    Column("dataset", String),
    Column("framework", String),
    Column("task_type", String),
    Column("description", String),
    Column("suite_id", String),
    Column("run_id", String),
    Column("is_public", Boolean, nullable=False),
    Column("tags", LargeBinary, nullable=False),
    Column("metadata", LargeBinary),
    Column("metrics", LargeBinary),
    Column("status", String, nullable=False),
    Column("total_samples", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("finalized_at", Float),
    Column("error_message", String),
    # Closed because its client was silent, not by its client: the client may come back.
    Column("lapsed", Boolean, nullable=False, server_default=text("0")),
    Index("evaluations_by_account", "account_id"),
    Index("evaluations_by_team", "team_id"),
    sqlite_autoincrement=True,
)

evaluation_environments = Table(
    "evaluation_environments",
    metadata,
    Column("evaluation", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("environment_id", String, nullable=False),
    Column("version_id", String),
    Index("evaluations_by_environment", "environment_id"),
)

# One row per push; ``number`` is the order of first arrival and so the first half of the samples'
# order.
pushes = Table(
    "pushes",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("evaluation", Integer, nullable=False),
    Column("push_id", String, nullable=False),
    Column("stored", Integer, nullable=False),
    UniqueConstraint("evaluation", "push_id"),
    sqlite_autoincrement=True,
)

# Samples ``start .. start + count`` of one push, never overlapping: their JSON texts joined by
# commas, and where each one begins (uint32, little endian, one more for the end). ``data`` is last
# so that reading the rest skips it.
sample_chunks = Table(
    "sample_chunks",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("evaluation", Integer, nullable=False),
    Column("push", Integer, nullable=False),
    Column("start", Integer, nullable=False),
    Column("count", Integer, nullable=False),
    Column("offsets", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("sample_chunks_in_order", "evaluation", "push", "start", "count", unique=True),
)
