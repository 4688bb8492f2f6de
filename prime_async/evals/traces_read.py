"""Reading traces and episodes, whether they are mappings or objects."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = [
    "branch_of",
    "entry",
    "members_of",
    "metrics_of",
    "reward_of",
    "scores_of",
]


def entry(record: Any, name: str) -> Any:
    """Return a key of a mapping or an attribute of an object; None where there is none."""
    if isinstance(record, Mapping):
        return record.get(name)
    return getattr(record, name, None)


def members_of(episode: Any) -> list[Any]:
    """Return the traces of an episode; a bare trace is its own only one."""
    traces = entry(episode, "traces")
    return [episode] if traces is None else list(traces)


def scores_of(trace: Any) -> dict[str, float]:
    """Return the rewards by name, unweighted, without those that are missing or not finite."""
    return {name: score for name, (score, _) in _rewards(trace).items()}


def reward_of(trace: Any) -> float | None:
    """Return the sum of the weighted rewards, or ``reward`` of a flat row; None without any."""
    rewards = _rewards(trace).values()
    if not rewards:
        return _finite(entry(trace, "reward"))
    return sum(score * weight for score, weight in rewards)


def _rewards(trace: Any) -> dict[str, tuple[float, float]]:
    """Return score and weight of each reward."""
    found = {}
    for name, reward in (entry(trace, "rewards") or {}).items():
        score, weight = entry(reward, "score"), entry(reward, "weight")
        number = _finite(reward if score is None else score)
        if number is not None:
            found[str(name)] = (number, 1.0 if weight is None else float(weight))
    return found


def metrics_of(trace: Any) -> dict[str, float]:
    """Return the metrics that are finite numbers."""
    metrics = entry(trace, "metrics") or {}
    return {
        str(name): number
        for name, value in metrics.items()
        if (number := _finite(value)) is not None
    }


def branch_of(trace: Any) -> list[Any]:
    """Return the nodes of the last branch, from its root to its leaf."""
    nodes = list(entry(trace, "nodes") or ())
    branch: list[Any] = []
    place = len(nodes) - 1
    seen: set[int] = set()
    while 0 <= place < len(nodes) and place not in seen:
        seen.add(place)
        branch.append(nodes[place])
        parent = entry(nodes[place], "parent")
        if not isinstance(parent, int):
            break
        place = parent
    return branch[::-1]


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or value is None or isinstance(value, str | Mapping):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
