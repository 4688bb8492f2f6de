"""What a run says of itself: while it goes on, and when it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prime_async.config import PrimePaths, home_directory
from prime_async.runs.counters import Counts
from prime_async.runs.options import RunStatus

__all__ = ["FinishReceipt", "RefusedRecord", "RunStats", "with_next_step"]

_OTHER_STATES = ("refused", "spooled", "dropped", "lost", "left_out", "queued")


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that is not to be sent again.

    Attributes:
        sink: where it was going, such as ``traces``.
        reason: why, in words; the place in the record where that is known.
        status: HTTP status of the refusal; None when it was refused before it was sent.
        index: its number among the records of its kind, from 0; None when it could not be encoded.
    """

    sink: str
    reason: str
    status: int | None = None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class RunStats:
    """How a run's deliveries go, as of the moment it was asked for.

    Attributes:
        counts: records by state; they add up to ``counts.logged``.
        by_sink: the same for each sink.
        queue_bytes, queue_peak_bytes, queue_limit_bytes: memory taken by records that wait or are
            on their way: now, at most so far, at most allowed.
        batches, bytes: that arrived so far; bytes of JSON.
        nonfinite: NaN and infinite scores that are null, or left out of metrics.
        sinks: how each sink stands: ``working``, ``paused`` or ``retired``.
        spool_paths: folders that keep what is not delivered.
    """

    counts: Counts
    by_sink: Mapping[str, Counts]
    queue_bytes: int
    queue_peak_bytes: int
    queue_limit_bytes: int
    batches: int
    bytes: int
    nonfinite: int
    sinks: Mapping[str, str] = field(default_factory=dict)
    spool_paths: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishReceipt:
    """What became of a run and of every record in it.

    Attributes:
        run_id, status: the run, and how it ended.
        error: the reason, of runs that did not complete.
        counts, by_sink: records by state, over all and for each sink.
        refused: the refused ones with their reasons, the first thousand.
        refused_path: the folder that keeps what the platform refused, or None.
        spool_paths: folders that keep what is not delivered; ``prime-async traces sync`` delivers
            it.
        reported: the platform knows that the run has ended. False where it could not be told (that
            is kept for the sync, too) or where it is not for this process to tell.
        errors: what went wrong on the way, in words.
    """

    run_id: str
    status: RunStatus
    error: str | None
    counts: Counts
    by_sink: Mapping[str, Counts]
    refused: tuple[RefusedRecord, ...]
    refused_path: Path | None
    spool_paths: tuple[Path, ...]
    reported: bool
    errors: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """True when every record that was logged is with the platform, or has no place there (see
        `Counts.left_out`).
        """
        return self.counts.delivered + self.counts.left_out == self.counts.logged

    def __str__(self) -> str:
        counts = self.counts
        others = {name: getattr(counts, name) for name in _OTHER_STATES}
        parts = [f"{counts.delivered} of {counts.logged} records delivered"]
        parts += [f"{number} {name.replace('_', ' ')}" for name, number in others.items() if number]
        text = ", ".join(parts)
        if self.spool_paths:
            text += f"; kept in {', '.join(map(str, self.spool_paths))}"
        return text


def with_next_step(receipt: FinishReceipt) -> str:
    """Return the receipt for a log, with what delivers the rest."""
    if not receipt.spool_paths:
        return str(receipt)
    home = home_directory()
    usual = home is not None and PrimePaths(home).root / "spool"
    elsewhere = any(path.parents[1] != usual for path in receipt.spool_paths)
    if elsewhere:
        return f"{receipt} (`prime-async traces sync --from FOLDER` delivers each of them)"
    return f"{receipt} (`prime-async traces sync` delivers it)"
