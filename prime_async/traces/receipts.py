"""What came of an upload: receipts, what was refused, and how far a failed one got."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prime_async.errors import PrimeTracesError
from prime_async.traces.models import UploadReceipt

__all__ = [
    "FailedBatch",
    "PartialUpload",
    "RefusedLine",
    "UploadReceipt",
    "UploadReceipts",
    "partial_upload",
]


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line or record that cannot be sent.

    Attributes:
        line_number: its place in the input, from 1.
        error: why; its text names the path or the size.
    """

    line_number: int
    error: PrimeTracesError


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """A batch that was sent, or was about to be, and has no receipt.

    Attributes:
        digest: of its bytes.
        first_line_number, last_line_number: its place in the input, from 1.
        error: what happened.
        unknown: it may have been stored nevertheless; sending the same lines again settles it.
    """

    digest: str
    first_line_number: int
    last_line_number: int
    error: BaseException
    unknown: bool


class UploadReceipts(list[UploadReceipt]):
    """The receipts of an upload, one per batch, in the order of the input.

    Attributes:
        refused: lines and records that were left out because they cannot be sent.
        non_finite: NaN and infinite numbers in ``rewards`` and ``metrics`` that became null.
    """

    def __init__(
        self,
        receipts: Iterable[UploadReceipt] = (),
        *,
        refused: Iterable[RefusedLine] = (),
        non_finite: int = 0,
    ) -> None:
        super().__init__(receipts)
        self.refused = tuple(refused)
        self.non_finite = non_finite


@dataclass(frozen=True, slots=True)
class PartialUpload:
    """How far an upload got before it failed. Repeating it is safe: what is stored stays once.

    Attributes:
        receipts: of the committed batches, in the order of the input.
        failed: the batches that have none.
        refused: lines and records that cannot be sent.
        next_line_number: the first line that belongs to no batch sent so far, from 1; None when
            the whole input had been read.
        non_finite: as in :class:`UploadReceipts`.
    """

    receipts: tuple[UploadReceipt, ...]
    failed: tuple[FailedBatch, ...] = ()
    refused: tuple[RefusedLine, ...] = ()
    next_line_number: int | None = None
    non_finite: int = 0

    @property
    def unknown(self) -> tuple[FailedBatch, ...]:
        """The failed batches that may have been stored."""
        return tuple(batch for batch in self.failed if batch.unknown)


def partial_upload(error: BaseException) -> PartialUpload | None:
    """Return how far an upload got before an exception ended it, or None when it was no upload.

    Looks at the exception and its causes, so that it finds what is attached to a cancellation
    behind a ``TimeoutError`` too.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        found = getattr(current, "upload", None)
        if isinstance(found, PartialUpload):
            return found
        current = current.__cause__ or current.__context__
    return None
