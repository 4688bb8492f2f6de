"""Adds traces that the platform makes itself, as if somebody had uploaded them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio
import msgspec
from sqlalchemy import Connection

from prime_async.server.endpoints import Call
from prime_async.server.store.trace_deletes import drop_earlier
from prime_async.server.store.traces import Upload, store
from prime_async.server.traces.lines import LineReader
from prime_async.server.traces.parts import SCHEMA_VERSION
from prime_async.server.traces.records import Window
from prime_async.server.traces.sealing import seal
from prime_async.server.traces.staging import Staging
from prime_async.traces.codes import LineFormat

__all__ = ["Addition", "add_traces"]


@dataclass(frozen=True, slots=True)
class Addition:
    """Traces of an owner as JSON lines.

    Attributes:
        user_id: the account they come from.
        context: marks where they come from.
        replaces: contexts whose earlier copies of the traces are dropped.
        settle: runs first in the transaction that stores them; nothing is stored when it says so.
    """

    owner: str
    user_id: str
    lines: bytes
    context: Mapping[str, str]
    replaces: Sequence[Mapping[str, str]]
    settle: Callable[[Connection], bool]


async def add_traces(call: Call, addition: Addition) -> bool:
    """Store traces in place of earlier copies; False when ``settle`` did not want it.

    Raises:
        RequestError: 400, a line cannot be stored; nothing is then.
    """
    platform = call.platform
    upload = _upload(call, addition)
    async with platform.traces.bringing(upload.digest):
        window = Window.unlimited(upload.now)
        reader = LineReader(LineFormat.TRACE, platform.config.limits, window)
        limit = platform.config.limits.trace_upload_bytes
        staging = Staging(platform.traces.blobs.new_draft(), reader, limit)
        try:
            await platform.in_thread(_fill, staging, addition.lines)
            await seal(platform, staging, reader, upload.digest)
            with anyio.CancelScope(shield=True):
                await platform.in_thread(platform.traces.blobs.keep, staging.path, upload.digest)
                freed = await platform.database.write(
                    lambda connection: _store(connection, upload, staging, addition),
                    rows=staging.row_count,
                )
                platform.traces.texts_wait()
        finally:
            with anyio.CancelScope(shield=True):
                await platform.in_thread(staging.close)
    await platform.traces.sweep([upload.digest] if freed is None else freed)
    return freed is not None


def _upload(call: Call, addition: Addition) -> Upload:
    return Upload(
        owner=addition.owner,
        digest=hashlib.sha256(addition.lines).hexdigest(),
        line_format=LineFormat.TRACE,
        schema_version=SCHEMA_VERSION,
        context=_context(addition.context),
        user_id=addition.user_id,
        size=len(addition.lines),
        now=call.platform.clock.now(),
    )


def _fill(staging: Staging, lines: bytes) -> None:
    staging.open()
    staging.take(lines)


def _store(
    connection: Connection,
    upload: Upload,
    staging: Staging,
    addition: Addition,
) -> list[str] | None:
    """Store the rows; return the files that no upload needs any more, None when it did not."""
    if not addition.settle(connection):
        return None
    if not store(connection, upload, staging.batches()):
        return []
    ids = [row.trace_id for batch in staging.batches() for row in batch.traces]
    return drop_earlier(connection, upload.owner, ids, [_context(one) for one in addition.replaces])


def _context(context: Mapping[str, str]) -> str:
    """A context as the store has it."""
    return msgspec.json.encode(dict(context)).decode()
