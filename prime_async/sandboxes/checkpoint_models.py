"""Wire models of checkpoints and volumes; see :mod:`prime_async.sandboxes.models`."""

from __future__ import annotations

from msgspec import field

from prime_async.models import Record

__all__ = [
    "BatchCheckpointResponse",
    "CheckpointDeleteError",
    "CheckpointLookupError",
    "DURABLE",
    "DeleteSandboxCheckpointsResponse",
    "FAILED_STATES",
    "SandboxCheckpoint",
    "SandboxCheckpointList",
    "Volume",
    "VolumeListResponse",
]

DURABLE = "DURABLE"
"""State of a checkpoint that sandboxes can be made from."""

FAILED_STATES = frozenset({"FAILED", "DELETING"})
"""States of a checkpoint that never becomes durable."""


class SandboxCheckpoint(Record):
    """The files of a sandbox at one moment.

    Attributes:
        parent_id: the checkpoint it adds to; ``depth`` counts those below it.
        state: ``DURABLE`` when sandboxes can be made from it; ``FAILED`` and ``DELETING`` never
            become that; other text is on the way.
        docker_image: what the sandbox was made from.
        disk_size_bytes: size of its disk; ``stored_bytes``: compressed, as it is kept;
            ``occupied_bytes``: uncompressed, without holes.
        error: why it failed.
        created_at, updated_at: ISO 8601 text, as sent.
    """

    id: str
    sandbox_id: str
    parent_id: str | None = None
    team_id: str | None = None
    state: str = "PENDING"
    depth: int = 0
    docker_image: str | None = None
    disk_size_bytes: int | None = None
    stored_bytes: int | None = None
    occupied_bytes: int = 0
    error: str | None = None
    created_at: str | None = None
    updated_at: str | None = None


class SandboxCheckpointList(Record):
    """The checkpoints of one sandbox, oldest first."""

    checkpoints: list[SandboxCheckpoint] = field(default_factory=list)


class CheckpointLookupError(Record):
    """A checkpoint that does not exist, or belongs to somebody else: ``code`` is NOT_FOUND."""

    checkpoint_id: str
    code: str = "NOT_FOUND"
    message: str = ""


class BatchCheckpointResponse(Record):
    """Many checkpoints: those that are known, and an error for each other one."""

    checkpoints: list[SandboxCheckpoint] = field(default_factory=list)
    errors: list[CheckpointLookupError] = field(default_factory=list)


class CheckpointDeleteError(Record):
    """A checkpoint that was not deleted: ``code`` is NOT_FOUND or CONFLICT."""

    checkpoint_id: str
    code: str = "CONFLICT"
    message: str = ""


class DeleteSandboxCheckpointsResponse(Record):
    """What became of deleting all checkpoints of a sandbox: the ids that are gone, and the rest."""

    deleted: list[str] = field(default_factory=list)
    errors: list[CheckpointDeleteError] = field(default_factory=list)


class Volume(Record):
    """A folder that sandboxes share; each published version of it is a checkpoint.

    Attributes:
        name: unique in its account or team.
        head_checkpoint_id: the version that new sandboxes see, or None before the first.
        created_at: ISO 8601 text, as sent.
        occupied_bytes: bytes of the head.
        account_storage_used_bytes, account_storage_limit_gb: of the account or team it belongs to.
    """

    id: str
    name: str
    user_id: str | None = None
    team_id: str | None = None
    head_checkpoint_id: str | None = None
    created_at: str | None = None
    occupied_bytes: int = 0
    account_storage_used_bytes: int | None = None
    account_storage_limit_gb: float | None = None


class VolumeListResponse(Record):
    """One page of volumes; ``page`` counts from 1, ``total`` counts all."""

    volumes: list[Volume] = field(default_factory=list)
    total: int = 0
    page: int = 1
    per_page: int = 50
    has_next: bool = False
    storage_used_bytes: int | None = None
    storage_limit_gb: float | None = None
