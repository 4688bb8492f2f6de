"""Traces of training runs as files of samples: what the platform has for them where the traces
service is not to be used.

The table of samples is of training work, of every tenth step. One file per step and batch goes
past the API: presign, PUT, confirm. A file counts only when it is confirmed, and confirming twice
is the same as once; so its name is the key of a batch, noted on disk before it is confirmed, and
a batch whose answer was lost is confirmed again in place of being uploaded again.
"""

from __future__ import annotations

import importlib.util
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from prime_async.api import AsyncAPIClient
from prime_async.errors import APIError, NotFoundError, PrimeError
from prime_async.runs.blocks import Item
from prime_async.runs.errors import ConfigurationError, UndeliveredError
from prime_async.runs.projection import episodes_to_parquet_bytes
from prime_async.runs.queue import Lane
from prime_async.runs.sinks import BATCH_SECONDS, Batch, Outcome, Sink, is_rejection
from prime_async.runs.storage import put_file
from prime_async.runs.uploader import in_thread
from prime_async.transport import Replay

__all__ = [
    "INLINE_SAMPLES",
    "STEP_INTERVAL",
    "StepSampleSink",
    "UploadNumbers",
    "check_way_of_samples",
    "sent_as_files",
]

STEP_INTERVAL = 10
"""The table takes the steps that are a multiple of it."""

INLINE_SAMPLES = "run-samples-inline"
"""Feature of platforms that take the samples of a training run inside a request."""

_STRIDE = 2**32
_RANGES = 2**21
_BYTES = 16 * 2**20
_RECORDS = 2000
_ASK_SECONDS = 10.0
_KEYS = "files:"
_HINT = "pip install 'prime-async[parquet]'"


class _Head(msgspec.Struct):
    run: Any = None
    traces: list[msgspec.Raw] | None = None


class _Presigned(msgspec.Struct):
    presignedUrl: str | None = None  # noqa: N815 - the wire's
    presigned_url: str | None = None
    s3Key: str | None = None  # noqa: N815 - the wire's
    s3_key: str | None = None


_HEAD = msgspec.json.Decoder(_Head)


