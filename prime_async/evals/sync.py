"""Delivering what earlier pushes left on disk: spooled samples, and files whose push was
interrupted.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
from anyio.abc import TaskGroup

from prime_async.api import AsyncAPIClient
from prime_async.errors import PartialPushError, PrimeError, SpoolError
from prime_async.evals.batches import OVERHEAD
from prime_async.evals.encoding import Chunk, SampleEncoder, join
from prime_async.evals.keeping import KIND, Journal, default_spool
from prime_async.evals.ledger import Ledger
from prime_async.evals.push import Progress, Push
from prime_async.evals.pushing import (
    LASTING,
    PushOptions,
    push_samples,
    stored_ranges,
)
from prime_async.evals.receipts import PushReceipt, ResumeToken
from prime_async.evals.verifiers import samples_file
from prime_async.spool import (
    DataRecord,
    EntryWriter,
    Meta,
    Ranges,
    SourceInfo,
    Spool,
    SpoolEntry,
    SpoolState,
)

__all__ = ["InterruptedPush", "SyncResult", "goes_to", "interrupted_pushes", "sync_pushes"]

_WINDOW = 2**20


@dataclass(frozen=True, slots=True)
class InterruptedPush:
    """A push that left something on disk.

    Attributes:
        evaluation_id, push_id: which.
        base_url, context: where it was going.
        path: its entry in the spool.
        file: the file it was pushing, or None when the samples themselves are in the spool.
        changed: that file is gone, or not what it was when it was checked.
        undelivered: samples known not to be confirmed; for a file that was never read to its end
            there may be more.
        running: True while the process that pushes it is alive.
        resume_token: resumes it by hand.
        fault: why its entry cannot be used, or None.
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
    fault: str | None = None
    changed: bool = False


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


def interrupted_pushes(
    spool: Spool | None = None, *, file: Path | str | None = None
) -> list[InterruptedPush]:
    """List the pushes that left something, oldest first. Reads files: call it in a thread.

    Args:
        spool: default is the user's, ``~/.prime/spool``.
        file: only those of this file or result folder.

    Raises:
        InvalidEvaluationError: `file` is a folder, and not a result folder.
    """
    spool = spool or default_spool()
    wanted = None if file is None else samples_file(file).resolve()
    if spool is None:
        return []
    found = [push for entry in spool.entries(KIND) if (push := _look_at(entry)) is not None]
    return [push for push in found if wanted is None or _is_of(push, wanted)]


def goes_to(push: InterruptedPush, api: AsyncAPIClient) -> bool:
    """Say whether a push was going to the platform of this client.

    The embedded one stays the same when its port moves.
    """
    return push.base_url == api.base_url or push.context == "local" == api.settings.context


def _is_of(push: InterruptedPush, file: Path) -> bool:
    return push.file is not None and push.file.resolve() == file


def _look_at(entry: SpoolEntry) -> InterruptedPush | None:
    """Describe an entry; None when it was delivered and removed since it was listed."""
    try:
        state = entry.state(verify=False)
    except SpoolError as error:
        return _unusable(entry, error.message) if entry.path.is_dir() else None
    if state.meta is None:
        return _unusable(entry, f"{entry.path} is damaged: nothing in it says where it was going")
    return _describe(entry, state, state.meta)


def _unusable(entry: SpoolEntry, fault: str) -> InterruptedPush:
    return InterruptedPush(
        evaluation_id="",
        push_id=entry.id,
        base_url=None,
        context=None,
        path=entry.path,
        file=None,
        undelivered=0,
        running=entry.holder() is not None,
        resume_token="",
        fault=fault,
    )


def _describe(entry: SpoolEntry, state: SpoolState, meta: Meta) -> InterruptedPush:
    token = _token(entry, state, meta)
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
        changed=meta.source is not None and not _unchanged(meta.source),
    )


