"""Reads the stored lines: whole ones for what is shown of them, and as they are, in windows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, BinaryIO
from urllib.parse import quote

from aiohttp import ETag, web

from prime_async.server.endpoints import Call
from prime_async.server.failures import RequestError

__all__ = ["read_document", "send_document"]

WINDOW_BYTES = 1024 * 1024


@asynccontextmanager
async def read_document(
    call: Call, row: Mapping[Any, Any], gone: RequestError
) -> AsyncIterator[bytes]:
    """The bytes of a trace or an episode; in memory, and counted, while the block runs.

    Raises:
        RequestError: ``gone``, it has been deleted meanwhile.
    """
    platform = call.platform
    async with platform.bodies.hold(row["length"]):
        try:
            document = await platform.in_thread(
                platform.traces.blobs.read, row["digest"], row["offset"], row["length"]
            )
        except FileNotFoundError as error:
            raise gone from error
        yield document


async def send_document(
    call: Call, row: Mapping[Any, Any], name: str, gone: RequestError
) -> web.StreamResponse:
    """Answer the bytes of a trace, exactly, however many they are; or the range that is asked for.

    Args:
        name: of the file that browsers save it as, without its ending.

    Raises:
        RequestError: ``gone``, it has been deleted meanwhile; 416, there is no such range.
    """
    blobs, platform = call.platform.traces.blobs, call.platform
    tag = ETag(f"{row['digest'][:32]}-{row['offset']}")
    response = web.StreamResponse()
    response.etag = tag
    response.headers["Accept-Ranges"] = "bytes"
    if _known(call.request, tag):
        response.set_status(304)
        return response
    start, stop = _range(call.request, row["length"], tag)
    response.content_type = "application/json"
    response.content_length = stop - start
    response.headers["Content-Disposition"] = (
        f"attachment; filename*=UTF-8''{quote(name, safe='')}.json"
    )
    if stop - start < row["length"]:
        response.set_status(206)
        response.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{row['length']}"
    try:
        # Opened before the head goes out, and readable to its end also when it is deleted then.
        file = await platform.in_thread(blobs.open_part, row["digest"], row["offset"] + start)
    except FileNotFoundError as error:
        raise gone from error
    try:
        await response.prepare(call.request)
        if call.request.method != "HEAD":
            await _send(call, response, file, stop - start)
        await response.write_eof()
    finally:
        file.close()
    return response


async def _send(call: Call, response: web.StreamResponse, file: BinaryIO, left: int) -> None:
    while left:
        piece = await call.platform.in_thread(file.read, min(left, WINDOW_BYTES))
        if not piece:
            raise OSError("a stored file is shorter than its rows say")
        left -= len(piece)
        await response.write(piece)


def _known(request: web.Request, tag: ETag) -> bool:
    """Whether who asks has these bytes."""
    told = request.if_none_match or ()
    return any(one.value in ("*", tag.value) for one in told)


def _range(request: web.Request, length: int, tag: ETag) -> tuple[int, int]:
    """What is asked for: all, unless it is one range of the bytes that were seen before.

    Raises:
        RequestError: 416, there is no such range.
    """
    condition = request.headers.get("If-Range")
    if condition is not None and condition.strip() != f'"{tag.value}"':
        return 0, length
    try:
        asked = request.http_range
    except ValueError:
        # Several ranges, or none that can be read: as if none were asked for.
        return 0, length
    start, stop, _ = asked.indices(length)
    if stop <= start and length and (asked.start is not None or asked.stop is not None):
        raise RequestError(
            416,
            "range_not_satisfiable",
            f"there are {length} bytes",
            headers={"Content-Range": f"bytes */{length}"},
        )
    return start, stop
