"""The sinks of sample rows: those of an evaluation, and those of a training run."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from prime_async.api import AsyncAPIClient
from prime_async.errors import APIError, PrimeError
from prime_async.evals.push import SAMPLE_RANGES
from prime_async.runs.blocks import Item
from prime_async.runs.options import RunKind
from prime_async.runs.queue import Lane
from prime_async.runs.sinks import BATCH_SECONDS, Batch, Outcome, Refused
from prime_async.spool import Ranges
from prime_async.transport import BytesBody, path_segment

__all__ = ["EvalSampleSink", "TrainSampleSink", "samples_name"]

_BYTES = 2**20
_ROWS = 2000
_STEP = msgspec.json.Decoder(dict[str, msgspec.Raw])


def samples_name(kind: RunKind) -> str:
    """Return the name of the sink of samples of a kind of run."""
    return "rft_samples" if kind is RunKind.TRAIN else "eval_samples"


class EvalSampleSink:
    """Adds rows to the samples of an evaluation.

    Where the platform knows sample ranges, each row is stored once by its index, however often it
    is sent.

    Args:
        push_id: names this process's part of the run on such a platform.
    """

    lane = Lane.SAMPLE
    max_bytes = _BYTES
    max_items = _ROWS
    in_order = False

    def __init__(self, api: AsyncAPIClient, run_id: str, push_id: str) -> None:
        self.name = samples_name(RunKind.EVAL)
        self._api = api
        self._path = f"/evaluations/{path_segment(run_id, 'run_id')}/samples"
        self._push_id = push_id

    def prepare(self, batch: Batch) -> None:
        """Join the rows; on such a platform their indexes are their key."""
        ordered = sorted(batch.items)
        batch.body = b'{"samples":[' + b",".join(item.data for item in ordered) + b"]}"
        batch.digest = None

    async def send(self, batch: Batch) -> Outcome:
        """Send the rows, and read which of them were refused one by one."""
        transport = await self._api.connect()
        ranges = Ranges.of(item.index for item in batch.items)
        try:
            response = await transport.request(
                "POST",
                self._path,
                body=BytesBody(batch.body),
                headers={
                    "X-Prime-Push": self._push_id,
                    "X-Prime-Range": ",".join(f"{start}-{stop}" for start, stop in ranges),
                },
                timeout=BATCH_SECONDS,
                deduplicated_by=SAMPLE_RANGES,
            )
        except APIError as error:
            if error.ambiguous and SAMPLE_RANGES not in transport.features:
                # Sent again it could be there twice, and this platform cannot tell.
                reason = f"it may have been stored: {error}"
                return Outcome(
                    refused=[Refused(item, reason, error.status) for item in batch.items]
                )
            raise
        refused = _refused(response.json(), batch.items)
        gone = {one.item.index for one in refused}
        return Outcome(
            delivered=[item for item in batch.items if item.index not in gone], refused=refused
        )


class TrainSampleSink:
    """Sends rows of a training run, those of one step per request.

    A row belongs to the step under ``step``, to 0 without one.
    """

    lane = Lane.SAMPLE
    max_bytes = _BYTES
    max_items = _ROWS
    in_order = True

    def __init__(self, api: AsyncAPIClient, run_id: str) -> None:
        self.name = samples_name(RunKind.TRAIN)
        self._api = api
        self._run_id = run_id

    def prepare(self, batch: Batch) -> None:
        """Nothing: the rows are joined step by step."""
        batch.body = b""

    async def send(self, batch: Batch) -> Outcome:
        """Send step after step; a step that fails leaves the others of the batch to be sent."""
        transport = await self._api.connect()
        delivered: list[Item] = []
        groups = [list(rows) for _, rows in itertools.groupby(batch.items, key=_step_of)]
        for place, rows in enumerate(groups):
            try:
                await transport.request(
                    "POST",
                    "/rft/samples",
                    body=BytesBody(self._body(rows)),
                    timeout=BATCH_SECONDS,
                    idempotency_key=_key(self._run_id, rows),
                )
            except PrimeError as error:
                if not delivered:
                    raise
                left = [item for group in groups[place:] for item in group]
                return Outcome(delivered=delivered, failed=left, error=error)
            delivered += rows
        return Outcome(delivered=delivered)

    def _body(self, rows: Sequence[Item]) -> bytes:
        head = {"run_id": self._run_id, "step": _step_of(rows[0])}
        joined = b",".join(item.data for item in rows)
        return msgspec.json.encode(head)[:-1] + b',"samples":[' + joined + b"]}"


def _key(run_id: str, rows: Sequence[Item]) -> str:
    digest = hashlib.sha256(run_id.encode())
    for row in rows:
        digest.update(b"%d:" % row.index)
        digest.update(row.data)
    return f"samples_{digest.hexdigest()}"


def _step_of(item: Item) -> int:
    try:
        return int(_STEP.decode(item.data).get("step", b"0"))
    except ValueError:
        return 0


def _refused(answer: dict[str, Any], items: Sequence[Item]) -> list[Refused]:
    by_index = {item.index: item for item in items}
    found = []
    for entry in answer.get("refused") or ():
        item = by_index.get(entry.get("index"))
        if item is not None:
            reason = str(entry.get("message") or "refused by the platform")
            found.append(Refused(item, reason, entry.get("status")))
    return found