def _token(entry: SpoolEntry, state: SpoolState, meta: Meta) -> ResumeToken:
    evaluation_id = meta.target.get("evaluation_id", "")
    return ResumeToken(evaluation_id, entry.id, state.acked, state.unknown - state.present)


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
    if push.fault is not None:
        return SyncResult(push, None, push.fault)
    if not goes_to(push, api):
        return SyncResult(push, None, f"it was going to {push.base_url}, not to {api.base_url}")
    if push.running:
        return SyncResult(push, None, "it is still running in another process")
    try:
        receipt, lost = await _deliver(api, spool, push, progress)
    except PartialPushError as error:
        return SyncResult(push, error.receipt, error.message)
    except PrimeError as error:
        return SyncResult(push, None, str(error))
    return SyncResult(push, receipt, lost or (None if receipt.complete else str(receipt)))


async def _deliver(
    api: AsyncAPIClient, spool: Spool, push: InterruptedPush, progress: Progress | None
) -> tuple[PushReceipt, str | None]:
    """Own the entry, then send what it stands for; say what of it cannot be read any more."""
    writer = await anyio.to_thread.run_sync(spool.open(KIND, push.push_id).try_take_over, "sync")
    if writer is None:
        raise SpoolError(f"push {push.push_id} was just taken by another process", path=push.path)
    try:
        if push.file is not None:
            return await _push_file(api, writer, push.file, progress), None
        return await _push_records(api, writer, progress)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(writer.close)


async def _push_file(
    api: AsyncAPIClient, writer: EntryWriter, file: Path, progress: Progress | None
) -> PushReceipt:
    state = writer.state()
    meta = state.meta or Meta()
    if not await anyio.to_thread.run_sync(_unchanged, meta.source):
        raise SpoolError(
            f"{file} is gone or changed since its push was interrupted",
            path=writer.entry.path,
            hint=f"push it again, or give up with: rm -r {shlex.quote(str(writer.entry.path))}",
        )
    token = _token(writer.entry, state, meta)
    options = _options(meta, resume=str(token), progress=progress)
    return await push_samples(api, file, options, Journal(writer))


def _options(meta: Meta, **more: Any) -> PushOptions:
    """Go on as the push began: with its limits, its strictness and what it trimmed."""
    lasting = {name: meta.extra[name] for name in LASTING if name in meta.extra}
    return PushOptions.checked(meta.target.get("evaluation_id", ""), **lasting, **more)


def _unchanged(source: SourceInfo | None) -> bool:
    try:
        return source is not None and SourceInfo.of(source.path).same_content(source)
    except OSError:
        return False


async def _push_records(
    api: AsyncAPIClient, writer: EntryWriter, progress: Progress | None
) -> tuple[PushReceipt, str | None]:
    transport = await api.connect()
    state = writer.state()
    options = _options(state.meta or Meta(), push_id=writer.entry.id)
    token = options.token
    stored = await stored_ranges(transport, token)
    unknown = state.unknown & state.present
    wanted = (state.undelivered & state.present) - (stored or Ranges())
    if stored is not None:
        writer.ack(stored & state.present)
    elif unknown:
        # This platform cannot tell what arrived: sending it again could store it twice.
        wanted.subtract(unknown)
        token = ResumeToken(token.evaluation_id, token.push_id, Ranges(), unknown)
    lost = _lost_records(state, stored or Ranges())
    encoder = SampleEncoder(limit=options.ceiling - OVERHEAD)
    keeper = Journal(writer, keep=lost is not None)
    push = Push(
        transport,
        token,
        _SpoolSource(writer.entry, wanted, encoder.limit),
        Ledger(token, encoder, keeper),
        keeper,
        ceiling=options.ceiling,
        max_concurrent=options.max_concurrent,
        progress=progress,
    )
    return await push.run(options.timeout), lost


def _lost_records(state: SpoolState, stored: Ranges) -> str | None:
    """Say what of an entry is neither on the platform nor readable; None when nothing is."""
    missing = state.missing - stored
    if missing:
        return f"samples {missing} cannot be read from the spool any more"
    if state.damage:
        return f"parts of the spool entry cannot be read: {state.damage[0]}"
    return None


class _SpoolSource:
    """Feeds a push from the records of a spool entry."""

    rereadable = True
    source = None
    total = None

    def __init__(self, entry: SpoolEntry, wanted: Ranges, limit: int) -> None:
        self._limit = limit
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
        return join(window, self._limit)
