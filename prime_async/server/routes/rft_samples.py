"""Samples of training runs, as files per step: uploaded past the API by a presigned address, or
sent inside a request.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct
from sqlalchemy import Connection

from prime_async.runs.wire import (
    LARGEST_STEP,
    ConfirmSamples,
    LogSamples,
    PresignedUpload,
    PresignedUploadAnswer,
    PresignSamples,
    SampleObject,
    SampleObjectPage,
    StoredCount,
)
from prime_async.server.answers import Answer, answer
from prime_async.server.bodies import pieces
from prime_async.server.clock import timestamp
from prime_async.server.decoding import decode_body, decode_fields
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError
from prime_async.server.identifiers import new_id
from prime_async.server.routes.rft import training_run_not_found
from prime_async.server.runs.cursors import read_cursor, write_cursor
from prime_async.server.runs.objects import PRESIGNED_SECONDS
from prime_async.server.store import runs
from prime_async.server.store import sample_objects as store
from prime_async.server.store.runs import Subject
from prime_async.server.store.sample_objects import Place, StoredObject

__all__ = ["ENDPOINTS", "UPLOAD"]

_PARQUET = b"PAR1"
_MEDIA_TYPES = {"parquet": "application/vnd.apache.parquet", "json": "application/json"}
_WINDOW = 1024 * 1024


class ListQuery(Struct, kw_only=True):
    """Query of the files, of one step or all."""

    step: Annotated[int, Meta(ge=-LARGEST_STEP, le=LARGEST_STEP)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    cursor: str | None = None


async def presign(call: Call) -> Reply:
    """Give an address that takes one file."""
    # A second address does no harm: the key is checked and not needed.
    _ = call.key_text
    body: PresignSamples = call.body
    run = _find(call, body.run_id)
    token, key = await call.platform.runs.objects.presign(run.number, body.step)
    url = f"{call.platform.sandboxes.address(call.request)}/api/v1/rft/uploads/{token}"
    upload = PresignedUpload(presigned_url=url, s3_key=key, expires_in=PRESIGNED_SECONDS)
    return answer(PresignedUploadAnswer(data=upload, presigned_url=url, s3_key=key))


async def upload(call: Call) -> Reply:
    """Take the file of a presigned address in; the address is all it needs."""
    objects = call.platform.runs.objects
    promised = objects.promised(call.path["token"])
    limits = call.platform.config.limits
    if (call.request.content_length or 0) > limits.sample_object_bytes:
        raise RequestError(
            413, "body_too_large", f"a file may have {limits.sample_object_bytes} bytes"
        )
    if "Content-Encoding" in call.request.headers:
        raise RequestError(415, "unsupported_encoding", "a file is taken as it is, not encoded")
    body = pieces(
        call.request, limits.sample_object_bytes, limits, seconds=limits.sample_object_seconds
    )
    first = await anext(body, b"")
    kind = "parquet" if first.startswith(_PARQUET) else "json"
    await objects.receive(promised, _chained(first, body), kind)
    return Answer(200, b"{}")


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


async def confirm(call: Call) -> Reply:
    """List an uploaded file under its step."""
    _ = call.key_text
    body: ConfirmSamples = call.body
    run = _find(call, body.run_id)
    found = await call.platform.runs.objects.confirm(run.number, body.step, body.s3_key)
    return answer(_wire(found))


async def log_samples(call: Call) -> Reply:
    """Store samples that are in the request, as one file."""
    limit = call.platform.config.limits.samples_body_bytes
    async with call.read(limit) as raw:
        body = await call.platform.in_thread(decode_body, raw, LogSamples)
        # The scope of an Idempotency-Key is read off the body.
        call.body = body
        run = _find(call, body.run_id)
        fields = await call.platform.in_thread(decode_fields, raw)
        return await _keep(call, run, body.step, bytes(fields["samples"]))


async def _keep(call: Call, run: Subject, step: int, text: bytes) -> Answer:
    objects = call.platform.runs.objects
    sha256 = await call.platform.in_thread(_digest, text)
    async with objects.bringing(sha256.hex()):
        await objects.keep_text(text, sha256.hex())
        row = {
            "key": new_id(),
            "run": run.number,
            "step": step,
            "format": "json",
            "size": len(text),
            "sha256": sha256,
            "confirmed": True,
            "created_at": call.platform.clock.now(),
        }

        def write(connection: Connection) -> Answer:
            if store.known(connection, run.number, step, sha256) is not None:
                return answer(StoredCount(stored=0))
            store.add(connection, row)
            return answer(StoredCount(stored=1))

        return await call.commit(write)


async def list_page(call: Call) -> Reply:
    """Read a page of a run's files of samples."""
    query: ListQuery = call.query
    run = _find(call, call.path["run_id"])
    after = None if query.cursor is None else read_cursor(query.cursor, Place)

    def read(connection: Connection) -> Answer:
        found = store.page(connection, run.number, query.step, after, query.limit)
        here = found[: query.limit]
        more = len(found) > len(here)
        cursor = write_cursor((here[-1].step, here[-1].number)) if more else None
        return answer({"objects": [_wire(one) for one in here], "next_cursor": cursor})

    return await call.platform.database.scan(read)


