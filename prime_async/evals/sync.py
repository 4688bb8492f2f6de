"""Delivering what earlier pushes left on disk: spooled samples, and files whose push was
interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
from anyio.abc import TaskGroup

from prime_async.api import AsyncAPIClient
from prime_async.errors import PartialPushError, PrimeError, SpoolError
from prime_async.evals.batches import MAX_PAYLOAD_BYTES, OVERHEAD
from prime_async.evals.encoding import Chunk, SampleEncoder, join
from prime_async.evals.keeping import KIND, Journal, default_spool
from prime_async.evals.ledger import Ledger
from prime_async.evals.push import Progress, Push
from prime_async.evals.pushing import (
    DEFAULT_CONCURRENT,
    DEFAULT_TIMEOUT,
    PushOptions,
    push_samples,
    stored_ranges,
)
from prime_async.evals.receipts import PushReceipt, ResumeToken
from prime_async.spool import (
    DataRecord,
    EntryWriter,
    Ranges,
    SourceInfo,
    Spool,
    SpoolEntry,
    SpoolState,
)

__all__ = ["InterruptedPush", "SyncResult", "interrupted_pushes", "sync_pushes"]

_WINDOW = 2**20


@dataclass(frozen=True, slots=True)
class InterruptedPush:
    """A push that left something on disk.

    Attributes:
        evaluation_id, push_id: which.
        base_url, context: where it was going.
        path: its entry in the spool.
        file: the file it was pushing, or None when the samples themselves are in the spool.
        undelivered: samples known not to be confirmed; for a file that was never read to its end
            there may be more.
        running: True while the process that pushes it is alive.
        resume_token: resumes it by hand.
    """

    evaluation_id: str
    push_id: str
    base_url: str | None
    context: str | None
    path: Path
    file: Path | None
    undelivered: int
    running: bool
    resume_token: str


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What became of one interrupted push.

    Attributes:
        push: which.
        receipt: what was delivered now and what is left, or None when it was not tried.
        problem: why it was not, or not fully, delivered; None when all of it was.
    """

    push: InterruptedPush
    receipt: PushReceipt | None
    problem: str | None


def interrupted_pushes(spool: Spool | None = None) -> list[InterruptedPush]:
    """List the pushes that left something, oldest first. Reads files: call it in a thread.

    Args:
        spool: default is the user's, ``~/.prime/spool``.
    """
    spool = spool or default_spool()
    if spool is None:
        return []
    found = (_describe(entry, entry.state(verify=False)) for entry in spool.entries(KIND))
    return [push for push in found if push is not None]


def _describe(entry: SpoolEntry, state: SpoolState) -> InterruptedPush | None:
    meta = state.meta
    if meta is None:
        return None
    token = ResumeToken(
        meta.target.get("evaluation_id", ""), entry.id, state.acked, state.unknown - state.present
    )
    return InterruptedPush(
        evaluation_id=token.evaluation_id,
        push_id=entry.id,
        base_url=meta.base_url,
        context=meta.context,
        path=entry.path,
        file=Path(meta.source.path) if meta.source is not None else None,
        undelivered=state.undelivered.total,
        running=entry.holder() is not None,
        resume_token=str(token),
    )


async def sync_pushes(
    api: AsyncAPIClient, *, spool: Spool | None = None, progress: Progress | None = None
) -> list[SyncResult]:
    """Deliver every interrupted push that was going to this client's platform; leave the others
    alone.

    Safe to run at the same time from several processes: each push has one owner.

    Args:
        api: the connection; a push that was going elsewhere is reported, never redirected.
        spool: default is the user's, ``~/.prime/spool``.
        progress: called with the number of samples settled since the last call.
    """
    spool = spool or default_spool()
    if spool is None:
        return []
    pushes = await anyio.to_thread.run_sync(interrupted_pushes, spool)
    return [await _sync_one(api, spool, push, progress) for push in pushes]


