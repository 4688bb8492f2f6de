"""The account of a push: every sample read is at any time in exactly one place of it."""

from __future__ import annotations

import time

from prime_async.evals.batches import Batch
from prime_async.evals.encoding import SampleEncoder
from prime_async.evals.keeping import Keeper
from prime_async.evals.receipts import PushReceipt, RefusedSample, ResumeToken
from prime_async.spool import Ranges

__all__ = ["Ledger"]

_REFUSALS_KEPT = 1000


class Ledger:
    """Where the samples of one push are: on their way or failed, stored, refused, or unknown.

    Args:
        resumed: the push as an earlier part of it left it.
        encoder: knows what was refused before sending.
        keeper: told about every change; knows what is kept on disk.
    """

    def __init__(self, resumed: ResumeToken, encoder: SampleEncoder, keeper: Keeper) -> None:
        self._evaluation_id = resumed.evaluation_id
        self._push_id = resumed.push_id
        self._encoder = encoder
        self._keeper = keeper
        self._refused: list[RefusedSample] = []
        self._local_refusals = 0
        self.stored = resumed.stored.copy()
        self.unknown = resumed.unknown.copy()
        self.unsettled = Ranges()
        self.bytes_sent = 0
        self.batches = 0
        self._began = time.perf_counter()

    def sent(self, batch: Batch) -> None:
        """A batch was packed; until the platform says otherwise it counts as not delivered."""
        self.unsettled.update(batch.indexes)

    def arrived(self, indexes: Ranges) -> None:
        """The platform holds these samples."""
        self.stored.update(indexes)
        self.unsettled.subtract(indexes)
        self._keeper.stored(indexes)

    def refuse(self, sample: RefusedSample) -> None:
        """The platform will not take this sample."""
        self.unsettled.remove(sample.index)
        self._refused.append(sample)
        self._keeper.refused(sample)

    def in_doubt(self, batch: Batch) -> None:
        """Whether the batch arrived cannot be told."""
        indexes = batch.indexes
        self.unknown.update(indexes)
        self.unsettled.subtract(indexes)

    def note_local_refusals(self) -> int:
        """Tell the keeper what was refused before sending; return how many since the last time."""
        fresh = self._encoder.refused[self._local_refusals :]
        self._local_refusals += len(fresh)
        for sample in fresh:
            self._keeper.refused(sample)
        return len(fresh)

    def settled_all(self) -> bool:
        """True when nothing that was read is undelivered or unknown."""
        return not self.unsettled and not self.unknown

    def receipt(self, total: int | None, *, ended: bool) -> PushReceipt:
        """Add everything up.

        Args:
            total: samples the input holds, if that is known.
            ended: whether all of it was read.
        """
        refused = [*self._encoder.refused, *self._refused]
        undelivered = self._undelivered(total, Ranges.of(sample.index for sample in refused))
        kept = self._keeper.kept
        token = ResumeToken(self._evaluation_id, self._push_id, self.stored, self.unknown)
        left = bool(undelivered or kept or self.unknown or not ended)
        return PushReceipt(
            evaluation_id=self._evaluation_id,
            push_id=self._push_id,
            samples_pushed=self.stored.total,
            samples_skipped=len(refused),
            refused=tuple(sorted(refused, key=lambda sample: sample.index)[:_REFUSALS_KEPT]),
            stored=tuple(self.stored),
            unknown=tuple(self.unknown),
            undelivered=tuple(undelivered),
            spooled=(kept - self.unknown).total,
            spool_path=self._keeper.path if kept else None,
            trimmed=dict(self._encoder.trimmed),
            nonfinite=dict(self._encoder.nonfinite),
            samples_total=total,
            read_all=ended,
            bytes_sent=self.bytes_sent,
            batches=self.batches,
            seconds=time.perf_counter() - self._began,
            resume_token=str(token) if left else None,
        )

    def _undelivered(self, total: int | None, refused: Ranges) -> Ranges:
        """What is certainly missing: what failed, and what was never read of an input of known
        length.
        """
        missing = self.unsettled.copy()
        if total is not None:
            missing.update(self.stored.complement(max(total, self.stored.stop)))
        for settled in (self.stored, self.unknown, self._keeper.kept, refused):
            missing.subtract(settled)
        return missing
