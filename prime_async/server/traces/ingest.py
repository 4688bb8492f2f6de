"""Takes an upload in: reads its body as it arrives, checks all of it, stores all of it or nothing.

The bytes of the lines become a file named by their digest, which is also the key of the upload; the
rows go into the database in one transaction. A file without rows means nothing, so whatever breaks
off before the commit leaves nothing behind that could be seen.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec

from prime_async.server.answers import Answer
from prime_async.server.bodies import pieces
from prime_async.server.endpoints import Call
from prime_async.server.failures import RequestError
from prime_async.server.logs import log_event
from prime_async.server.store.traces import Upload, store, stored_format
from prime_async.server.traces.lines import LineReader
from prime_async.server.traces.multipart import MultipartError, boundary_of
from prime_async.server.traces.owners import owner_of
from prime_async.server.traces.parts import Metadata, Parts
from prime_async.server.traces.records import Window
from prime_async.server.traces.refusals import BUSY_SECONDS, refused, stored_otherwise
from prime_async.server.traces.sealing import seal
from prime_async.server.traces.staging import Staging
from prime_async.traces.codes import ErrorCode, LineFormat
from prime_async.traces.models import UploadReceipt

__all__ = ["receive"]

ENVELOPE_BYTES = 1024 * 1024
"""What a body may have beside its lines: the metadata, boundaries, the cost of an encoding."""

SLICE_BYTES = 512 * 1024
"""Bytes of a body that go to a thread at once."""

_KEY = re.compile(r"sha256:([0-9a-f]{64})")


async def receive(call: Call) -> Answer:
    """Take an upload in and answer its receipt.

    Raises:
        RequestError: nothing of it was stored; its code is one of the traces wire.
    """
    owner, digest, line_format = owner_of(call), _digest(call), _line_format(call)
    boundary = _boundary(call)
    async with call.platform.traces.bringing(digest):
        reader = None
        if _stored_format(call, owner, digest) is None:
            window = Window(call.platform.clock.now())
            reader = LineReader(line_format, call.platform.config.limits, window)
        async with _staging(call, reader) as staging:
            metadata = await _read(call, Parts(boundary, staging))
            await seal(call.platform, staging, reader, digest)
            upload = _upload(call, owner, digest, line_format, metadata, staging.size)
            if reader is None:
                reply = _replayed(call, upload)
            else:
                # From here on it is done or undone, whatever becomes of who asked for it.
                with anyio.CancelScope(shield=True):
                    reply = await _commit(call, upload, staging)
    return reply


def _stored_format(call: Call, owner: str, digest: str) -> LineFormat | None:
    return call.platform.database.point(lambda reader: stored_format(reader, owner, digest))


def _upload(
    call: Call, owner: str, digest: str, line_format: LineFormat, metadata: Metadata, size: int
) -> Upload:
    return Upload(
        owner=owner,
        digest=digest,
        line_format=line_format,
        schema_version=metadata.schema_version,
        context=msgspec.json.encode(metadata.context).decode(),
        user_id=call.caller.account.id,
        size=size,
        now=call.platform.clock.now(),
    )


def _no_storage(error: OSError) -> RequestError:
    log_event(logging.ERROR, "trace_storage_failed", error=error)
    return refused(
        ErrorCode.STORAGE_UNAVAILABLE,
        "the platform cannot write to its disk; nothing of the upload was stored",
        status=503,
        headers={"Retry-After": BUSY_SECONDS},
    )


def _digest(call: Call) -> str:
    match = _KEY.fullmatch(call.request.headers.get("Idempotency-Key", ""))
    if match is None:
        raise refused(
            ErrorCode.INVALID_IDEMPOTENCY_KEY,
            "Idempotency-Key must be 'sha256:' and the 64 lower-case hex digits of the SHA-256 of "
            "the uncompressed lines",
        )
    return match[1]


def _line_format(call: Call) -> LineFormat:
    text = call.request.headers.get("X-Prime-Line-Format", LineFormat.TRACE.value)
    try:
        return LineFormat(text)
    except ValueError:
        raise refused(
            ErrorCode.LINE_FORMAT_MISMATCH,
            f"X-Prime-Line-Format is {text[:40]!r}; it can be 'episode', or be left out for traces",
        ) from None


def _boundary(call: Call) -> bytes:
    limit = call.platform.config.limits.trace_upload_bytes
    if (call.request.content_length or 0) > limit + ENVELOPE_BYTES:
        raise refused(
            ErrorCode.UPLOAD_TOO_LARGE, f"an upload may have {limit} bytes; this body has more"
        )
    try:
        return boundary_of(call.request.headers.get("Content-Type", ""))
    except MultipartError as error:
        raise refused(ErrorCode.MALFORMED_ENCODING, str(error)) from error


@asynccontextmanager
async def _staging(call: Call, reader: LineReader | None) -> AsyncIterator[Staging]:
    """A staging whose files are opened and removed in threads.

    Raises:
        RequestError: 503 ``storage_unavailable``, the disk refuses something.
    """
    limit = call.platform.config.limits.trace_upload_bytes
    staging = Staging(call.platform.traces.blobs.new_draft(), reader, limit)
    try:
        await call.platform.in_thread(staging.open)
        yield staging
    except ConnectionError:
        raise
    except OSError as error:
        raise _no_storage(error) from error
    finally:
        with anyio.CancelScope(shield=True):
            await call.platform.in_thread(staging.close)


async def _read(call: Call, parts: Parts) -> Metadata:
    body = _slices(call)
    try:
        async for piece in body:
            await call.platform.in_thread(parts.feed, piece)
        return await call.platform.in_thread(parts.close)
    except RequestError:
        # A client that is still sending would see a broken connection in place of the refusal.
        async for _ in body:
            continue
        raise


async def _slices(call: Call) -> AsyncIterator[bytes]:
    """The body in pieces large enough to be worth a thread."""
    limits = call.platform.config.limits
    limit = limits.trace_upload_bytes + ENVELOPE_BYTES
    waiting: list[bytes] = []
    size = 0
    try:
        async for piece in pieces(call.request, limit, limits, seconds=limits.trace_upload_seconds):
            waiting.append(piece)
            size += len(piece)
            if size >= SLICE_BYTES:
                yield b"".join(waiting)
                waiting, size = [], 0
    except RequestError as failure:
        if failure.status != 413:
            raise
        raise refused(ErrorCode.UPLOAD_TOO_LARGE, failure.message) from failure
    if waiting:
        yield b"".join(waiting)


async def _commit(call: Call, upload: Upload, staging: Staging) -> Answer:
    platform = call.platform
    await platform.in_thread(platform.traces.blobs.keep, staging.path, upload.digest)
    stored = await platform.database.write(
        lambda connection: store(connection, upload, staging.batches()), rows=staging.row_count
    )
    if stored:
        platform.metrics.traces.inc(staging.row_count)
        platform.metrics.trace_bytes.inc(staging.size)
        platform.traces.texts_wait()
    return _receipt(upload, replayed=not stored)


def _replayed(call: Call, upload: Upload) -> Answer:
    """The receipt of what was stored when the upload began, unless it has been deleted since."""
    found = _stored_format(call, upload.owner, upload.digest)
    if found is None:
        raise refused(
            ErrorCode.INGEST_UNAVAILABLE, "these traces are being deleted; send again", status=503
        )
    if found is not upload.line_format:
        raise stored_otherwise(found.value)
    return _receipt(upload, replayed=True)


def _receipt(upload: Upload, *, replayed: bool) -> Answer:
    receipt = UploadReceipt(upload_id=upload.digest, status="committed", replayed=replayed)
    return Answer(201, msgspec.json.encode(receipt), replayed)
