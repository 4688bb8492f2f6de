"""What ``init`` takes: checked, completed from environment and files, before anything is sent."""

from __future__ import annotations

import enum
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from prime_async.errors import UsageError
from prime_async.requests import check_range
from prime_async.runs.errors import ConfigurationError
from prime_async.spool.spool import DEFAULT_MAX_BYTES
from prime_async.transport import RetryPolicy

__all__ = [
    "BatchReceipt",
    "BeforeFinish",
    "DeliveryOptions",
    "EnvironmentRef",
    "MODE_ENV",
    "OnBatch",
    "Redact",
    "RunKind",
    "RunStatus",
    "TRACES_OPT_OUT_ENV",
    "TrainingSpec",
    "checked_choice",
    "checked_seconds",
]

MODE_ENV = "PRIME_RUNS_MODE"
"""Environment variable with the default of ``mode``."""

TRACES_OPT_OUT_ENV = "PRIME_TRACES_OPT_OUT"
"""Environment variable that keeps runs away from the traces service."""

QUEUE_BYTES = 256 * 2**20
FINISH_SECONDS = 300.0
EXIT_SECONDS = 10.0
PUT_SECONDS = 5.0
CONCURRENCY = 4


class RunStatus(enum.StrEnum):
    """How a run stands. The platform knows ``completed`` and ``failed`` only: the last two are
    reported as failed, with the reason in ``error_message``.
    """

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CRASHED = "crashed"

    @property
    def ended(self) -> bool:
        """True for every status but RUNNING."""
        return self is not RunStatus.RUNNING


class RunKind(enum.StrEnum):
    """What a run is: an evaluation, or a training run."""

    EVAL = "eval"
    TRAIN = "train"


@dataclass(frozen=True, slots=True)
class EnvironmentRef:
    """An environment of a run; one of the three names, and perhaps a version.

    Attributes:
        slug: ``owner/name``; must exist.
        name: bare name; made when it does not exist.
        id: the platform's id.
        version_id: version that is meant, passed on as it is.
    """

    name: str | None = None
    slug: str | None = None
    id: str | None = None
    version_id: str | None = None

    def to_mapping(self) -> dict[str, str]:
        """Return the parts that are given."""
        parts = {"id": self.id, "slug": self.slug, "name": self.name, "version_id": self.version_id}
        return {name: part for name, part in parts.items() if part}


@dataclass(frozen=True, slots=True)
class TrainingSpec:
    """What the platform is told about a training run.

    Attributes:
        max_steps: steps it will take, 0 when unknown.
        batch_size, rollouts_per_example, seq_len: as configured.
        wandb_project, wandb_entity, wandb_run_name: where its metrics are logged besides.
    """

    max_steps: int = 0
    batch_size: int | None = None
    rollouts_per_example: int | None = None
    seq_len: int | None = None
    wandb_project: str | None = None
    wandb_entity: str | None = None
    wandb_run_name: str | None = None


@dataclass(frozen=True, slots=True)
class BatchReceipt:
    """A batch that arrived.

    Attributes:
        sink: such as ``traces`` or ``rft_metrics``.
        records: how many records it held.
        bytes: their size as JSON.
        upload_id: the platform's id of it, where there is one.
        replayed: it had arrived before, and this delivery changed nothing.
    """

    sink: str
    records: int
    bytes: int
    upload_id: str | None = None
    replayed: bool = False


class OnBatch(Protocol):
    """Called in a worker thread after each batch that arrived."""

    def __call__(self, receipt: BatchReceipt, /) -> object:
        """Take note of a receipt."""


class BeforeFinish(Protocol):
    """Called when a run begins to end."""

    def __call__(self) -> object:
        """Log what was gathered."""


class Redact(Protocol):
    """Called with each record before it is encoded, on the thread that logs it."""

    def __call__(self, record: Any, /) -> Any:
        """Return the record to log, which may be the same; None logs nothing."""