class UploadNumbers:
    """Gives each file of a step a range of sample ids of its own.

    Args:
        from_zero: count the files of each step, as the process that made the run does; all others
            draw from the upper half of the space, where nobody counts.
    """

    def __init__(self, *, from_zero: bool) -> None:
        self._from_zero = from_zero
        self._used: dict[int, int] = {}

    def first_id(self, step: int) -> int:
        """Return the number of the first row of the next file of a step."""
        if not self._from_zero:
            return (_RANGES // 2 + secrets.randbelow(_RANGES // 2)) * _STRIDE
        number = self._used.get(step, 0)
        self._used[step] = number + 1
        return number * _STRIDE


@dataclass(frozen=True, slots=True)
class _Sorted:
    """The records of a batch by step, and those without a place."""

    steps: Mapping[int, list[Item]]
    left_out: list[Item]

    @property
    def items(self) -> list[Item]:
        """Those with a place, step by step."""
        return [item for group in self.steps.values() for item in group]


class StepSampleSink:
    """Uploads traces or episodes of a training run, step by step.

    Args:
        lane: TRACE or EPISODE.
        run_id: the run.
        numbers: of its files, shared by both lanes.
        inline: sends the same records inside requests, where Parquet cannot be written and the
            platform announces that it takes them.
    """

    max_bytes = _BYTES
    max_items = _RECORDS
    in_order = True

    def __init__(
        self, api: AsyncAPIClient, lane: Lane, run_id: str, numbers: UploadNumbers, inline: Sink
    ) -> None:
        self.name = inline.name
        self.lane = lane
        self._api = api
        self._run_id = run_id
        self._numbers = numbers
        self._inline = inline

    def prepare(self, batch: Batch) -> None:
        """Sort the records; the key of a batch that was sent before stays."""
        if not sent_as_files(batch.digest):
            batch.digest = None
        batch.body = _sorted(batch.items)

    async def send(self, batch: Batch) -> Outcome:
        """Upload file after file.

        Raises:
            UndeliveredError: there is no way here; another process may have one.
        """
        found: _Sorted = batch.body
        if not found.steps:
            return Outcome(left_out=batch.items)
        outcome = await (self._upload if _writes_parquet() else self._in_requests)(batch, found)
        outcome.left_out = found.left_out
        return outcome

    async def _upload(self, batch: Batch, found: _Sorted) -> Outcome:
        keys = _read_keys(batch.digest)
        delivered: list[Item] = []
        for step, items in found.steps.items():
            try:
                await self._upload_step(batch, keys, step, items)
            except PrimeError as error:
                if not is_rejection(error) or not delivered:
                    raise  # whole: what is confirmed by then is confirmed again, by its key
                left = found.items[len(delivered) :]
                return Outcome(delivered=delivered, failed=left, error=error)
            delivered += items
        return Outcome(delivered=delivered)

    async def _upload_step(
        self, batch: Batch, keys: dict[int, str], step: int, items: Sequence[Item]
    ) -> None:
        if step in keys and await self._was_uploaded(step, keys[step]):
            return
        data = await in_thread(self._parquet, step, items, self._numbers.first_id(step))
        key, address = await self._presign(step)
        await put_file(address, data, "application/parquet")
        keys[step] = key
        await in_thread(batch.note, _write_keys(keys))
        await self._confirm(step, key)

    async def _was_uploaded(self, step: int, key: str) -> bool:
        """Confirm a file that was uploaded before; False when the platform has forgotten it."""
        try:
            await self._confirm(step, key)
        except PrimeError as error:
            if isinstance(error, NotFoundError) or is_rejection(error):
                return False
            raise
        return True

    def _parquet(self, step: int, items: Sequence[Item], first_id: int) -> bytes:
        records = [msgspec.json.decode(item.data) for item in items]
        return episodes_to_parquet_bytes(
            records, run_id=self._run_id, step=step, first_sample_id=first_id
        )

    async def _presign(self, step: int) -> tuple[str, str]:
        """Return name and address for a file."""
        transport = await self._api.connect()
        response = await transport.request(
            "POST",
            "/rft/samples/presign",
            json={"run_id": self._run_id, "step": step},
            replay=Replay.SAFE,  # a second address does no harm
        )
        answer = response.json()
        try:
            given = msgspec.convert(answer.get("data") or answer, _Presigned)
        except msgspec.ValidationError as error:
            raise response.broken(f"has no address ({error})") from error
        address, key = given.presignedUrl or given.presigned_url, given.s3Key or given.s3_key
        if not address or not key:
            raise response.broken("has no address")
        return key, address

    async def _confirm(self, step: int, key: str) -> None:
        transport = await self._api.connect()
        await transport.request(
            "POST",
            "/rft/samples/confirm",
            json={"run_id": self._run_id, "step": step, "s3_key": key},
            replay=Replay.SAFE,
            timeout=BATCH_SECONDS,
        )

    async def _in_requests(self, batch: Batch, found: _Sorted) -> Outcome:
        transport = await self._api.connect()
        if INLINE_SAMPLES not in transport.features:
            raise UndeliveredError("samples of training runs need pyarrow", hint=_HINT)
        rows = Batch(found.items, from_disk=batch.from_disk)
        await in_thread(self._inline.prepare, rows)
        return await self._inline.send(rows)


async def check_way_of_samples(api: AsyncAPIClient) -> None:
    """Make sure that a training run without the traces service can send its samples.

    Raises:
        ConfigurationError: Parquet cannot be written, and the platform takes nothing else.
    """
    if _writes_parquet():
        return
    transport = await api.connect()
    if not transport.features:
        with suppress(APIError):  # what is wrong with the platform is told by what follows
            await transport.request("GET", "/user/whoami", timeout=_ASK_SECONDS)
    if INLINE_SAMPLES not in transport.features:
        raise ConfigurationError(
            "a training run without the traces service needs pyarrow for its samples",
            field="traces_opt_out",
            hint=_HINT,
        )


def sent_as_files(digest: str | None) -> bool:
    """Say whether a batch with this key was uploaded as files of samples."""
    return digest is not None and digest.startswith(_KEYS)


def _writes_parquet() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def _sorted(items: Sequence[Item]) -> _Sorted:
    steps: dict[int, list[Item]] = {}
    left_out: list[Item] = []
    for item in items:
        step = _step_of(_HEAD.decode(item.data))
        if step is None or step % STEP_INTERVAL:
            left_out.append(item)
        else:
            steps.setdefault(step, []).append(item)
    return _Sorted(dict(sorted(steps.items())), left_out)


def _step_of(record: _Head) -> int | None:
    """Return the step of a record with training work; None when it has no rows."""
    run = record.run if isinstance(record.run, Mapping) else {}
    work = run.get("work")
    if not isinstance(work, Mapping) or work.get("type", "train") != "train":
        return None
    step = work.get("step")
    whole = isinstance(step, int) and not isinstance(step, bool)
    return step if whole and record.traces != [] else None


def _read_keys(digest: str | None) -> dict[int, str]:
    if digest is None:
        return {}
    return msgspec.json.decode(digest.removeprefix(_KEYS), type=dict[int, str])


def _write_keys(keys: Mapping[int, str]) -> str:
    return _KEYS + msgspec.json.encode(keys).decode()
