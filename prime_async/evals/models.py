"""Wire models of the evaluations API. Both the client and the embedded platform use them; no I/O
here.

Field names are ours (snake_case); where the platform spells a field in camelCase the wire name is
given. Keys that a model does not know stay readable by key (see
:class:`~prime_async.models.Record`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import field

from prime_async.models import Record

__all__ = [
    "TERMINAL_STATUSES",
    "Evaluation",
    "EvaluationList",
    "HostedEvaluation",
    "ResolvedEnvironment",
    "SamplePage",
]

TERMINAL_STATUSES = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"})
"""Statuses that never change again."""


class Evaluation(Record):
    """One evaluation.

    Attributes:
        evaluation_id: the platform's id.
        status: PENDING, RUNNING, COMPLETED, FAILED, CANCELLED or TIMEOUT; other text may appear.
        metadata, metrics: free-form objects.
        total_samples: how many samples are stored (``total_samples`` or ``totalSamples`` on the
            wire).
        is_hosted: True when the platform runs it, False when samples are pushed by the user.
        created_at, updated_at, finalized_at: ISO 8601 text, as sent.
        viewer_url: the page that shows it, or None.
    """

    other_names: ClassVar[Mapping[str, tuple[str, ...]]] = {"evaluation_id": ("id",)}

    evaluation_id: str | None = None
    name: str | None = None
    model_name: str | None = None
    status: str | None = None
    dataset: str | None = None
    framework: str | None = None
    task_type: str | None = None
    eval_type: str | None = None
    description: str | None = None
    suite_id: str | None = None
    run_id: str | None = None
    version_id: str | None = None
    user_id: str | None = None
    team_id: str | None = None
    is_hosted: bool | None = None
    is_public: bool | None = None
    tags: list[str] | None = None
    environment_ids: list[str] | None = None
    environment_names: list[str] | None = None
    metadata: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None
    total_samples: int | None = None
    created_at: str | None = None
    updated_at: str | None = None
    finalized_at: str | None = None
    error_message: str | None = None
    viewer_url: str | None = None


class EvaluationList(Record):
    """One page of evaluations: ``total`` counts all, ``skip`` and ``limit`` name this page."""

    evaluations: list[Evaluation] = field(default_factory=list)
    total: int = 0
    skip: int = 0
    limit: int = 50


class SamplePage(Record):
    """One page of samples, in input order; ``page`` counts from 1. A sample is a plain dict, equal
    to what was pushed.
    """

    samples: list[dict[str, Any]] = field(default_factory=list)
    total: int = 0
    page: int = 1
    limit: int = 100
    has_more: bool = field(default=False, name="hasMore")


class HostedEvaluation(Record):
    """Answer to a hosted evaluation request: one id, or one per environment."""

    evaluation_id: str | None = None
    evaluation_ids: list[str] = field(default_factory=list)


class ResolvedEnvironment(Record):
    """The hub's answer to a lookup: the id, plus whatever else it knows."""

    id: str
    name: str | None = None
    created: bool | None = None
