"""The account of an upload: which batches are stored, which failed, in the order of the input."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from prime_async.cancelling import is_cancelled
from prime_async.traces.batches import Batch
from prime_async.traces.intake import Intake
from prime_async.traces.models import UploadReceipt
from prime_async.traces.receipts import FailedBatch, PartialUpload, UploadReceipts

__all__ = ["Ledger", "Place"]


@dataclass(slots=True)
class Place:
    """One batch of an upload.

    Attributes:
        number: from 0, in the order of the input.
        receipt, error: how it ended; neither while it is on its way.
    """

    number: int
    digest: str
    first_line_number: int
    last_line_number: int
    receipt: UploadReceipt | None = None
    error: Exception | None = None
    batch: Batch | None = None
    settled: bool = False


class Ledger:
    """Keeps the account, and tells of committed batches one by one, in the order of the input.

    Attributes:
        source_error: what the source raised.
        read_all: the source has been read to its end.
    """

    def __init__(
        self, on_batch: Callable[[Batch, UploadReceipt], Awaitable[None] | None] | None
    ) -> None:
        self.source_error: BaseException | None = None
        self.read_all = False
        self._on_batch = on_batch
        self._callback_error: BaseException | None = None
        self._places: list[Place] = []
        self._told = 0
        self._telling = anyio.Lock()

    def begin(self, batch: Batch) -> Place:
        """Note that a batch is on its way."""
        place = Place(
            len(self._places), batch.digest, batch.first_line_number, batch.last_line_number
        )
        self._places.append(place)
        return place

    async def committed(self, place: Place, batch: Batch | None, receipt: UploadReceipt) -> None:
        """Note a receipt.

        Raises:
            Exception: what `on_batch` raised.
        """
        place.receipt, place.batch, place.settled = receipt, batch, True
        await self._tell()

    async def failed(self, place: Place, error: Exception) -> None:
        """Note a failure; one after the receipt is that of `on_batch`."""
        if place.receipt is None:
            place.error, place.settled = error, True
            with contextlib.suppress(Exception):  # kept in _callback_error, after this one
                await self._tell()

    async def _tell(self) -> None:
        if self._on_batch is None:
            return
        async with self._telling:
            while self._told < len(self._places) and self._places[self._told].settled:
                place = self._places[self._told]
                self._told += 1
                batch, place.batch = place.batch, None
                if batch is not None and place.receipt is not None:
                    await self._call(batch, place.receipt)

    async def _call(self, batch: Batch, receipt: UploadReceipt) -> None:
        assert self._on_batch is not None
        if self._callback_error is not None:
            return
        try:
            answer = self._on_batch(batch, receipt)
            if inspect.isawaitable(answer):
                await answer
        except Exception as error:
            self._callback_error = error
            raise
        except anyio.get_cancelled_exc_class() as error:
            if is_cancelled():
                raise
            self._callback_error = error  # of something it awaited; raised at the end, and not
            raise RuntimeError("on_batch was cancelled") from error  # here, to cancel the group

    def first_error(self) -> BaseException | None:
        """Return the error of the first batch that failed, else the source's or the callback's."""
        failures = (place.error for place in self._places if place.error is not None)
        return next(failures, None) or self.source_error or self._callback_error

    def result(self, intake: Intake) -> UploadReceipts:
        """Return the outcome of an upload that is complete."""
        return UploadReceipts(
            self._receipts(), refused=intake.refused, non_finite=intake.non_finite
        )

    def attach(self, error: BaseException, intake: Intake) -> None:
        """Put the account of an upload that is not complete on the exception that ended it."""
        partial = PartialUpload(
            receipts=tuple(self._receipts()),
            failed=tuple(_failed(place, error) for place in self._places if not place.receipt),
            refused=tuple(intake.refused),
            next_line_number=self._next_line(),
            non_finite=intake.non_finite,
        )
        with contextlib.suppress(AttributeError):  # a user's exception may take no attributes
            error.upload = partial  # type: ignore[attr-defined]  # read by partial_upload()

    def _receipts(self) -> list[UploadReceipt]:
        return [place.receipt for place in self._places if place.receipt is not None]

    def _next_line(self) -> int | None:
        if self.read_all:
            return None
        return self._places[-1].last_line_number + 1 if self._places else 1


def _failed(place: Place, ended_by: BaseException) -> FailedBatch:
    error = place.error or ended_by
    # What was still on its way when the upload ended may have arrived.
    unknown = place.error is None or bool(getattr(place.error, "ambiguous", False))
    return FailedBatch(
        place.digest, place.first_line_number, place.last_line_number, error, unknown
    )
