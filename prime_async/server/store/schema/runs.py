"""Training runs, and what runs of either kind report."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Index, Integer, LargeBinary, String, Table, text

from prime_async.server.store.schema.base import metadata

__all__ = ["distributions", "metric_rows", "sample_objects", "training_runs"]

# Runs that train elsewhere and report here; objects are the JSON text as it was sent. ``lapsed`` as
# for evaluations.
training_runs = Table(
    "training_runs",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("account_id", String, nullable=False),
    Column("team_id", String),
    Column("name", String, nullable=False),
    Column("base_model", String, nullable=False),
    Column("environments", LargeBinary, nullable=False),
    Column("run_config", LargeBinary),
    Column("summary", LargeBinary),
    Column("max_steps", Integer, nullable=False),
    Column("batch_size", Integer),
    Column("rollouts_per_example", Integer),
    Column("seq_len", Integer),
    Column("wandb_entity", String),
    Column("wandb_project", String),
    Column("wandb_run_name", String),
    Column("status", String, nullable=False),
    Column("error_message", String),
    Column("lapsed", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("completed_at", Float),
    Index("training_runs_by_account", "account_id"),
    Index("training_runs_by_team", "team_id"),
    sqlite_autoincrement=True,
)

# Of evaluations (kind ``eval``) and training runs (``train``), by the run's number. One row per
# step; rows without a step are told apart by the digest of their text.
metric_rows = Table(
    "metric_rows",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("kind", String, nullable=False),
    Column("run", Integer, nullable=False),
    Column("step", Integer),
    Column("digest", LargeBinary),
    Column("data", LargeBinary, nullable=False),
    Index("metric_rows_by_step", "kind", "run", "step", unique=True),
    Index("metric_rows_by_digest", "kind", "run", "digest", unique=True),
)

# As metric rows, one per name.
distributions = Table(
    "distributions",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("kind", String, nullable=False),
    Column("run", Integer, nullable=False),
    Column("step", Integer),
    Column("name", String, nullable=False),
    Column("digest", LargeBinary),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),
    Index("distributions_by_step", "kind", "run", "step", "name", unique=True),
    Index("distributions_by_digest", "kind", "run", "name", "digest", unique=True),
)

# Files of samples of training runs. ``token`` is the digest of what lets its holder upload one;
# ``sha256`` is set once the file is whole, ``confirmed`` once its owner said so.
sample_objects = Table(
    "sample_objects",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("key", String, nullable=False, unique=True),
    Column("run", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("format", String),
    Column("size", Integer, nullable=False),
    Column("sha256", LargeBinary),
    Column("token", LargeBinary, unique=True),
    Column("expires_at", Float),
    Column("confirmed", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Index("sample_objects_by_step", "run", "step"),
    Index("sample_objects_by_content", "run", "step", "sha256"),
    Index("sample_objects_to_confirm", "expires_at", sqlite_where=text("confirmed = 0")),
)
