"""The sink of traces and episodes: batches named by the digest of their lines."""

from __future__ import annotations

from collections.abc import Mapping

from prime_async.runs.queue import Lane
from prime_async.runs.sinks import BATCH_SECONDS, Batch, Outcome
from prime_async.runs.spooling import BATCH_BYTES
from prime_async.traces.api import AsyncTracesAPIClient
from prime_async.traces.batches import digest_of
from prime_async.traces.codes import LineFormat
from prime_async.traces.compression import compressed
from prime_async.traces.sending import DEFAULT_ATTEMPTS, Delivery, deliver

__all__ = ["TRACES", "TraceSink"]

TRACES = "traces"
"""Name of the sink."""

_MAX_LINES = 10_000


class TraceSink:
    """Uploads lines of one format to the traces service.

    Args:
        api: the connection.
        lane: TRACE or EPISODE.
        context: what is said of every line.
        attempts: requests per batch at most.
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
    ) -> None:
        self.lane = lane
        self._api = api
        self._features: frozenset[str] = frozenset()
        line_format = LineFormat.EPISODE if lane is Lane.EPISODE else LineFormat.TRACE
        self._delivery = Delivery.checked(
            line_format=line_format, context=context or None, max_attempts=attempts
        )

    def prepare(self, batch: Batch) -> None:
        """Digest and compress, once: retries send the same bytes."""
        lines = [item.data for item in batch.items]
        batch.digest = digest_of(lines)
        batch.body = compressed(lines, self._features)

    async def send(self, batch: Batch) -> Outcome:
        """Upload; the service stores all of a batch or nothing."""
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
        return Outcome(
            delivered=batch.items,
            receipt=receipt.upload_id,
            replayed=receipt.get("replayed") is True,
        )
