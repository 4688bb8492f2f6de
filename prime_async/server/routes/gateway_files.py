"""Files of a sandbox: up and down in streams, windows of text, listings."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import BodyPartReader, web
from msgspec import UNSET, Meta, Struct, UnsetType

from prime_async.sandboxes import models
from prime_async.server.answers import Answer, answer
from prime_async.server.clock import timestamp
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError, invalid
from prime_async.server.runtimes.files import FileInfo
from prime_async.server.sandboxes.fleet import Live
from prime_async.server.sandboxes.gateway import guarded
from prime_async.server.sandboxes.ranges import Span, etag_of, requested_span
from prime_async.server.sandboxes.windows import require_length, window_pieces

__all__ = ["ENDPOINTS", "FileQuery", "counted", "file_endpoint", "raw_body"]

_PIECE = 256 * 1024
_LINES = 256
_MODE = 0o644

Digest = Literal["sha256"]


class FileQuery(Struct, kw_only=True):
    """Which file, and whether its SHA-256 is wanted."""

    path: Annotated[str, Meta(min_length=1)]
    sandbox_id: str | None = None
    digest: Digest | UnsetType = UNSET


class PartQuery(FileQuery, kw_only=True):
    """Which part of an upload: where it begins, and the size of the whole file."""

    offset: Annotated[int, Meta(ge=0)]
    size: Annotated[int, Meta(ge=0)]


class WindowQuery(FileQuery, kw_only=True):
    """Which window of a file, in bytes; a negative offset counts from its end."""

    offset: int = 0
    length: Annotated[int, Meta(ge=0)] | UnsetType = UNSET


class ListQuery(FileQuery, kw_only=True):
    """Which folder, and whether what is in its folders is listed too."""

    recursive: bool = False


class Received(Struct, kw_only=True):
    """How much of an upload has arrived."""

    received: int


async def upload(call: Call, live: Live) -> Reply:
    """Write a file from a form; it appears when it is whole."""
    query: FileQuery = call.query
    chunks = _form_file(call)
    info = await call.platform.sandboxes.transfers.whole(
        live, query.path, counted(call, chunks), sha256=None, mode=_MODE
    )
    return answer(await _uploaded(call, live, info))


async def upload_part(call: Call, live: Live) -> Reply:
    """Write the next part of a file; what arrived stays when it breaks off."""
    query: PartQuery = call.query
    length = call.request.content_length
    if length is None:
        raise RequestError(411, "length_required", "a part needs a Content-Length")
    reached = query.offset + length
    if reached > query.size:
        raise invalid(["query", "size"], "is smaller than what the part reaches to")
    final = reached == query.size
    info = await call.platform.sandboxes.transfers.part(
        live,
        call.path["upload_id"],
        query.path,
        counted(call, raw_body(call)),
        offset=query.offset,
        sha256=None,
        final=final,
        mode=_MODE,
    )
    if not final:
        return answer(Received(received=reached), 202)
    return answer(await _uploaded(call, live, info))


async def upload_state(call: Call, live: Live) -> Reply:
    """Say how much of an upload has arrived."""
    upload_id = call.path["upload_id"]
    received = await call.platform.sandboxes.transfers.received(live, upload_id)
    if received is None:
        raise RequestError(404, "upload_not_found", f"no upload {upload_id}")
    return answer(Received(received=received))


async def abandon_upload(call: Call, live: Live) -> Reply:
    """Remove what has arrived of an upload."""
    await call.platform.sandboxes.transfers.abandon(live, call.path["upload_id"])
    return Answer(204, b"")


async def _uploaded(call: Call, live: Live, info: FileInfo) -> dict[str, Any]:
    digest = info.sha256
    if call.query.digest is not UNSET and digest is None:
        digest = await live.running.files.digest(info.path)
    return {
        "success": True,
        "path": call.query.path,
        "size": info.size,
        "timestamp": timestamp(call.platform.clock.now()),
        **({} if digest is None else {"sha256": digest}),
    }


async def download(call: Call, live: Live) -> Reply:
    """Stream a file, or one range of it."""
    query: FileQuery = call.query
    files = live.running.files
    digest = None if query.digest is UNSET else await files.digest(query.path)
    async with files.open(query.path) as file:
        etag = etag_of(file.info)
        span = requested_span(call.request.headers, etag, file.info.size)
        response = _download_head(span, etag, file.info.size)
        if digest is not None:
            response.headers["X-Checksum-Sha256"] = digest
        file.offset, file.length = span.start, span.length
        await response.prepare(call.request)
        left = span.length
        async for window in file:
            await response.write(window)
            left -= len(window)
            live.used_at = call.platform.clock.now()
            call.platform.metrics.downloaded.inc(len(window))
        if left:
            raise ConnectionResetError("the file became shorter while it was sent")
        await response.write_eof()
    return response


def _download_head(span: Span, etag: str, size: int) -> web.StreamResponse:
    response = web.StreamResponse(status=206 if span.partial else 200)
    response.content_type = "application/octet-stream"
    response.content_length = span.length
    response.headers["Accept-Ranges"] = "bytes"
    response.headers["ETag"] = etag
    if span.partial:
        last = span.start + span.length - 1
        response.headers["Content-Range"] = f"bytes {span.start}-{last}/{size}"
    return response


async def read_file(call: Call, live: Live) -> Reply:
    """Read a window of a file as text."""
    query: WindowQuery = call.query
    length = None if query.length is UNSET else query.length
    async with live.running.files.open(query.path, offset=query.offset, length=length) as file:
        require_length(file, call.platform.config.limits.read_file_bytes)
        call.platform.metrics.downloaded.inc(file.length)
        pieces = window_pieces(file)
        if file.length <= _PIECE:
            return Answer(200, b"".join([piece async for piece in pieces]))
        response = web.StreamResponse()
        response.content_type, response.charset = "application/json", "utf-8"
        await response.prepare(call.request)
        async for piece in pieces:
            await response.write(piece)
        await response.write_eof()
    return response


async def list_files(call: Call, live: Live) -> Reply:
    """List a folder, one JSON object per line; a folder comes before what is in it."""
    query: ListQuery = call.query
    files = live.running.files
    if not query.recursive:
        found = await files.list(query.path)
        lines = b"".join(msgspec.json.encode(_info(one)) + b"\n" for one in found)
        return web.Response(body=lines, headers=_JSON_LINES)
    entries = files.tree(query.path)
    # The first entry before the head of the answer: what is wrong with the folder shows there.
    first = await anext(entries, None)
    response = web.StreamResponse(headers=_JSON_LINES)
    await response.prepare(call.request)
    held = [] if first is None else [first]
    async for entry in entries:
        held.append(entry)
        if len(held) >= _LINES:
            await response.write(_lines(held))
            held = []
    await response.write(_lines(held))
    await response.write_eof()
    return response


async def file_info(call: Call, live: Live) -> Reply:
    """Say what is at a path."""
    query: FileQuery = call.query
    files = live.running.files
    wire = _info(await files.stat(query.path))
    if query.digest is not UNSET and wire["type"] == "file":
        wire["sha256"] = await files.digest(query.path)
    return answer(wire)


_JSON_LINES = {"Content-Type": "application/x-ndjson"}


def _lines(entries: list[FileInfo]) -> bytes:
    return b"".join(msgspec.json.encode(_info(entry)) + b"\n" for entry in entries)


def _info(info: FileInfo) -> dict[str, Any]:
    raw = info.path.encode("utf-8", "surrogateescape")
    shown = raw.decode("utf-8", "replace")
    target = info.target
    wire: dict[str, Any] = {
        "path": shown,
        "type": info.kind,
        "size": info.size,
        "mode": info.mode,
        "modified_at": timestamp(info.modified),
    }
    if target is not None:
        wire["target"] = target.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if shown != info.path:
        wire["path_base64"] = base64.b64encode(raw).decode()
    return wire


async def _form_file(call: Call) -> AsyncIterator[bytes]:
    """The bytes of the part ``file`` of a form, as they arrive."""
    request = call.request
    if not request.content_type.startswith("multipart/"):
        raise RequestError(415, "unsupported_media_type", "the body must be multipart/form-data")
    try:
        reader = await request.multipart()
        while (part := await reader.next()) is not None:
            if isinstance(part, BodyPartReader) and part.name == "file":
                while piece := await part.read_chunk(_PIECE):
                    yield piece
                return
    except (ValueError, AssertionError) as error:
        raise RequestError(400, "broken_form", f"the form is broken: {error}") from error
    raise invalid(["body", "file"], "Field required", "missing")


async def raw_body(call: Call) -> AsyncIterator[bytes]:
    """The bytes of a body as they arrive."""
    while piece := await call.request.content.readany():
        yield piece


async def counted(call: Call, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes; silence, and a body that is cut, are refused."""
    idle = call.platform.config.limits.body_idle_seconds
    try:
        while True:
            async with asyncio.timeout(idle):
                piece = await anext(chunks, None)
            if piece is None:
                return
            call.platform.metrics.uploaded.inc(len(piece))
            yield piece
    except TimeoutError:
        raise RequestError(
            408, "body_timeout", "the file did not arrive in time", headers=_CLOSE
        ) from None
    except web.RequestPayloadError as error:
        raise RequestError(
            400, "broken_body", "the request body is cut or broken", headers=_CLOSE
        ) from error