QueuePolicy = Literal["drop_new", "drop_old", "spool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOptions:
    """How records travel; see ``init`` for each."""

    on_error: Literal["warn", "raise"] = "warn"
    finish_timeout: float = FINISH_SECONDS
    exit_timeout: float = EXIT_SECONDS
    put_timeout: float = PUT_SECONDS
    queue_bytes: int = QUEUE_BYTES
    queue_policy: QueuePolicy = "drop_new"
    spool_dir: Path | None = None
    spool_bytes: int = DEFAULT_MAX_BYTES
    concurrency: int = CONCURRENCY
    gzip_level: int | None = None
    durable: bool = False
    redact: Redact | None = None
    on_batch: OnBatch | None = None
    retry: RetryPolicy | None = None

    @classmethod
    def checked(cls, **given: Any) -> DeliveryOptions:
        """Check what is given; None stands for the default.

        Raises:
            ConfigurationError: names the argument at fault.
        """
        made = {name: value for name, value in given.items() if value is not None}
        checked_choice("on_error", made.get("on_error", "warn"), ("warn", "raise"))
        _check_policy(made.get("queue_policy", "drop_new"))
        for name in ("finish_timeout", "exit_timeout", "put_timeout"):
            if name in made:
                made[name] = checked_seconds(name, made[name])
        for name in ("queue_bytes", "spool_bytes", "concurrency"):
            if name in made:
                _check_count(name, made[name])
        if "gzip_level" in made:
            _check_count("gzip_level", made["gzip_level"], 0, 9)
        for name in ("redact", "on_batch"):
            if name in made and not callable(made[name]):
                raise ConfigurationError(f"{name} cannot be called", field=name)
        if "spool_dir" in made:
            made["spool_dir"] = Path(cast("str | os.PathLike[str]", made["spool_dir"]))
        return cls(**made)


def checked_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Return a value that is one of a few words.

    Raises:
        ConfigurationError: it is none of them; the nearest is suggested.
    """
    if isinstance(value, str) and value in choices:
        return str(value.value if isinstance(value, enum.Enum) else value)
    from difflib import get_close_matches

    near = get_close_matches(str(value), choices, n=1)
    hint = f"did you mean {near[0]!r}?" if near else None
    known = ", ".join(map(repr, choices))
    raise ConfigurationError(f"{name} is {value!r}; it is one of {known}", field=name, hint=hint)


def checked_seconds(name: str, value: object) -> float:
    """Return a number of seconds.

    Raises:
        ConfigurationError: it is none, or negative.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or math.isnan(value) or value < 0:  # type: ignore[arg-type, operator]
        raise ConfigurationError(
            f"{name} is {value!r}; it must be a number of seconds, 0 or more", field=name
        )
    return float(value)  # type: ignore[arg-type]


def _check_policy(policy: object) -> None:
    if policy == "block":
        raise ConfigurationError(
            "queue_policy is 'block', which would stall the loop that logs",
            field="queue_policy",
            hint="await run.alog_traces(...) waits for room instead",
        )
    checked_choice("queue_policy", policy, ("drop_new", "drop_old", "spool"))


def _check_count(name: str, value: object, lowest: int = 1, highest: int | None = None) -> None:
    try:
        check_range(name, value, lowest, highest)  # type: ignore[arg-type]
    except UsageError as error:
        raise ConfigurationError(error.message, field=name) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What a run is, as the platform is told.

    Attributes:
        config: what is stored as its configuration; the source text under ``config_source``.
        environments: each a mapping with ``id``, ``slug`` or ``name``.
    """

    kind: RunKind
    name: str | None = None
    project: str | None = None
    model: str | None = None
    framework: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    environments: tuple[Mapping[str, Any], ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    training: TrainingSpec | None = None

    def context(self) -> dict[str, str]:
        """Return what every batch of traces says about its run."""
        parts = {
            "source": "prime-async",
            "run_type": self.kind.value,
            "framework": self.framework,
            "model": self.model,
            "project": self.project,
        }
        return {name: part for name, part in parts.items() if part}
