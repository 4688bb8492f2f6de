"""Traces added up by one of their properties, for a platform that does not add up itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from operator import attrgetter
from typing import Literal

from prime_async.traces.errors import TracesUsageError
from prime_async.traces.models import TraceAggregate, TraceGroup, TraceSummary

__all__ = ["GROUP_KEYS", "TRACES_AGGREGATE", "GroupKey", "add_up", "check_group_key"]

TRACES_AGGREGATE = "traces-aggregate"
"""Feature of platforms that add up themselves."""

GroupKey = Literal[
    "run_id", "model_id", "environment_id", "task_id", "outcome", "agent_name", "run_step"
]
"""What traces can be grouped by."""

GROUP_KEYS = {
    "run_id": attrgetter("run_id"),
    "model_id": attrgetter("model.id"),
    "environment_id": attrgetter("environment_id"),
    "task_id": attrgetter("task_id"),
    "outcome": attrgetter("score.outcome"),
    "agent_name": attrgetter("agent_name"),
    "run_step": attrgetter("run_step"),
}
"""Name of a property to what reads it from a summary."""


def check_group_key(group_by: str) -> str:
    """Check a property.

    Raises:
        TracesUsageError: traces cannot be grouped by it.
    """
    if not isinstance(group_by, str) or group_by not in GROUP_KEYS:
        raise TracesUsageError(
            f"group_by is {group_by!r}",
            field="group_by",
            hint=f"one of: {', '.join(GROUP_KEYS)}",
        )
    return group_by


class _Sums:
    """One group while it grows."""

    def __init__(self) -> None:
        self.count = self.errors = self.tokens = self.duration = self.scored = 0
        self.rewards = 0.0
        self.lowest: float | None = None
        self.highest: float | None = None

    def add(self, trace: TraceSummary) -> None:
        self.count += 1
        self.errors += trace.execution.has_error
        self.tokens += trace.total_tokens
        self.duration += trace.duration_ms
        reward = trace.score.reward
        if reward is not None:
            self.scored += 1
            self.rewards += reward
            self.lowest = reward if self.lowest is None else min(self.lowest, reward)
            self.highest = reward if self.highest is None else max(self.highest, reward)

    def group(self, key: str | int | None) -> TraceGroup:
        return TraceGroup(
            key=key,
            trace_count=self.count,
            scored_count=self.scored,
            avg_reward=self.rewards / self.scored if self.scored else None,
            min_reward=self.lowest,
            max_reward=self.highest,
            error_count=self.errors,
            total_tokens=self.tokens,
            avg_duration_ms=self.duration / self.count,
        )


async def add_up(group_by: str, traces: AsyncIterator[TraceSummary]) -> TraceAggregate:
    """Add up traces by a property; the groups come largest first, equal ones by their key."""
    key_of = GROUP_KEYS[group_by]
    groups: dict[str | int | None, _Sums] = {}
    async for trace in traces:
        groups.setdefault(key_of(trace), _Sums()).add(trace)
    ordered = sorted(groups.items(), key=lambda pair: (-pair[1].count, str(pair[0])))
    return TraceAggregate(groups=[sums.group(key) for key, sums in ordered])
