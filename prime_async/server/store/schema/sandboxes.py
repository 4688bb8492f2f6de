"""Sandboxes, their checkpoints, volumes and exposed ports."""

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
)

from prime_async.server.store.schema.base import metadata

__all__ = [
    "checkpoints",
    "exposures",
    "sandbox_labels",
    "sandbox_uploads",
    "sandboxes",
    "volume_mounts",
    "volumes",
]

# ``spec`` is the request as it is shown again (secrets masked), ``runtime`` what it takes to adopt
# the sandbox: set as long as something of it may exist on this machine. All JSON texts.
# ``checkpoint_id`` is the checkpoint its next one will follow.
sandboxes = Table(
    "sandboxes",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("account_id", String, nullable=False),
    Column("team_id", String),
    Column("name", String, nullable=False),
    Column("vm", Boolean, nullable=False),
    Column("status", String, nullable=False),
    Column("spec", LargeBinary, nullable=False),
    Column("labels", LargeBinary, nullable=False),
    Column("notes", LargeBinary, nullable=False),
    Column("limits", LargeBinary),
    Column("runtime", LargeBinary),
    Column("policy", LargeBinary, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("applied_generation", Integer, nullable=False),
    Column("request_key", String),
    Column("request_digest", LargeBinary),
    Column("exit_code", Integer),
    Column("error_type", String),
    Column("error_message", String),
    Column("termination_reason", String),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("started_at", Float),
    Column("terminated_at", Float),
    Column("checkpoint_id", String),
    UniqueConstraint("account_id", "request_key"),
    Index("sandboxes_by_account", "account_id"),
    Index("sandboxes_by_team", "team_id"),
    Index("sandboxes_by_status", "status"),
    sqlite_autoincrement=True,
)

sandbox_labels = Table(
    "sandbox_labels",
    metadata,
    Column("label", String, primary_key=True),
    Column("sandbox", Integer, primary_key=True),
)

# Uploads in flight, so that what a killed server or client left of them can be found and removed;
# ``path`` is the name inside, as bytes.
sandbox_uploads = Table(
    "sandbox_uploads",
    metadata,
    Column("upload_id", String, primary_key=True),
    Column("sandbox_id", String, nullable=False),
    Column("path", LargeBinary, nullable=False),
    Column("resumable", Boolean, nullable=False),
    Column("updated_at", Float, nullable=False),
    Index("sandbox_uploads_by_sandbox", "sandbox_id"),
)

# Of a sandbox, or, with a ``volume_id``, of a volume that was published from it. What is stored is
# a file named after the id; it counts when the state is DURABLE.
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("account_id", String, nullable=False),
    Column("team_id", String),
    Column("sandbox_id", String, nullable=False),
    Column("volume_id", String),
    Column("parent_id", String),
    Column("state", String, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("docker_image", String, nullable=False),
    Column("disk_size_bytes", Integer, nullable=False),
    Column("stored_bytes", Integer),
    Column("occupied_bytes", Integer, nullable=False),
    Column("error", String),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Index("checkpoints_by_sandbox", "sandbox_id"),
    Index("checkpoints_by_volume", "volume_id"),
    sqlite_autoincrement=True,
)

# ``scope`` is the team or the account a name is unique in.
volumes = Table(
    "volumes",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("account_id", String, nullable=False),
    Column("team_id", String),
    Column("scope", String, nullable=False),
    Column("name", String, nullable=False),
    Column("head_checkpoint_id", String),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("scope", "name"),
    sqlite_autoincrement=True,
)

# ``base_checkpoint_id`` is the head that the sandbox has seen: its own publish, or its start.
volume_mounts = Table(
    "volume_mounts",
    metadata,
    Column("sandbox_id", String, primary_key=True),
    Column("mount_path", String, primary_key=True),
    Column("volume_id", String, nullable=False),
    Column("read_only", Boolean, nullable=False),
    Column("base_checkpoint_id", String),
    Index("volume_mounts_by_volume", "volume_id"),
)

exposures = Table(
    "exposures",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("sandbox_id", String, nullable=False),
    Column("port", Integer, nullable=False),
    Column("protocol", String, nullable=False),
    Column("name", String),
    Column("external_port", Integer),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("sandbox_id", "port", "protocol"),
    sqlite_autoincrement=True,
)
