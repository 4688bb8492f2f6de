"""Reads the stored lines: whole ones for what is shown of them, and as they are, in windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from prime_async.server.endpoints import Call
from prime_async.server.failures import RequestError

__all__ = ["read_document", "send_document"]

WINDOW_BYTES = 1024 * 1024


async def read_document(call: Call, row: Mapping[Any, Any], gone: RequestError) -> bytes:
    """The bytes of a trace or an episode, in memory.

    Raises:
        RequestError: ``gone``, it has been deleted meanwhile.
    """
    try:
        return await call.platform.in_thread(
            call.platform.traces.blobs.read, row["digest"], row["offset"], row["length"]
        )
    except FileNotFoundError as error:
        raise gone from error


async def send_document(
    call: Call, row: Mapping[Any, Any], gone: RequestError
) -> web.StreamResponse:
    """Answer the bytes of a trace, exactly, however many they are.

    Raises:
        RequestError: ``gone``, it has been deleted meanwhile.
    """
    blobs, platform = call.platform.traces.blobs, call.platform
    response = web.StreamResponse()
    response.content_type = "application/json"
    response.content_length = row["length"]
    try:
        # Opened before the head goes out, and readable to its end also when it is deleted then.
        file = await platform.in_thread(blobs.open_part, row["digest"], row["offset"])
    except FileNotFoundError as error:
        raise gone from error
    try:
        await response.prepare(call.request)
        left = row["length"]
        while left:
            piece = await platform.in_thread(file.read, min(left, WINDOW_BYTES))
            if not piece:
                raise OSError("a stored file is shorter than its rows say")
            left -= len(piece)
            await response.write(piece)
        await response.write_eof()
    finally:
        file.close()
    return response
