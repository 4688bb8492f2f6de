"""The sinks of metric rows and distributions, for both kinds of run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec

from prime_async.api import AsyncAPIClient
from prime_async.errors import APIError, PrimeError
from prime_async.runs.blocks import Item
from prime_async.runs.options import RunKind
from prime_async.runs.queue import Lane
from prime_async.runs.sinks import (
    BATCH_SECONDS,
    Batch,
    Outcome,
    Refused,
    is_rejection,
    is_transient,
)
from prime_async.transport import BytesBody, Replay, Transport, path_segment

__all__ = ["METRICS_BATCH", "DistributionSink", "MetricSink"]

METRICS_BATCH = "run-metrics-batch"
"""Feature of platforms that take many rows in a request, and rows of evaluations at all."""

_ROWS = 1000
_ROW_BYTES = 2**20
_AT_A_TIME = 32
_STEP = msgspec.json.Decoder(dict[str, msgspec.Raw])


class MetricSink:
    """Sends rows of metrics in the order they were logged.

    A platform that announces it gets up to 1000 rows per request. Others get one each, those of
    different steps at the same time: the last row of a step counts there.
    """

    lane = Lane.METRIC
    max_bytes = _ROW_BYTES
    max_items = _ROWS
    in_order = True

    def __init__(self, api: AsyncAPIClient, kind: RunKind, run_id: str) -> None:
        self.name = metrics_name(kind)
        self._api = api
        self._kind = kind
        self._run_id = run_id
        self._asked = False

    def prepare(self, batch: Batch) -> None:
        """Join the rows."""
        head = b'{"run_id":' + msgspec.json.encode(self._run_id) + b',"rows":['
        if self._kind is RunKind.EVAL:
            head = b'{"rows":['
        batch.body = head + b",".join(item.data for item in batch.items) + b"]}"

    async def send(self, batch: Batch) -> Outcome:
        """Send all rows in one request where the platform takes that, one by one elsewhere."""
        transport = await self._api.connect()
        if METRICS_BATCH in await self._features(transport):
            await self._post(transport, batch.body)
            return Outcome(delivered=batch.items)
        if self._kind is RunKind.EVAL:
            reason = "this platform keeps no metric rows of evaluations"
            return Outcome(refused=[Refused(item, reason) for item in batch.items])
        return await _one_by_one(transport, self, batch.items)

    async def _features(self, transport: Transport) -> frozenset[str]:
        """Ask what the platform can do, where no answer has told yet: once."""
        if not transport.features and not self._asked:
            self._asked = True
            try:
                await transport.request("GET", "/user/whoami")
            except APIError as error:
                if is_transient(error):
                    self._asked = False
                    raise
        return transport.features

    async def send_one(self, transport: Transport, item: Item) -> None:
        """Send one row."""
        run_id = msgspec.json.encode(self._run_id)
        await self._post(transport, b'{"run_id":' + run_id + b',"metrics":' + item.data + b"}")

    def group_of(self, item: Item) -> Any:
        """Return the step: rows of one step must not overtake each other."""
        return bytes(_STEP.decode(item.data).get("step", b"null"))

    async def _post(self, transport: Transport, body: bytes) -> None:
        path = "/rft/metrics"
        if self._kind is RunKind.EVAL:
            path = f"/evaluations/{path_segment(self._run_id, 'run_id')}/metric-rows"
        # A row of a step replaces that step's, so a repeat changes nothing.
        await transport.request(
            "POST", path, body=BytesBody(body), timeout=BATCH_SECONDS, replay=Replay.SAFE
        )


class DistributionSink:
    """Sends distributions, one step's per request."""

    lane = Lane.DISTRIBUTION
    max_bytes = _ROW_BYTES
    max_items = _AT_A_TIME
    in_order = True

    def __init__(self, api: AsyncAPIClient, kind: RunKind, run_id: str) -> None:
        self.name = metrics_name(kind)
        self._api = api
        self._kind = kind
        self._run_id = run_id

    def prepare(self, batch: Batch) -> None:
        """Nothing: each goes as it is."""

    async def send(self, batch: Batch) -> Outcome:
        """Send those of different steps at the same time."""
        batch.body = b""
        return await _one_by_one(await self._api.connect(), self, batch.items)

    async def send_one(self, transport: Transport, item: Item) -> None:
        """Send those of one step."""
        path, body = "/rft/distributions", item.data
        if self._kind is RunKind.EVAL:
            path = f"/evaluations/{path_segment(self._run_id, 'run_id')}/distributions"
        else:
            body = b'{"run_id":' + msgspec.json.encode(self._run_id) + b"," + body[1:]
        await transport.request(
            "POST", path, body=BytesBody(body), timeout=BATCH_SECONDS, replay=Replay.SAFE
        )

    def group_of(self, item: Item) -> Any:
        """Return the step."""
        return bytes(_STEP.decode(item.data).get("step", b"null"))


def metrics_name(kind: RunKind) -> str:
    """Return the name of the sink of metrics of a kind of run."""
    return "rft_metrics" if kind is RunKind.TRAIN else "eval_metrics"


async def _one_by_one(
    transport: Transport, sink: MetricSink | DistributionSink, items: Sequence[Item]
) -> Outcome:
    """Send items, the groups at the same time and each group in order; say what became of each."""
    delivered: list[Item] = []
    refused: list[Refused] = []
    failed: list[tuple[Item, PrimeError]] = []
    limiter = anyio.CapacityLimiter(_AT_A_TIME)

    async def send(group: list[Item]) -> None:
        async with limiter:
            for place, item in enumerate(group):
                try:
                    await sink.send_one(transport, item)
                except PrimeError as error:
                    if not is_rejection(error):
                        failed.extend((left, error) for left in group[place:])
                        return
                    status = getattr(error, "status", None)
                    refused.append(Refused(item, str(error), status, error))
                else:
                    delivered.append(item)

    ordered = sorted(items, key=sink.group_of)
    async with anyio.create_task_group() as tasks:
        for _, group in itertools.groupby(ordered, key=sink.group_of):
            tasks.start_soon(send, list(group))
    failed.sort(key=lambda pair: pair[0].index)
    return Outcome(
        delivered=delivered,
        refused=refused,
        failed=[item for item, _ in failed],
        error=failed[0][1] if failed else None,
    )
