"""Traces, episodes, their uploads and texts, and the spans that traces are made of."""

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

__all__ = ["otlp_spans", "otlp_traces", "trace_episodes", "trace_texts", "trace_uploads", "traces"]

# Traces that are made of spans: how many spans there are and their bytes, of how many the trace was
# made last, and how many have come or changed since. ``user_id`` sent the last of them.
otlp_traces = Table(
    "otlp_traces",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("owner", String, nullable=False),
    Column("trace_id", String, nullable=False),
    Column("user_id", String, nullable=False),
    Column("spans", Integer, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("made", Integer, nullable=False),
    Column("pending", Integer, nullable=False),
    UniqueConstraint("owner", "trace_id"),
    Index("otlp_traces_to_make", "owner", sqlite_where=text("pending > 0")),
    sqlite_autoincrement=True,
)

# Spans as they came over OTLP, by the account or team they belong to.
otlp_spans = Table(
    "otlp_spans",
    metadata,
    Column("owner", String, primary_key=True),
    Column("trace_id", String, primary_key=True),
    Column("span_id", String, primary_key=True),
    Column("started_at", Float, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

# Traces. ``owner`` is an account's id or ``team/<id>``. One row per upload: ``digest`` names the
# file of its lines, ``cut`` says that some of its rows have been deleted since.
trace_uploads = Table(
    "trace_uploads",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("owner", String, nullable=False),
    Column("digest", String, nullable=False),
    Column("line_format", String, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("context", String, nullable=False),
    Column("user_id", String, nullable=False),
    Column("size", Integer, nullable=False),
    Column("cut", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("owner", "digest"),
    Index("trace_uploads_by_digest", "digest"),
    sqlite_autoincrement=True,
)

# One row per copy of a trace; ``current`` is the newest one, ``offset`` and ``length`` its place in
# its upload. ``extras`` is JSON that lists show. ``searchable`` says that its texts are indexed.
traces = Table(
    "traces",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("owner", String, nullable=False),
    Column("trace_id", String, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("current", Boolean, nullable=False),
    Column("searchable", Boolean, nullable=False),
    Column("upload", Integer, nullable=False),
    Column("offset", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("ingested_at", Float, nullable=False),
    Column("episode_id", String),
    Column("run_id", String),
    Column("run_step", Integer),
    Column("environment_id", String),
    Column("model_provider", String),
    Column("model_id", String),
    Column("task_id", String),
    Column("agent_name", String),
    Column("reward", Float),
    Column("outcome", String),
    Column("has_error", Boolean, nullable=False),
    Column("is_truncated", Boolean, nullable=False),
    Column("duration_ms", Integer, nullable=False),
    Column("total_tokens", Integer, nullable=False),
    Column("extras", LargeBinary, nullable=False),
    Index("traces_by_id", "owner", "trace_id", "generation", unique=True),
    Index("traces_by_time", "owner", "created_at"),
    Index("traces_by_run", "owner", "run_id", "created_at"),
    Index("traces_by_episode", "owner", "episode_id", "created_at"),
    *(
        Index(
            f"traces_by_{name}",
            "owner",
            column,
            "created_at",
            sqlite_where=text(f"current = 1 AND {column} IS NOT NULL"),
        )
        for name, column in (
            ("environment", "environment_id"),
            ("model", "model_id"),
            ("task", "task_id"),
            ("agent", "agent_name"),
            ("outcome", "outcome"),
        )
    ),
    Index(
        "traces_with_error",
        "owner",
        "created_at",
        sqlite_where=text("current = 1 AND has_error = 1"),
    ),
    Index("traces_by_upload", "upload"),
    Index("traces_to_index", "number", sqlite_where=text("searchable = 0")),
    sqlite_autoincrement=True,
)

trace_episodes = Table(
    "trace_episodes",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("owner", String, nullable=False),
    Column("episode_id", String, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("current", Boolean, nullable=False),
    Column("upload", Integer, nullable=False),
    Column("offset", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("ingested_at", Float, nullable=False),
    Column("run_id", String),
    Column("environment_id", String),
    Column("outcome", String),
    Column("has_error", Boolean, nullable=False),
    Column("error_type", String),
    Column("error_message", String),
    Index("trace_episodes_by_id", "owner", "episode_id", "generation", unique=True),
    Index("trace_episodes_by_time", "owner", "created_at"),
    Index("trace_episodes_by_run", "owner", "run_id", "created_at"),
    Index("trace_episodes_by_upload", "upload"),
    sqlite_autoincrement=True,
)

# Pieces of the texts of a trace. The words in them are in the full-text table ``trace_words``,
# under the same number; it keeps no text, and what it says of numbers that are gone is passed over.
trace_texts = Table(
    "trace_texts",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("trace", Integer, nullable=False),
    Index("trace_texts_by_trace", "trace"),
    sqlite_autoincrement=True,
)
