"""The sink of traces and episodes: batches named by the digest of their lines."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from prime_async.errors import ForbiddenError
from prime_async.runs.blocks import joined
from prime_async.runs.queue import Lane
from prime_async.runs.sinks import BATCH_SECONDS, Batch, Outcome, Sink
from prime_async.runs.spooling import BATCH_BYTES
from prime_async.runs.step_samples import sent_as_files
from prime_async.runs.uploader import in_thread
from prime_async.traces.api import AsyncTracesAPIClient
from prime_async.traces.batches import digest_of
from prime_async.traces.codes import ErrorCode, LineFormat
from prime_async.traces.compression import EncodedBody, compressed
from prime_async.traces.sending import DEFAULT_ATTEMPTS, Delivery, deliver

__all__ = ["TRACES", "TraceSink"]

TRACES = "traces"
"""Name of the sink."""

_MAX_LINES = 2000
_LOG = logging.getLogger("prime_async.runs")


class TraceSink:
    """Uploads lines of one format to the traces service.

    Args:
        api: the connection.
        lane: TRACE or EPISODE.
        context: what is said of every line.
        attempts: requests per batch at most.
        fallback: takes the records where the account has no traces service.
        gzip_level: of the compression; None is the best both sides know.
    """

    name = TRACES
    max_bytes = BATCH_BYTES
    max_items = _MAX_LINES
    in_order = False

    def __init__(
        self,
        api: AsyncTracesAPIClient,
        lane: Lane,
        context: Mapping[str, str],
        attempts: int = DEFAULT_ATTEMPTS,
        fallback: Sink | None = None,
        gzip_level: int | None = None,
    ) -> None:
        self.lane = lane
        self._fallback = fallback
        self._gzip_level = gzip_level
        self._received = self._service_off = False
        self._api = api
        self._features: frozenset[str] = frozenset()
        line_format = LineFormat.EPISODE if lane is Lane.EPISODE else LineFormat.TRACE
        self._delivery = Delivery.checked(
            line_format=line_format, context=context or None, max_attempts=attempts
        )

    def prepare(self, batch: Batch) -> None:
        """Digest and compress, once: retries send the same bytes."""
        to_rows = self._service_off or sent_as_files(batch.digest)
        if to_rows and self._fallback is not None:
            self._fallback.prepare(batch)
            return
        # Twice, where there is something to join: what comes from the disk would be held twice.
        batch.digest = digest_of(joined(batch.items))
        batch.body = compressed(joined(batch.items), self._features, self._gzip_level)

    async def send(self, batch: Batch) -> Outcome:
        """Upload; the service stores all of a batch or nothing."""
        if self._fallback is None:
            return await self._upload(batch)
        for_the_service = isinstance(batch.body, EncodedBody)
        if for_the_service and not self._service_off:
            try:
                return await self._upload(batch)
            except ForbiddenError as error:
                if error.code != ErrorCode.SERVICE_NOT_ENABLED or self._received:
                    raise
            self._service_off = True
            _LOG.info("run_sink name=%s: the service is off for this account", self.name)
        if for_the_service:
            batch.digest = None
            await in_thread(self._fallback.prepare, batch)
        return await self._fallback.send(batch)

    async def _upload(self, batch: Batch) -> Outcome:
        assert batch.digest is not None
        self._features = (await self._api.connect()).features
        receipt = await deliver(
            self._api,
            (),
            batch.digest,
            self._delivery,
            encoded=batch.body,
            timeout=BATCH_SECONDS,
        )
        self._received = True
        return Outcome(
            delivered=batch.items,
            receipt=receipt.upload_id,
            replayed=receipt.get("replayed") is True,
        )
