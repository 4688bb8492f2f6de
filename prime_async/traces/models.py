"""What is on the wire of the traces service: typed views of its JSON, for client and server.

Fields without a default are always sent; a field that may be None is sent as null when it is not
recorded. Further fields stay readable by key (see :class:`prime_async.models.Record`). The wire
calls the entries of a page ``items``; they take the place of the mapping's method of that name.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from prime_async.models import Record

__all__ = [
    "EpisodeDetail",
    "EpisodeError",
    "EpisodeListPage",
    "EpisodeSummary",
    "EpisodeTraceAggregate",
    "Execution",
    "ModelInfo",
    "NodeMessage",
    "RunListPage",
    "RunStep",
    "RunStepList",
    "RunSummary",
    "Score",
    "TraceActivity",
    "TraceAggregate",
    "TraceCall",
    "TraceCallPage",
    "TraceGroup",
    "TraceListPage",
    "TraceNode",
    "TraceNodePage",
    "TraceSearchCoverage",
    "TraceSearchMatch",
    "TraceSearchPage",
    "TraceSummary",
    "UploadReceipt",
]


class UploadReceipt(Record):
    """A committed batch: every line of it is stored.

    Attributes:
        upload_id: SHA-256 of the uncompressed bytes, 64 hex digits.
        status: ``committed``.
        replayed: the bytes had been stored before, and nothing was stored again.
    """

    upload_id: str
    status: str
    replayed: bool = False


class ModelInfo(Record):
    """The model of a trace and who serves it."""

    provider: str | None = None
    id: str | None = None


class Score(Record):
    """How a trace was scored: the weighted sum of its rewards, and its stop condition.

    ``reward`` is None, and not 0, when nothing was scored.
    """

    reward: float | None = None
    outcome: str | None = None


class Execution(Record):
    """How a trace ended."""

    has_error: bool
    is_truncated: bool


class TraceActivity(Record):
    """What happened in a trace, counted."""

    total_entries: int = 0
    user_messages: int = 0
    model_turns: int = 0
    tool_calls: int = 0


class TraceSummary(Record):
    """One trace as lists show it.

    Attributes:
        upload_id: the batch it came in.
        created_at: when the rollout began; ``ingested_at``: when the service stored it.
        duration_ms: from its begin to the end of its last phase.
        total_tokens: tokens in all, context that was sent again counted once.
        size_bytes: of its line.
        context: what was said with the upload.
        metrics: the trace's own numbers.
        tool_definitions: the tools the model was offered.
    """

    trace_id: str
    upload_id: str
    created_at: datetime
    ingested_at: datetime
    model: ModelInfo
    score: Score
    execution: Execution
    duration_ms: int
    total_tokens: int
    size_bytes: int
    context: dict[str, str]
    episode_id: str | None = None
    run_id: str | None = None
    environment_id: str | None = None
    task_id: str | None = None
    agent_name: str | None = None
    user_id: str | None = None
    run_step: int | None = None
    metrics: dict[str, float | None] = msgspec.field(default_factory=dict)
    activity: TraceActivity | None = None
    tool_definitions: list[dict[str, Any]] = msgspec.field(default_factory=list)


class TraceListPage(Record):
    """A page of traces; ``next_cursor`` is None on the last one."""

    items: list[TraceSummary]  # type: ignore[assignment]
    next_cursor: str | None = None


class EpisodeError(Record):
    """What ended an episode."""

    type: str | None = None
    message: str | None = None


class EpisodeSummary(Record):
    """One episode as lists show it; outcome and errors are those of its envelope."""

    episode_id: str
    upload_id: str
    schema_version: int
    created_at: datetime
    ingested_at: datetime
    has_error: bool
    error: EpisodeError = msgspec.field(default_factory=EpisodeError)
    run_id: str | None = None
    environment_id: str | None = None
    outcome: str | None = None


class EpisodeListPage(Record):
    """A page of episodes; ``next_cursor`` is None on the last one."""

    items: list[EpisodeSummary]  # type: ignore[assignment]
    next_cursor: str | None = None


class EpisodeTraceAggregate(Record):
    """The traces of an episode, added up."""

    trace_count: int
    total_tokens: int
    total_duration_ms: int
    any_trace_error: bool
    agent_names: list[str]


class EpisodeDetail(EpisodeSummary, kw_only=True):
    """One episode with the totals of its traces."""

    traces: EpisodeTraceAggregate


class RunSummary(Record):
    """One run, which is nothing but its traces, added up.

    Attributes:
        avg_reward: over the traces that were scored; None when none was.
        step_min, step_max, step_count: of the training steps its traces name.
        context: that of its newest trace.
    """

    run_id: str
    first_trace_created_at: datetime
    last_trace_created_at: datetime
    last_trace_ingested_at: datetime
    trace_count: int
    episode_count: int
    step_count: int
    has_error: bool
    environment_ids: list[str]
    model_ids: list[str]
    context: dict[str, str]
    avg_reward: float | None = None
    step_min: int | None = None
    step_max: int | None = None
    first_user_id: str | None = None


class RunListPage(Record):
    """A page of runs, the latest stored first; ``next_cursor`` is None on the last one."""

    items: list[RunSummary]  # type: ignore[assignment]
    next_cursor: str | None = None


class RunStep(Record):
    """One training step of a run."""

    step: int
    trace_count: int
    episode_count: int
    avg_reward: float | None = None


class RunStepList(Record):
    """The training steps of a run, all of them."""

    items: list[RunStep]  # type: ignore[assignment]
    step_count: int
    step_min: int | None = None
    step_max: int | None = None


class NodeMessage(Record):
    """The message of a node, in the shape it was recorded in."""

    role: str | None = None
    content: Any = None
    reasoning_content: str | None = None
    tool_calls: Any = None
    tool_call_id: str | None = None
    name: str | None = None
    tool_name: str | None = None


class TraceNode(Record):
    """One message of a trace's graph.

    Attributes:
        node_idx: its place, from 0; ``parent_idx``: that of the message before it.
        timestamp: seconds since 1970.
        sampled: the model wrote it.
    """

    node_idx: int
    sampled: bool
    message: NodeMessage
    parent_idx: int | None = None
    timestamp: float | None = None


class TraceNodePage(Record):
    """A page of nodes; ``partial_index`` says that the trace has more than are indexed."""

    items: list[TraceNode]  # type: ignore[assignment]
    partial_index: bool
    next_cursor: str | None = None


class TraceCall(Record):
    """One call of a model within a trace; times are seconds since 1970."""

    call_idx: int
    node_idx: int | None = None
    time_start: float | None = None
    time_end: float | None = None
    model: str | None = None
    endpoint: str | None = None
    finish_reason: str | None = None


class TraceCallPage(Record):
    """A page of model calls; ``partial_index`` says that the trace has more than are indexed."""

    items: list[TraceCall]  # type: ignore[assignment]
    partial_index: bool
    next_cursor: str | None = None


class TraceSearchCoverage(Record):
    """What a search could not see when it began.

    Attributes:
        examined_traces: how many traces were searched.
        unindexed_trace_ids: at most 256 of those not indexed yet.
        partial_index: a searched trace has more nodes than are indexed.
    """

    examined_traces: int
    unindexed_trace_ids: list[str]
    partial_index: bool


class TraceSearchMatch(Record):
    """The first match in one message.

    Attributes:
        generation: which copy of the trace, when it was uploaded again with other bytes.
        field: ``content``, ``reasoning_content`` or ``tool_calls``.
        representation: ``text``, or ``json`` where the field is structured.
        match_start, match_end: place in the field, in code points from 0, the end not included.
        excerpt, excerpt_start: the text around it and where that begins.
    """

    trace_id: str
    upload_id: str
    generation: int
    node_idx: int
    role: str
    field: str
    representation: str
    match_start: int
    match_end: int
    excerpt: str
    excerpt_start: int
    episode_id: str | None = None


class TraceSearchPage(Record):
    """A page of matches, possibly empty with more to come.

    ``coverage`` comes with the first page only; None there means that it is unknown.
    """

    items: list[TraceSearchMatch]  # type: ignore[assignment]
    next_cursor: str | None = None
    coverage: TraceSearchCoverage | None = None


class TraceGroup(Record):
    """The traces that have one value in common, added up; rewards over the scored ones."""

    trace_count: int
    key: str | int | None = None
    scored_count: int = 0
    avg_reward: float | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    error_count: int = 0
    total_tokens: int = 0
    avg_duration_ms: float | None = None


class TraceAggregate(Record):
    """Traces grouped by one of their properties."""

    groups: list[TraceGroup]
