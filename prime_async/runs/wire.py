"""What run requests and answers are on the wire: training runs, metric rows, distributions, sample
objects, leases. Client and embedded platform use the same classes; no I/O here.

Bodies are plain Structs and ignore unknown fields; answers are records, so that fields unknown to
this version stay readable by key. Steps are whole numbers; times are ISO 8601 text in answers and
epoch seconds in rows (``_timestamp``).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from prime_async.models import Record

__all__ = [
    "CloseRun",
    "ConfirmSamples",
    "CreateTrainingRun",
    "Distribution",
    "DistributionPage",
    "FinalizeTrainingRun",
    "LARGEST_STEP",
    "LEASE_HEADER",
    "LeaseBody",
    "LogDistributions",
    "LogMetrics",
    "LogSamples",
    "LogTrainingDistributions",
    "LogTrainingMetrics",
    "MAX_ERROR_MESSAGE",
    "MetricPage",
    "PresignSamples",
    "PresignedUpload",
    "PresignedUploadAnswer",
    "RunKind",
    "RunLease",
    "SampleObject",
    "SampleObjectPage",
    "StoredCount",
    "TrainingEnvironment",
    "TrainingRun",
    "TrainingRunAnswer",
    "TrainingRunPage",
]

RunKind = Literal["eval", "train"]

LEASE_HEADER = "X-Prime-Run-Lease"
"""Request header of a creation: how long the run may be silent, in seconds."""

MAX_ERROR_MESSAGE = 4096
"""Characters of an ``error_message``."""

LARGEST_STEP = 2**53

Id = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(min_length=1, max_length=1000)]
Count = Annotated[int, Meta(ge=0, le=LARGEST_STEP)]
Step = Annotated[int, Meta(ge=-LARGEST_STEP, le=LARGEST_STEP)]
ErrorMessage = Annotated[str, Meta(max_length=MAX_ERROR_MESSAGE)]


class TrainingEnvironment(Struct, kw_only=True, omit_defaults=True):
    """An environment of a training run; ``id`` is a hub id, ``owner/name`` or a name, as sent."""

    id: Id
    version_id: str | None = None


class CreateTrainingRun(Struct, kw_only=True, omit_defaults=True):
    """Body of ``POST /rft/external-runs``; without ``team_id`` the run is the account's own.

    ``max_steps`` 0 means not known.
    """

    base_model: Text
    max_steps: Count = 0
    environments: Annotated[list[TrainingEnvironment], Meta(max_length=1000)] | None = None
    name: Text | None = None
    team_id: str | None = None
    batch_size: Count | None = None
    rollouts_per_example: Count | None = None
    seq_len: Count | None = None
    run_config: dict[str, Any] | None = None
    wandb_entity: str | None = None
    wandb_project: str | None = None
    wandb_run_name: str | None = None


class CloseRun(Struct, kw_only=True, omit_defaults=True):
    """Body of ``PUT /rft/external-runs/{id}/status``; ``summary`` is an addition of ours."""

    status: Literal["completed", "failed", "COMPLETED", "FAILED"]
    error_message: ErrorMessage | None = None
    summary: dict[str, Any] | UnsetType | None = UNSET


class FinalizeTrainingRun(Struct, kw_only=True, omit_defaults=True):
    """Body of ``POST /rft/finalize``; an ``exit_code`` other than 0 closes the run as failed."""

    run_id: Id
    exit_code: Annotated[int, Meta(ge=-LARGEST_STEP, le=LARGEST_STEP)] = 0
    summary: dict[str, Any] | UnsetType | None = UNSET


class LogMetrics(Struct, kw_only=True, omit_defaults=True):
    """Body of ``POST /evaluations/{id}/metric-rows``: one row or several.

    A row is an object; its ``step``, when it has one, is a whole number. Rows of one step are one
    row: a later value of a name replaces the earlier one. Rows without a step are kept one by one,
    an exact repeat of one once.
    """

    metrics: dict[str, Any] | None = None
    rows: Annotated[list[dict[str, Any]], Meta(max_length=20_000)] | None = None


class LogTrainingMetrics(LogMetrics, kw_only=True, omit_defaults=True):
    """Body of ``POST /rft/metrics``; ``rows`` is ours (feature ``run-metrics-batch``)."""

    run_id: Id


Values = list[float | None]
Named = Annotated[dict[Text, Values], Meta(min_length=1, max_length=1000)]


class LogDistributions(Struct, kw_only=True, omit_defaults=True):
    """Body of ``POST /evaluations/{id}/distributions``: names to values (null for a number that
    JSON has not). A repeat for the same step replaces the values of a name.
    """

    distributions: Named
    step: Step | None = None


class LogTrainingDistributions(LogDistributions, kw_only=True, omit_defaults=True):
    """Body of ``POST /rft/distributions``."""

    run_id: Id


class PresignSamples(Struct, kw_only=True):
    """Body of ``POST /rft/samples/presign``."""

    run_id: Id
    step: Step


class ConfirmSamples(Struct, kw_only=True):
    """Body of ``POST /rft/samples/confirm``."""

    run_id: Id
    step: Step
    s3_key: Id


class LogSamples(Struct, kw_only=True):
    """Body of ``POST /rft/samples``: sample rows inside the request."""

    run_id: Id
    step: Step
    samples: Annotated[list[dict[str, Any]], Meta(min_length=1)]


class LeaseBody(Struct, kw_only=True):
    """Body of a lease: the run is thought dead when nobody renews it for so many seconds."""

    seconds: Annotated[float, Meta(ge=1, le=86400)] = 90.0


class RunLease(Record):
    """A run's lease: when it ends (ISO 8601), in how many seconds."""

    run_id: str
    expires_at: str
    seconds: float


