"""The family of whatever traces and runs raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prime_async.errors.base import PrimeError

if TYPE_CHECKING:
    from prime_async.traces.receipts import PartialUpload, UploadReceipt

__all__ = [
    "PrimeTracesError",
]


class PrimeTracesError(PrimeError):
    """Base of everything that the traces client, a run, its flush and its finish raise.

    Each child is also the error of this tree that says the same: ``except NotFoundError`` and
    ``except PrimeTracesError`` both catch an unknown trace.

    Attributes:
        upload: what an upload had achieved when it failed, or None when the call was none.
    """

    upload: PartialUpload | None = None

    @property
    def receipts(self) -> tuple[UploadReceipt, ...]:
        """The receipts of the batches that were committed before an upload failed, in order."""
        return () if self.upload is None else self.upload.receipts
