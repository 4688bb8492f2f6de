"""Wire models of the images API; no I/O here."""

from __future__ import annotations

import enum
from typing import Any, ClassVar

from msgspec import field

from prime_async.models import Record

__all__ = [
    "BuildImageResponse",
    "BulkBuildImageResponse",
    "ENDED_BUILDS",
    "ImageArtifactType",
    "ImageBuild",
    "ImageBuildStatus",
    "ImageCoordinateState",
    "ImageListItem",
    "ImageListResponse",
    "ImageMutationError",
    "ImageOwner",
    "ImageOwnerType",
    "ImageUpdateResult",
    "ImageVisibility",
    "PersonalImageOwner",
    "PlatformImageOwner",
    "SourceImageBuildResult",
    "TeamImageOwner",
    "UpdateImagesResponse",
]


class ImageBuildStatus(enum.StrEnum):
    """The statuses known to this version; models hold plain text, so that others may appear."""

    PENDING = "PENDING"
    UPLOADING = "UPLOADING"
    BUILDING = "BUILDING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


ENDED_BUILDS = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
"""Statuses that never change again."""


class ImageVisibility(enum.StrEnum):
    """Who may use an image."""

    PRIVATE = "PRIVATE"
    PUBLIC = "PUBLIC"


class ImageOwnerType(enum.StrEnum):
    """What kind of owner an image has."""

    PERSONAL = "personal"
    TEAM = "team"
    PLATFORM = "platform"


class ImageArtifactType(enum.StrEnum):
    """The forms of an image that are known to this version."""

    VM_SANDBOX = "VM_SANDBOX"


class ImageOwner(Record):
    """Whose an image is; see :class:`ImageOwnerType`."""

    type: str
    team_id: str | None = field(default=None, name="teamId")


class PersonalImageOwner(ImageOwner):
    """The account that asks."""

    type: str = "personal"


class TeamImageOwner(ImageOwner):
    """A team, by its `team_id`."""

    type: str = "team"


class PlatformImageOwner(ImageOwner):
    """Nobody in particular: everybody may use it."""

    type: str = "platform"


class ImageListItem(Record):
    """One form of an image.

    Attributes:
        artifact_type: see :class:`ImageArtifactType`; other text may appear.
        status: see :class:`ImageBuildStatus`; ``error_message`` says why it failed.
        full_image_path: what sandboxes are made from.
        size_bytes: its size, once it is built.
        created_at, started_at, completed_at, pushed_at: ISO 8601 text, as sent.
        display_ref: how people write it.
    """

    id: str
    artifact_type: str = "VM_SANDBOX"
    image_name: str = ""
    image_tag: str = ""
    status: str = "PENDING"
    full_image_path: str | None = None
    error_message: str | None = None
    size_bytes: int | None = None
    visibility: str = "PRIVATE"
    created_at: str | None = None
    started_at: str | None = None
    completed_at: str | None = None
    pushed_at: str | None = None
    team_id: str | None = None
    owner_type: str = "personal"
    display_ref: str | None = None


class ImageListResponse(Record):
    """One page of images.

    Attributes:
        data: an image that has several forms has a row for each, so that there may be more rows
            than `limit`.
        total_count: counts images, not rows; None where the platform does not tell.
    """

    data: list[ImageListItem] = field(default_factory=list)
    total_count: int | None = None
    offset: int = 0
    limit: int = 100
    status: str | None = None


class BuildImageResponse(Record):
    """A build that was begun.

    Attributes:
        build_ids: of all its forms.
        upload_url: where its context goes, as a gzipped tar, within `expires_in` seconds; whoever
            has it may write there, so it is not shown.
        full_image_path: what sandboxes will be made from.
    """

    build_id: str
    build_ids: list[str] = field(default_factory=list)
    upload_url: str | None = None
    expires_in: int | None = None
    full_image_path: str = ""
    visibility: str | None = None

    def __repr__(self) -> str:
        return (
            f"BuildImageResponse(build_id={self.build_id!r}, "
            f"full_image_path={self.full_image_path!r})"
        )


class SourceImageBuildResult(Record):
    """What became of one of several sources: a build, or an error that may pass by."""

    source_image: str
    build: BuildImageResponse | None = None
    error: str | None = None
    retryable: bool = False


class BulkBuildImageResponse(Record):
    """What became of several sources, in their order."""

    results: list[SourceImageBuildResult] = field(default_factory=list)


class ImageBuild(Record):
    """How a build is doing.

    Attributes:
        status: see :class:`ImageBuildStatus`; other text may appear.
        error_message: why it failed.
        full_image_path: what sandboxes are made from.
    """

    other_names: ClassVar = {"build_id": ("id",)}

    build_id: str | None = None
    status: str = "PENDING"
    error_message: str | None = None
    full_image_path: str | None = None


class ImageCoordinateState(Record):
    """An image before or after a change."""

    owner: ImageOwner | None = None
    name: str | None = None
    tag: str | None = None
    visibility: str | None = None


class ImageMutationError(Record):
    """Why an image was not changed."""

    code: str = ""
    message: str = ""


class ImageUpdateResult(Record):
    """What became of one change."""

    source: dict[str, Any] | None = None
    success: bool = False
    before: ImageCoordinateState | None = None
    after: ImageCoordinateState | None = None
    error: ImageMutationError | None = None


class UpdateImagesResponse(Record):
    """What became of all changes; ``success`` is False when one of them was refused."""

    success: bool = False
    dry_run: bool = False
    results: list[ImageUpdateResult] = field(default_factory=list)
