"""Summaries of episodes, as an evaluation shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prime_async.evals.averages import Averages

__all__ = ["from_episodes"]


def from_episodes(episodes: Iterable[Any], traces: Iterable[Any] | None = None) -> dict[str, Any]:
    """Return the averages over episodes.

    Args:
        episodes: mappings or objects with ``traces`` and ``ok``.
        traces: the traces to average over, in place of those in the episodes.

    Returns:
        What :meth:`Averages.summary` says of them.
    """
    averages = Averages()
    for episode in episodes:
        averages.add(episode)
    if traces is not None:
        averages.take_instead(traces)
    return averages.summary()
