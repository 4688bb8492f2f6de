"""The questions that can be asked about traces and episodes, as query strings say them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct
from multidict import MultiMapping

from prime_async.server.traces.refusals import refused
from prime_async.traces.codes import ErrorCode, RunType, SearchField

__all__ = [
    "EpisodeFilter",
    "EpisodeListQuery",
    "ExportQuery",
    "GroupBy",
    "MembersQuery",
    "RunListQuery",
    "SearchQuery",
    "Sort",
    "TraceFilter",
    "TraceListQuery",
    "contexts",
    "moment",
]

Sort = Literal["created_at", "reward", "duration_ms"]
GroupBy = Literal[
    "run_id", "model_id", "environment_id", "task_id", "outcome", "agent_name", "run_step"
]
Limit = Annotated[int, Meta(ge=1, le=100)]
Step = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""What the store can hold."""

_CONTEXT = "context."


class TraceFilter(Struct, kw_only=True):
    """Which traces are meant: those that fit all that is given.

    ``created_after`` includes its moment, ``created_before`` does not; bounds of the reward include
    theirs.
    """

    repeated: ClassVar[frozenset[str]] = frozenset({"upload_id"})

    run_id: str | None = None
    upload_id: list[str] = []
    environment_id: str | None = None
    model_id: str | None = None
    model_provider: str | None = None
    task_id: str | None = None
    agent_name: str | None = None
    run_step: Step | None = None
    reward_min: float | None = None
    reward_max: float | None = None
    outcome: str | None = None
    has_error: bool | None = None
    is_truncated: bool | None = None
    created_after: str | None = None
    created_before: str | None = None


class TraceListQuery(TraceFilter, kw_only=True):
    """A page of traces: newest, best or longest first."""

    sort: Sort = "created_at"
    limit: Limit = 20
    cursor: str | None = None


class ExportQuery(TraceFilter, kw_only=True):
    """All traces that fit: rows with document (``jsonl``, ``parquet``), or the documents alone."""

    format: Literal["jsonl", "parquet", "raw"] = "jsonl"


class MembersQuery(TraceFilter, kw_only=True):
    """A page of the traces of an episode, newest first."""

    limit: Limit = 20
    cursor: str | None = None


class EpisodeFilter(Struct, kw_only=True):
    """Which episodes are meant; steps and context are those of any trace in them."""

    repeated: ClassVar[frozenset[str]] = frozenset({"upload_id"})

    run_id: str | None = None
    upload_id: list[str] = []
    environment_id: str | None = None
    outcome: str | None = None
    has_error: bool | None = None
    run_step: Step | None = None
    step_min: Step | None = None
    step_max: Step | None = None
    created_after: str | None = None
    created_before: str | None = None


class EpisodeListQuery(EpisodeFilter, kw_only=True):
    """A page of episodes, newest first."""

    limit: Limit = 20
    cursor: str | None = None


class RunListQuery(Struct, kw_only=True):
    """A page of runs, those first that got traces last.

    ``created_by`` keeps the runs in which any trace is by one of these users; the times say which
    traces are added up.
    """

    repeated: ClassVar[frozenset[str]] = frozenset({"run_type", "created_by"})

    run_type: list[RunType] = []
    created_by: list[str] = []
    created_after: str | None = None
    created_before: str | None = None
    limit: Limit = 20
    cursor: str | None = None


class SearchQuery(Struct, kw_only=True):
    """A page of matches of a text in one field of messages."""

    query: Annotated[str, Meta(min_length=3, max_length=256)]
    field: SearchField = "content"
    role: str | None = None
    run_step: Step | None = None
    has_error: bool | None = None
    reward_min: float | None = None
    reward_max: float | None = None
    limit: Limit = 50
    cursor: str | None = None


def contexts(query: MultiMapping[str]) -> Mapping[str, str]:
    """The ``context.<key>=<value>`` of a query string.

    Raises:
        RequestError: 400 ``invalid_filter``: one is given twice.
    """
    found: dict[str, str] = {}
    for name, value in query.items():
        if not name.startswith(_CONTEXT):
            continue
        key = name.removeprefix(_CONTEXT)
        if key in found:
            raise refused(ErrorCode.INVALID_FILTER, f"{name[:80]} may be given once")
        found[key] = value
    return found


def moment(name: str, text: str | None) -> float | None:
    """Seconds since the epoch of an ISO 8601 time; without a zone it is in UTC.

    Raises:
        RequestError: 400 ``invalid_filter``: it is no time.
    """
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise refused(
            ErrorCode.INVALID_FILTER, f"{name} must be an ISO 8601 time, not {text[:40]!r}"
        ) from error
