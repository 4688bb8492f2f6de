"""What lists are narrowed by: the filters users give, as the query the wire wants."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from prime_async.traces.codes import RunType
from prime_async.traces.errors import TracesUsageError

__all__ = [
    "EpisodeFilters",
    "Moment",
    "NodeFilters",
    "Repeated",
    "RunFilters",
    "SearchFilters",
    "TraceFilters",
    "check_names",
    "repeated",
    "written",
]

Repeated = str | Sequence[str]
"""One value, or several of which any will do."""

Moment = str | datetime
"""ISO 8601 text, or a datetime; one without a zone is taken as UTC by the service."""


class _Common(TypedDict, total=False):
    run_id: str | None
    upload_id: Repeated | None
    environment_id: str | None
    outcome: str | None
    has_error: bool | None
    created_after: Moment | None
    created_before: Moment | None
    context: Mapping[str, str] | None


class TraceFilters(_Common, total=False):
    """Which traces are meant; a trace must fit all that are given. Rewards are inclusive.

    ``agent_name`` and ``run_step`` are known to the embedded platform only.
    """

    model_id: str | None
    model_provider: str | None
    task_id: str | None
    reward_min: float | None
    reward_max: float | None
    is_truncated: bool | None
    agent_name: str | None
    run_step: int | None


class EpisodeFilters(_Common, total=False):
    """Which episodes are meant; steps and context fit if they do for any trace of it."""

    run_step: int | None
    step_min: int | None
    step_max: int | None


class RunFilters(TypedDict, total=False):
    """Which runs are meant; times bound the traces that are added up."""

    run_type: RunType | Sequence[RunType] | None
    created_by: Repeated | None
    created_after: Moment | None
    created_before: Moment | None


class NodeFilters(TypedDict, total=False):
    """Which nodes of a trace are meant."""

    role: Repeated | None
    sampled: bool | None
    after: int | None


class SearchFilters(TypedDict, total=False):
    """In which messages and traces to search."""

    role: str | None
    run_step: int | None
    has_error: bool | None
    reward_min: float | None
    reward_max: float | None


def written(
    params: Mapping[str, Any], context: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Write filters as a query: what is None is left out, ``context`` comes last, key by key.

    Raises:
        TracesUsageError: `context` is not a mapping of text.
    """
    pairs = {name: _plain(name, value) for name, value in params.items() if value is not None}
    if context is None:
        return pairs
    if not isinstance(context, Mapping):
        raise TracesUsageError(
            f"context is a {type(context).__name__}, not a mapping", field="context"
        )
    return pairs | {f"context.{key}": value for key, value in context.items()}


def repeated(value: Repeated | None) -> list[str] | None:
    """Write one value or several; an empty list is unset."""
    if value is None or isinstance(value, str):
        return None if value is None else [value]
    return list(value) or None


def check_names(given: Iterable[str], filters: type, *, besides: Iterable[str] = ()) -> None:
    """Make sure that there are such filters.

    Raises:
        TracesUsageError: names the one there is not, and the nearest there is.
    """
    known = [*filters.__annotations__, *besides]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise TracesUsageError(
                f"there is no filter {name!r}",
                field=name,
                hint=f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}",
            )


def _plain(name: str, value: Any) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (str, bool, int, float, list, tuple)):
        return value
    raise TracesUsageError(f"{name} is a {type(value).__name__}", field=name)