_CLOSE = {"Connection": "close"}
_REFUSALS = {401: ErrorAnswer, 404: ErrorAnswer, 409: ErrorAnswer, 410: ErrorAnswer}


def file_endpoint(
    method: str,
    path: str,
    inside: Any,
    summary: str,
    answers: dict[int, Any],
    query: type[Struct] | None = FileQuery,
) -> Endpoint:
    """An endpoint for what is done with a file of a live sandbox."""
    return Endpoint(
        method,
        path,
        guarded(rpc=False)(inside),
        summary,
        {**answers, **_REFUSALS},
        query=query,
        auth=False,
        token=True,
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    file_endpoint(
        "POST", "/upload", upload, "Write a file from a form", {200: models.FileUploadResponse}
    ),
    file_endpoint(
        "PUT",
        "/uploads/{upload_id}",
        upload_part,
        "Write the next part of a file",
        {200: models.FileUploadResponse, 202: Received, 411: ErrorAnswer},
        PartQuery,
    ),
    file_endpoint(
        "GET",
        "/uploads/{upload_id}",
        upload_state,
        "How much of an upload has arrived",
        {200: Received},
        None,
    ),
    file_endpoint(
        "DELETE", "/uploads/{upload_id}", abandon_upload, "Give an upload up", {204: None}, None
    ),
    file_endpoint(
        "GET", "/download", download, "Stream a file", {200: None, 206: None, 416: ErrorAnswer}
    ),
    file_endpoint(
        "GET",
        "/read-file",
        read_file,
        "Read a window of a file as text",
        {200: models.ReadFileResponse, 413: ErrorAnswer},
        WindowQuery,
    ),
    file_endpoint(
        "GET", "/list-files", list_files, "List a folder, JSON lines", {200: str}, ListQuery
    ),
    file_endpoint("GET", "/file-info", file_info, "What is at a path", {200: models.FileInfo}),
)
