"""Bodies that evaluation requests carry, and the answers of our own additions to the wire. No I/O
here.

Unknown fields are ignored. ``metadata`` and ``metrics`` are free-form objects.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from prime_async.models import Record

__all__ = [
    "CreateEvaluation",
    "EnvironmentReference",
    "FinalizeEvaluation",
    "HostedEvaluationRequest",
    "PushAnswer",
    "PushSamples",
    "RefusedSample",
    "StoredPush",
    "UpdateEvaluation",
]

Id = Annotated[str, Meta(min_length=1, max_length=200)]
Name = Annotated[str, Meta(min_length=1, max_length=1000)]
ErrorMessage = Annotated[str, Meta(max_length=4096)]


class EnvironmentReference(Struct, kw_only=True):
    """An environment of an evaluation, by id; ``version_id`` is kept as sent."""

    id: Id
    version_id: str | None = None


class CreateEvaluation(Struct, kw_only=True):
    """Body of ``POST /evaluations/``; needs ``run_id`` or at least one of ``environments``."""

    name: Name
    environments: Annotated[list[EnvironmentReference], Meta(max_length=1000)] | None = None
    suite_id: str | None = None
    run_id: str | None = None
    model_name: str | None = None
    dataset: str | None = None
    framework: str | None = None
    task_type: str | None = None
    description: str | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None
    is_public: bool | None = None
    team_id: str | None = None


class UpdateEvaluation(Struct, kw_only=True):
    """Body of ``PUT /evaluations/{id}``: what is left out stays, null empties a field.

    The official clients send ``tags: []`` whenever their user gave none, so an empty list leaves
    the stored tags alone; null empties them. ``status`` closes an evaluation that did not complete.
    """

    name: Name | UnsetType = UNSET
    model_name: str | UnsetType | None = UNSET
    dataset: str | UnsetType | None = UNSET
    framework: str | UnsetType | None = UNSET
    task_type: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    tags: list[str] | UnsetType | None = UNSET
    metadata: dict[str, Any] | UnsetType | None = UNSET
    metrics: dict[str, Any] | UnsetType | None = UNSET
    status: Literal["FAILED", "CANCELLED"] | UnsetType = UNSET
    error_message: ErrorMessage | UnsetType | None = UNSET


class PushSamples(Struct, kw_only=True):
    """Body of ``POST /evaluations/{id}/samples``."""

    samples: list[dict[str, Any]]


class FinalizeEvaluation(Struct, kw_only=True):
    """Body of ``POST /evaluations/{id}/finalize``; given metrics replace the stored ones."""

    metrics: dict[str, Any] | None = None


class HostedEvaluationRequest(Struct, kw_only=True):
    """Body of ``POST /hosted-evaluations``."""

    environment_ids: Annotated[list[Id], Meta(min_length=1)]
    inference_model: Name
    eval_config: dict[str, Any]
    name: str | None = None
    team_id: str | None = None


class RefusedSample(Record):
    """A sample that was not stored: its input index, an HTTP-like status, and why."""

    index: int
    status: int
    message: str


class PushAnswer(Record):
    """What became of one request of a push.

    Attributes:
        stored: samples stored by this request.
        duplicates: samples that an earlier request of the same push had stored; they were left
            alone.
        refused: samples that will never be stored as they are.
        total_samples: how many samples the evaluation holds now.
    """

    stored: int
    duplicates: int
    refused: list[RefusedSample]
    total_samples: int


class StoredPush(Record):
    """What is stored of a push: half-open index ranges in order, and how many samples they hold."""

    push_id: str
    ranges: list[tuple[int, int]]
    stored: int