class TrainingRun(Record, rename="camel"):
    """One training run that reports from elsewhere.

    Attributes:
        id: the platform's id.
        status: RUNNING, COMPLETED or FAILED.
        error_message: why it failed; ``cancelled: …`` and ``crashed: …`` begin so.
        kind: EXTERNAL: the platform does not run it.
        environments: as sent, ``{"id": …}`` each.
        run_config, summary: free-form objects.
        latest_step: the largest step a metric row has, None without one.
    """

    id: str
    status: str
    kind: str = "EXTERNAL"
    name: str | None = None
    user_id: str | None = None
    team_id: str | None = None
    base_model: str | None = None
    environments: list[dict[str, Any]] = field(default_factory=list)
    run_config: dict[str, Any] | None = None
    summary: dict[str, Any] | None = None
    max_steps: int | None = None
    batch_size: int | None = None
    rollouts_per_example: int | None = None
    seq_len: int | None = None
    wandb_entity: str | None = None
    wandb_project: str | None = None
    wandb_run_name: str | None = None
    latest_step: int | None = None
    error_message: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    started_at: str | None = None
    completed_at: str | None = None


class TrainingRunAnswer(Record):
    """Answer that holds one training run."""

    run: TrainingRun


class TrainingRunPage(Record):
    """One page of training runs, newest first."""

    runs: list[TrainingRun] = field(default_factory=list)
    next_cursor: str | None = None


class StoredCount(Record):
    """Answer to rows, distributions or samples: how many of them were new, and how many changed
    something that was stored already.
    """

    stored: int
    updated: int = 0


class MetricPage(Record):
    """One page of metric rows by step; rows without a step come first, as they arrived."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    next_cursor: str | None = None


class Distribution(Record):
    """The values of one name at one step, as they were sent last; ``values`` on the wire."""

    name: str
    step: int | None = None
    numbers: list[float | None] = field(default_factory=list, name="values")
    created_at: str | None = None


class DistributionPage(Record):
    """One page of distributions by step, then name."""

    distributions: list[Distribution] = field(default_factory=list)
    next_cursor: str | None = None


class PresignedUpload(Record, rename="camel"):
    """Where samples may be PUT once, without a key, and the name to confirm them by."""

    presigned_url: str
    s3_key: str
    expires_in: int


class PresignedUploadAnswer(Record):
    """Answer of a presign; older clients read the two fields beside ``data``."""

    data: PresignedUpload
    presigned_url: str
    s3_key: str


class SampleObject(Record):
    """Samples of one step as one stored object.

    Attributes:
        key: its name within the run (``s3_key`` when it was uploaded).
        format: ``parquet``, or ``json`` (an array of sample rows).
        size_bytes, sha256: of the object.
    """

    key: str
    step: int
    format: str
    size_bytes: int
    sha256: str
    created_at: str | None = None


class SampleObjectPage(Record):
    """One page of sample objects, by step and arrival."""

    objects: list[SampleObject] = field(default_factory=list)
    next_cursor: str | None = None
