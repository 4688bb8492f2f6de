"""Summaries of episodes, as an evaluation shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from prime_async.runs.traces_read import entry, members_of, metrics_of, reward_of

__all__ = ["from_episodes"]


def from_episodes(episodes: Iterable[Any], traces: Iterable[Any] | None = None) -> dict[str, Any]:
    """Return the averages over episodes.

    Args:
        episodes: mappings or objects with ``traces`` and ``errors``.
        traces: the traces to average over, in place of those in the episodes.

    Returns:
        ``avg_reward``; ``avg_metrics``, the mean of each metric over the traces that have it;
        ``avg_error``, the share of episodes that failed. Only traces of trainable agents count, or
        all where none is. Zeros where there is nothing.
    """
    episodes = list(episodes)
    found = list(traces) if traces is not None else [t for e in episodes for t in members_of(e)]
    counted = [trace for trace in found if _trainable(trace)] or found
    rewards = [reward for trace in counted if (reward := reward_of(trace)) is not None]
    by_name: dict[str, list[float]] = defaultdict(list)
    for trace in counted:
        for name, value in metrics_of(trace).items():
            by_name[name].append(value)
    failed = sum(1 for episode in episodes if _failed(episode))
    return {
        "avg_reward": _mean(rewards),
        "avg_metrics": {name: _mean(values) for name, values in by_name.items()},
        "avg_error": failed / len(episodes) if episodes else 0.0,
    }


def _trainable(trace: Any) -> bool:
    agent = entry(trace, "agent")
    return agent is None or entry(agent, "trainable") is not False


def _failed(episode: Any) -> bool:
    if entry(episode, "errors"):
        return True
    return any(entry(trace, "errors") for trace in members_of(episode))


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values) if values else 0.0
