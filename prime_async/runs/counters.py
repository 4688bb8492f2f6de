"""Where every record logged is: in exactly one state, so that the counts always add up."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields

__all__ = ["Counts", "Counters"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Records by state; the states are disjoint: ``logged`` is the sum of the others.

    Attributes:
        queued: in memory, waiting or on their way.
        delivered: confirmed by the platform.
        refused: not to be sent again: values that cannot be written, lines too large, and what the
            platform refused by itself.
        spooled: on disk, to be delivered later.
        dropped: turned away by a full queue.
        lost: taken, and then neither delivered nor kept.
        left_out: not sent, because the platform's table of samples has no place for them: of a
            training run without the traces service it takes the work of every tenth step.
    """

    queued: int = 0
    delivered: int = 0
    refused: int = 0
    spooled: int = 0
    dropped: int = 0
    lost: int = 0
    left_out: int = 0

    @property
    def logged(self) -> int:
        """All of them."""
        return sum(getattr(self, field.name) for field in fields(self))

    @property
    def failed(self) -> int:
        """Not stored by the platform so far, for another reason than a full queue."""
        return self.refused + self.lost + self.spooled

    @property
    def undelivered(self) -> int:
        """Still to be delivered."""
        return self.queued + self.spooled

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            *(getattr(self, field.name) + getattr(other, field.name) for field in fields(self))
        )


_STATES = frozenset(field.name for field in fields(Counts))


class Counters:
    """The counts of one run, by sink. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_sink: dict[str, dict[str, int]] = {}

    def add(self, sink: str, state: str, number: int = 1) -> None:
        """Count records that were logged just now."""
        with self._lock:
            self._of(sink)[state] += number

    def move(self, sink: str, before: str, after: str, number: int = 1) -> None:
        """Count records whose state has changed."""
        with self._lock:
            counts = self._of(sink)
            counts[before] -= number
            counts[after] += number

    def by_sink(self) -> Mapping[str, Counts]:
        """Return the counts as of now."""
        with self._lock:
            return {sink: Counts(**counts) for sink, counts in self._by_sink.items()}

    def total(self) -> Counts:
        """Return the counts over all sinks."""
        return sum(self.by_sink().values(), Counts())

    def _of(self, sink: str) -> dict[str, int]:
        counts = self._by_sink.get(sink)
        if counts is None:
            counts = self._by_sink[sink] = dict.fromkeys(_STATES, 0)
        return counts
