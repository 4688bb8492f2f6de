"""Wire models of checkpoints and volumes. Both the client and the embedded platform use them."""

from __future__ import annotations

from msgspec import field

from prime_async.models import Record

__all__ = [
    "BatchCheckpointResponse",
    "CheckpointDeleteError",
    "CheckpointLookupError",
    "DeleteSandboxCheckpointsResponse",
    "SandboxCheckpoint",
    "Volume",
    "VolumeListResponse",
]


class SandboxCheckpoint(Record):
    """What the files of a sandbox, or of a volume, were at one moment.

    Attributes:
        sandbox_id: the sandbox it was made of, or published from.
        parent_id: the checkpoint before it; ``depth`` counts how many there are.
        state: ``PENDING``, ``DURABLE`` (it can be restored), ``FAILED``, ``DELETING``; other text
            may appear.
        docker_image, disk_size_bytes: what a sandbox that is made from it gets.
        stored_bytes: what it takes where it is stored.
        occupied_bytes: what its files take, without holes.
        error: why it failed.
        created_at, updated_at: ISO 8601 text, as sent.
    """

    id: str
    sandbox_id: str = ""
    parent_id: str | None = None
    team_id: str | None = None
    state: str = "PENDING"
    depth: int = 0
    docker_image: str = ""
    disk_size_bytes: int | None = None
    stored_bytes: int | None = None
    occupied_bytes: int = 0
    error: str | None = None
    created_at: str | None = None
    updated_at: str | None = None


class CheckpointLookupError(Record):
    """Why one checkpoint of a look-up is missing: ``code`` is NOT_FOUND."""

    checkpoint_id: str
    code: str = "NOT_FOUND"
    message: str = ""


class BatchCheckpointResponse(Record):
    """Many checkpoints: those that are known, and an error for each other one."""

    checkpoints: list[SandboxCheckpoint] = field(default_factory=list)
    errors: list[CheckpointLookupError] = field(default_factory=list)


class CheckpointDeleteError(Record):
    """Why one checkpoint was not deleted: ``code`` is NOT_FOUND or CONFLICT."""

    checkpoint_id: str
    code: str = "CONFLICT"
    message: str = ""


class DeleteSandboxCheckpointsResponse(Record):
    """What became of the checkpoints of a sandbox: the ids that are gone, errors for the others."""

    deleted: list[str] = field(default_factory=list)
    errors: list[CheckpointDeleteError] = field(default_factory=list)


class Volume(Record):
    """A folder that sandboxes of one owner can mount.

    Attributes:
        user_id, team_id: its owner; one of the two.
        head_checkpoint_id: the newest version that was published, None before the first.
        occupied_bytes: what that version takes.
        account_storage_used_bytes, account_storage_limit_gb: of all volumes of the owner; None in
            lists.
        created_at: ISO 8601 text, as sent.
    """

    id: str
    name: str = ""
    user_id: str | None = None
    team_id: str | None = None
    head_checkpoint_id: str | None = None
    created_at: str | None = None
    occupied_bytes: int = 0
    account_storage_used_bytes: int | None = None
    account_storage_limit_gb: int | None = None


class VolumeListResponse(Record):
    """One page of volumes; ``page`` counts from 1, ``total`` counts all."""

    volumes: list[Volume] = field(default_factory=list)
    total: int = 0
    page: int = 1
    per_page: int = 50
    has_next: bool = False
    storage_used_bytes: int | None = None
    storage_limit_gb: int | None = None
