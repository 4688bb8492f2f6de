"""Accounts with their keys and teams, and what is kept for any area: repeats, leases."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, String, Table, UniqueConstraint

from prime_async.server.store.schema.base import metadata

__all__ = ["accounts", "api_keys", "idempotency_keys", "leases", "team_members", "teams"]

accounts = Table(
    "accounts",
    metadata,
    Column("id", String, primary_key=True),
    Column("slug", String, nullable=False, unique=True),
    Column("name", String, nullable=False),
    Column("email", String, nullable=False),
    Column("created_at", Float, nullable=False),
)

# Keys are 128 bits or more of randomness, so a plain digest is enough to keep them unreadable.
api_keys = Table(
    "api_keys",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("account_id", String, nullable=False),
    Column("label", String, nullable=False),
    Column("created_at", Float, nullable=False),
)

teams = Table(
    "teams",
    metadata,
    Column("id", String, primary_key=True),
    Column("slug", String, nullable=False, unique=True),
    Column("name", String, nullable=False),
    Column("created_at", Float, nullable=False),
)

team_members = Table(
    "team_members",
    metadata,
    Column("team_id", String, primary_key=True),
    Column("account_id", String, primary_key=True),
    Column("role", String, nullable=False),
    Column("created_at", Float, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("scope", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("status", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("expires_at", Float, nullable=False),
    Index("idempotency_keys_by_expiry", "expires_at"),
)

leases = Table(
    "leases",
    metadata,
    Column("token", Integer, primary_key=True),
    Column("kind", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("action", String, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("failures", Integer, nullable=False),
    UniqueConstraint("kind", "subject"),
    Index("leases_by_due_time", "due_at"),
    sqlite_autoincrement=True,
)