async def _sync_one(
    api: AsyncAPIClient, spool: Spool, push: InterruptedPush, progress: Progress | None
) -> SyncResult:
    same_context = push.context == "local" == api.settings.context
    if push.base_url != api.base_url and not same_context:
        return SyncResult(push, None, f"it was going to {push.base_url}, not to {api.base_url}")
    if push.running:
        return SyncResult(push, None, "it is still running in another process")
    try:
        deliver = _deliver_records if push.file is None else _deliver_file
        receipt = await deliver(api, spool, push, progress)
    except PartialPushError as error:
        return SyncResult(push, error.receipt, error.message)
    except PrimeError as error:
        return SyncResult(push, None, str(error))
    return SyncResult(push, receipt, None if receipt.complete else str(receipt))


async def _deliver_file(
    api: AsyncAPIClient, spool: Spool, push: InterruptedPush, progress: Progress | None
) -> PushReceipt:
    file = push.file
    assert file is not None
    meta = (await anyio.to_thread.run_sync(spool.open(KIND, push.push_id).state)).meta
    if (
        meta is None
        or meta.source is None
        or not await anyio.to_thread.run_sync(_unchanged, meta.source)
    ):
        raise SpoolError(
            f"{file} is gone or changed since its push was interrupted",
            path=push.path,
            hint=f"push it again, or give up with: rm -r {push.path}",
        )
    options = PushOptions.checked(push.evaluation_id, resume=push.resume_token, progress=progress)
    return await push_samples(api, file, options)


def _unchanged(source: SourceInfo) -> bool:
    try:
        return SourceInfo.of(source.path).same_content(source)
    except OSError:
        return False


async def _deliver_records(
    api: AsyncAPIClient, spool: Spool, push: InterruptedPush, progress: Progress | None
) -> PushReceipt:
    writer = await anyio.to_thread.run_sync(spool.open(KIND, push.push_id).try_take_over, "sync")
    if writer is None:
        raise SpoolError(f"push {push.push_id} was just taken by another process", path=push.path)
    try:
        return await _push_records(api, writer, push, progress)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(writer.close)


async def _push_records(
    api: AsyncAPIClient, writer: EntryWriter, push: InterruptedPush, progress: Progress | None
) -> PushReceipt:
    transport = await api.connect()
    state = writer.state()
    token = ResumeToken(push.evaluation_id, push.push_id)
    stored = await stored_ranges(transport, token)
    unknown = state.unknown & state.present
    wanted = (state.undelivered & state.present) - (stored or Ranges())
    if stored is not None:
        writer.ack(stored & state.present)
    elif (
        unknown
    ):  # this platform cannot tell what arrived, and sending it again could store it twice
        wanted.subtract(unknown)
        token = ResumeToken(push.evaluation_id, push.push_id, Ranges(), unknown)
    encoder = SampleEncoder(limit=MAX_PAYLOAD_BYTES - OVERHEAD)
    keeper = Journal(writer)
    source = _SpoolSource(writer.entry, wanted)
    return await Push(
        transport,
        token,
        source,
        Ledger(token, encoder, keeper),
        keeper,
        ceiling=MAX_PAYLOAD_BYTES,
        max_concurrent=DEFAULT_CONCURRENT,
        progress=progress,
    ).run(DEFAULT_TIMEOUT)


class _SpoolSource:
    """Feeds a push from the records of a spool entry."""

    rereadable = True
    source = None
    total = None

    def __init__(self, entry: SpoolEntry, wanted: Ranges) -> None:
        self._records: Iterator[DataRecord] = entry.records(wanted) if wanted else iter(())

    def start(self, group: TaskGroup) -> None:
        """Nothing to start."""

    async def aclose(self) -> None:
        """Nothing to stop."""

    async def leftovers(self) -> list[Chunk]:
        """Nothing is held: it can be read again."""
        return []

    async def next_chunks(self) -> list[Chunk] | None:
        """Return the records of the next window of about 1 MiB, None at the end."""
        return await anyio.to_thread.run_sync(self._window) or None

    def _window(self) -> list[Chunk]:
        window: list[tuple[int, bytes]] = []
        size = 0
        for record in self._records:
            window.append((record.index, record.payload))
            size += len(record.payload)
            if size >= _WINDOW:
                break
        return join(window)
