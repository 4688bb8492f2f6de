"""An upload: several batches on their way at a time, accounted for in the order of the input."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import anyio
from anyio.abc import TaskGroup

from prime_async.cancelling import is_cancelled
from prime_async.errors import APIError
from prime_async.requests import DAY, check_range
from prime_async.traces.batches import Batch, Packer
from prime_async.traces.codes import LineFormat
from prime_async.traces.errors import TracesUsageError, in_family
from prime_async.traces.feeds import Feed
from prime_async.traces.intake import Intake
from prime_async.traces.ledger import Ledger, Place
from prime_async.traces.models import UploadReceipt
from prime_async.traces.receipts import UploadReceipts
from prime_async.traces.sending import BATCH_SECONDS, Delivery, deliver, encode
from prime_async.transport import check_timeout, deadline

if TYPE_CHECKING:
    from prime_async.traces.api import AsyncTracesAPIClient

__all__ = ["DEFAULT_CONCURRENT", "IN_FLIGHT_BYTES", "OnBatch", "Upload", "UploadOptions"]

OnBatch = Callable[[Batch, UploadReceipt], Awaitable[None] | None]
"""What is told of each committed batch."""

DEFAULT_CONCURRENT = 4
"""Batches on their way at a time; the service takes two to eight of one producer."""

IN_FLIGHT_BYTES = 256 * 2**20
"""Uncompressed bytes on their way at a time, one batch beyond."""


_WORTH_ASKING = 4 * 2**20
"""Bytes from which on a batch is worth a request that says how to compress it best."""

_ASK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class UploadOptions:
    """How an upload is carried out, checked.

    Attributes:
        delivery: how each batch is sent.
        target_bytes: what a batch aims at.
        seconds: for all of it; ``batch_seconds`` for each batch.
        skip: what cannot be sent is left out without an error.
    """

    delivery: Delivery
    target_bytes: int
    concurrent: int
    on_batch: OnBatch | None
    skip: bool
    seconds: float
    batch_seconds: float

    @classmethod
    def checked(
        cls,
        *,
        line_format: LineFormat,
        context: Mapping[str, str] | None,
        schema_version: int,
        compress: bool,
        target_batch_bytes: int,
        max_attempts: int,
        on_batch: OnBatch | None,
        max_concurrent: int,
        on_error: str,
        timeout: float | None,
    ) -> Self:
        """Check the arguments.

        Raises:
            TracesUsageError: names the one that is wrong.
        """
        delivery = Delivery.checked(
            line_format=line_format,
            schema_version=schema_version,
            context=context,
            compress=compress,
            max_attempts=max_attempts,
        )
        if on_error not in ("raise", "skip"):
            raise TracesUsageError(
                f"on_error is {on_error!r}", field="on_error", hint="'raise' or 'skip'"
            )
        if on_batch is not None and not callable(on_batch):
            raise TracesUsageError("on_batch cannot be called", field="on_batch")
        Packer(target_bytes=target_batch_bytes)
        with in_family():
            check_range("max_concurrent", max_concurrent, 1)
            seconds = check_timeout(timeout, DAY)
        return cls(
            delivery,
            target_batch_bytes,
            max_concurrent,
            on_batch,
            on_error == "skip",
            seconds,
            BATCH_SECONDS if timeout is None else seconds,
        )


class Upload:
    """One upload, from its source to its receipts.

    When a batch fails, no further one is begun; those on their way are waited for, so that their
    fate is known.
    """

    def __init__(
        self, api: AsyncTracesAPIClient, feed: Feed, intake: Intake, options: UploadOptions
    ) -> None:
        self._api = api
        self._feed = feed
        self._intake = intake
        self._options = options
        self._ledger = Ledger(options.on_batch)
        self._reading = anyio.CancelScope()
        self._places = 0
        self._bytes = 0
        self._left = anyio.Event()
        self._asking = anyio.Lock()
        self._asked = False

    async def run(self) -> UploadReceipts:
        """Carry it out.

        Raises:
            PrimeTracesError: of the first batch that failed, or the first line that was refused,
                or for want of time.
            Exception: what the source or `on_batch` raised.
        """
        try:
            with in_family(), deadline(self._options.seconds, "the upload"):
                await self._all()
            self._raise_failure()
        except BaseException as error:
            self._ledger.attach(error, self._intake)
            raise
        return self._ledger.result(self._intake)

    async def _all(self) -> None:
        await self._api.connect()
        async with anyio.create_task_group() as group:
            self._feed.start(group)
            try:
                with self._reading:
                    await self._send_all(group)
            except BaseException as error:  # the source's; what is on its way is waited for first
                if isinstance(error, anyio.get_cancelled_exc_class()) and is_cancelled():
                    raise
                self._ledger.source_error = error
            finally:
                self._feed.stop()

    async def _send_all(self, group: TaskGroup) -> None:
        while True:
            batch = await self._feed.next_batch()
            if batch is None:
                self._ledger.read_all = True
                return
            await self._room(batch.size)
            place = self._ledger.begin(batch)
            group.start_soon(self._send, place, batch)
            del batch  # or this one would live until the next is there

    async def _room(self, size: int) -> None:
        """Wait for a place, and for room among the bytes on their way."""
        most = self._options.concurrent
        while self._places >= most or (self._places and self._bytes + size > IN_FLIGHT_BYTES):
            self._left = anyio.Event()
            await self._left.wait()
        self._places += 1
        self._bytes += size

    async def _send(self, place: Place, batch: Batch) -> None:
        kept = batch if self._options.on_batch is not None else None
        chunks, size = batch.chunks, batch.size
        del batch
        try:
            await self._ask(size)
            encoded = await encode(self._api, chunks, self._options.delivery)
            del chunks  # what stays for the tries are the compressed bytes
            receipt = await deliver(
                self._api,
                (),
                place.digest,
                self._options.delivery,
                encoded=encoded,
                timeout=self._options.batch_seconds,
            )
            await self._ledger.committed(place, kept, receipt)
        except Exception as error:  # the others go on to their end
            await self._ledger.failed(place, error)
            self._reading.cancel()
        finally:
            self._places -= 1
            self._bytes -= size
            self._left.set()

    async def _ask(self, size: int) -> None:
        """Know what the platform can read before a large batch is compressed."""
        if size < _WORTH_ASKING or not self._options.delivery.compress:
            return
        async with self._asking:
            transport = await self._api.connect()
            if self._asked or transport.features:
                return
            self._asked = True
            with suppress(APIError):  # an answer that does not tell: gzip is read by all
                await transport.request("GET", "/user/whoami", timeout=_ASK_SECONDS, tries=1)

    def _raise_failure(self) -> None:
        error = self._ledger.first_error()
        if error is None and self._intake.refused and not self._options.skip:
            error = self._intake.refused[0].error
        if error is not None:
            raise error
