"""The tables as they are now; ``migrations.py`` says how a database gets there."""

from __future__ import annotations

from prime_async.server.store.schema.accounts import (
    accounts,
    api_keys,
    idempotency_keys,
    leases,
    team_members,
    teams,
)
from prime_async.server.store.schema.base import metadata
from prime_async.server.store.schema.evaluations import (
    environments,
    evaluation_environments,
    evaluations,
    pushes,
    sample_chunks,
)
from prime_async.server.store.schema.runs import (
    distributions,
    metric_rows,
    sample_objects,
    training_runs,
)
from prime_async.server.store.schema.sandboxes import (
    checkpoints,
    exposures,
    sandbox_labels,
    sandbox_uploads,
    sandboxes,
    volume_mounts,
    volumes,
)
from prime_async.server.store.schema.traces import (
    otlp_spans,
    otlp_traces,
    trace_episodes,
    trace_texts,
    trace_uploads,
    traces,
)

__all__ = [
    "accounts",
    "api_keys",
    "checkpoints",
    "distributions",
    "environments",
    "evaluation_environments",
    "evaluations",
    "exposures",
    "idempotency_keys",
    "leases",
    "metadata",
    "metric_rows",
    "otlp_spans",
    "otlp_traces",
    "pushes",
    "sample_chunks",
    "sample_objects",
    "sandbox_labels",
    "sandbox_uploads",
    "sandboxes",
    "team_members",
    "teams",
    "trace_episodes",
    "trace_texts",
    "trace_uploads",
    "traces",
    "training_runs",
    "volume_mounts",
    "volumes",
]
