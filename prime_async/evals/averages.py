"""Averages over episodes, as an evaluation shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from prime_async.evals.traces_read import entry, members_of, metrics_of, reward_of, scores_of

__all__ = ["Averages"]


class Averages:
    """The averages over episodes that come one by one; false while there are none."""

    def __init__(self) -> None:
        self._episodes = self._failed = 0
        self._trainable, self._others = _Sums(), _Sums()

    def __bool__(self) -> bool:
        return self._episodes > 0

    def add(self, episode: Any) -> None:
        """Take an episode, or a trace that stands by itself."""
        self._episodes += 1
        self._failed += _failed(episode)
        self._take(members_of(episode))

    def take_instead(self, traces: Iterable[Any]) -> None:
        """Average over these traces only."""
        self._trainable, self._others = _Sums(), _Sums()
        self._take(traces)

    def summary(self) -> dict[str, Any]:
        """Return ``avg_reward``, in which a trace without rewards counts as zero; ``avg_metrics``,
        the mean of each metric and reward over the traces that have it; ``avg_error``, the share of
        episodes that are not ok. Only traces of trainable agents count, or all where none is. Zeros
        where there is nothing.
        """
        counted = self._trainable if self._trainable.traces else self._others
        return {
            "avg_reward": counted.reward / counted.traces if counted.traces else 0.0,
            "avg_metrics": {
                name: total / counted.counts[name] for name, total in counted.totals.items()
            },
            "avg_error": self._failed / self._episodes if self._episodes else 0.0,
        }

    def _take(self, traces: Iterable[Any]) -> None:
        for trace in traces:
            (self._trainable if _trainable(trace) else self._others).add(trace)


class _Sums:
    def __init__(self) -> None:
        self.traces = 0
        self.reward = 0.0
        self.totals: dict[str, float] = defaultdict(float)
        self.counts: dict[str, int] = defaultdict(int)

    def add(self, trace: Any) -> None:
        self.traces += 1
        self.reward += reward_of(trace) or 0.0
        told: Mapping[str, float] = {**scores_of(trace), **metrics_of(trace)}
        for name, value in told.items():
            self.totals[name] += value
            self.counts[name] += 1


def _trainable(trace: Any) -> bool:
    agent = entry(trace, "agent")
    return agent is None or entry(agent, "trainable") is not False


def _failed(episode: Any) -> bool:
    """Say whether it went wrong; errors of tries that were repeated do not count."""
    ok = entry(episode, "ok")
    if isinstance(ok, bool):
        return not ok
    return any(entry(one, "errors") for one in (episode, *members_of(episode)))