async def download(call: Call) -> Reply:
    """Read one file of samples, exactly as it was sent."""
    run, key = _find(call, call.path["run_id"]), call.path["key"]
    found = call.platform.database.point(lambda reader: store.find(reader, run.number, key))
    missing = RequestError(404, "object_not_found", f"the run has no samples {key}")
    if found is None or not found.confirmed or found.sha256 is None or found.format is None:
        raise missing
    path = call.platform.runs.objects.blobs.path(found.sha256.hex())
    if not await call.platform.in_thread(path.is_file):
        raise missing
    name = f"step-{found.step}-{found.key}.{found.format}"
    headers = {
        "Content-Type": _MEDIA_TYPES[found.format],
        "Content-Disposition": f'attachment; filename="{name}"',
    }
    return web.FileResponse(path, chunk_size=_WINDOW, headers=headers)


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def _find(call: Call, run_id: str) -> Subject:
    found = call.platform.database.point(
        lambda reader: runs.subject(reader, "train", run_id, call.caller)
    )
    if found is None:
        raise training_run_not_found(run_id)
    return found


def _wire(found: StoredObject) -> SampleObject:
    assert found.sha256 is not None, "only whole files are shown"
    assert found.format is not None, "only whole files are shown"
    return SampleObject(
        key=found.key,
        step=found.step,
        format=found.format,
        size_bytes=found.size,
        sha256=found.sha256.hex(),
        created_at=timestamp(found.created_at),
    )


_ERRORS = {404: ErrorAnswer, 409: ErrorAnswer}

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/rft/samples/presign",
        presign,
        "Get an address that takes one file of samples",
        {200: PresignedUploadAnswer, 404: ErrorAnswer},
        body=PresignSamples,
        ingests=True,
    ),
    Endpoint(
        "POST",
        "/rft/samples/confirm",
        confirm,
        "List an uploaded file of samples under its step",
        {200: SampleObject, **_ERRORS},
        body=ConfirmSamples,
    ),
    Endpoint(
        "POST",
        "/rft/samples",
        log_samples,
        "Store samples of a training run",
        {200: StoredCount, **_ERRORS},
        body=LogSamples,
        ingests=True,
        streams_body=True,
    ),
    Endpoint(
        "GET",
        "/rft/external-runs/{run_id}/samples",
        list_page,
        "List the files of samples of a training run",
        {200: SampleObjectPage, 404: ErrorAnswer},
        query=ListQuery,
    ),
    Endpoint(
        "GET",
        "/rft/external-runs/{run_id}/samples/{key}",
        download,
        "Read one file of samples",
        {200: None, 404: ErrorAnswer},
        head=True,
    ),
)

UPLOAD = Endpoint(
    "PUT",
    "/rft/uploads/{token}",
    upload,
    "Upload a file of samples to a presigned address",
    {
        200: dict,
        403: ErrorAnswer,
        404: ErrorAnswer,
        408: ErrorAnswer,
        409: ErrorAnswer,
        413: ErrorAnswer,
        415: ErrorAnswer,
    },
    auth=False,
)
