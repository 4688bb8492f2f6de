"""What an upload does with each line or record it reads: encode it, pack it, or refuse it."""

from __future__ import annotations

from typing import Any

from prime_async.traces.batches import Draft, Packer
from prime_async.traces.encoding import encode_record
from prime_async.traces.errors import TracesValueError, TraceTooLargeError
from prime_async.traces.receipts import RefusedLine

__all__ = ["Intake"]


class Intake:
    """Packs lines, or records, and notes those that cannot be sent; the others go on.

    Args:
        packer: makes the batches.
        records: items are records to encode, and not lines.
        strict: refuse records with NaN and infinities.

    Attributes:
        refused: what was left out, and why.
        non_finite: rewards and metrics that became null.
    """

    def __init__(self, packer: Packer, *, records: bool = False, strict: bool = False) -> None:
        self._packer = packer
        self._records = records
        self._strict = strict
        self.refused: list[RefusedLine] = []
        self.non_finite = 0

    def take(self, item: Any) -> Draft | None:
        """Take the next line or record; return the batch that it closes, if it does.

        Raises:
            TracesUsageError: the source gives something that is no line.
        """
        try:
            return self._packer.add(self._encoded(item) if self._records else item)
        except (TraceTooLargeError, TracesValueError) as error:
            # Without its frames: they would hold the record, as often as there is one to refuse.
            self.refused.append(RefusedLine(self._packer.number, error.with_traceback(None)))
            return None

    def finish(self) -> Draft | None:
        """Return the batch that is open at the end, or None."""
        return self._packer.finish()

    def _encoded(self, record: Any) -> bytes:
        place = self._packer.number  # from 0, as the index of a list
        try:
            line, non_finite = encode_record(record, strict=self._strict, root=f"records[{place}]")
        except TracesValueError:
            self._packer.pass_over()
            raise
        self.non_finite += non_finite
        return line
