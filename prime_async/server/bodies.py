"""Reads request bodies within limits: size, inflated size, silence and total time."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from prime_async.server.config import Limits
from prime_async.server.failures import RequestError
from prime_async.server.platform import Platform

__all__ = ["body", "pieces"]

_SMALL = 64 * 1024
"""Bodies up to this size are not counted against the budget."""

_WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


@asynccontextmanager
async def body(request: web.Request, limit: int, platform: Platform) -> AsyncIterator[bytes]:
    """The inflated body; its bytes count against the budget while the block runs.

    Raises:
        RequestError: 413 beyond the limit (before or after inflation), 415 for an unknown encoding,
            400 for a broken or cut body, 408 when it does not arrive in time.
    """
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding != "identity" and encoding not in _WINDOWS:
        raise RequestError(
            415,
            "unsupported_encoding",
            f"bodies may be gzip, deflate or plain, not {encoding[:40]}",
        )
    length = request.content_length
    if length is not None and length > limit:
        raise _too_large(limit)
    expected = limit if length is None or encoding != "identity" else length
    if length == 0 or not request.can_read_body:
        yield b""
    elif expected <= _SMALL:
        yield await _read(request, limit, platform.config.limits)
    else:
        async with platform.bodies.hold(expected):
            data = await _read(request, limit, platform.config.limits)
            if encoding != "identity":
                data = await platform.in_thread(_inflate, data, encoding, limit)
            yield data


async def _read(request: web.Request, limit: int, limits: Limits) -> bytes:
    seconds = limits.body_seconds
    return b"".join([piece async for piece in pieces(request, limit, limits, seconds=seconds)])


async def pieces(
    request: web.Request, limit: int, limits: Limits, *, seconds: float
) -> AsyncIterator[bytes]:
    """The body as it arrives, not inflated.

    Args:
        limit: bytes it may have in all.
        limits: of the server; says how long it may be silent.
        seconds: for all of it.

    Raises:
        RequestError: 413 beyond the limit, 408 when it does not arrive in time, 400 when it is cut.
    """
    size = 0
    ends_at = asyncio.get_running_loop().time() + seconds
    try:
        while True:
            left = ends_at - asyncio.get_running_loop().time()
            async with asyncio.timeout(min(limits.body_idle_seconds, left)):
                piece = await request.content.readany()
            if not piece:
                return
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            yield piece
    except TimeoutError:
        raise RequestError(
            408, "body_timeout", "the request body did not arrive in time", headers=_CLOSE
        ) from None
    except web.RequestPayloadError as error:
        raise RequestError(
            400, "broken_body", "the request body is cut or broken", headers=_CLOSE
        ) from error


_CLOSE = {"Connection": "close"}


def _inflate(data: bytes, encoding: str, limit: int) -> bytes:
    """Inflate; the output stops growing at ``limit`` bytes, whatever the input promises."""
    inflater = zlib.decompressobj(_WINDOWS[encoding])
    try:
        inflated = inflater.decompress(data, limit + 1)
    except zlib.error as error:
        raise RequestError(400, "broken_body", f"the {encoding} body is broken") from error
    if len(inflated) > limit:
        raise _too_large(limit)
    if not inflater.eof:
        raise RequestError(400, "broken_body", f"the {encoding} body is cut short")
    if inflater.unused_data:
        raise RequestError(400, "broken_body", f"there are bytes behind the {encoding} body")
    return inflated


def _too_large(limit: int) -> RequestError:
    return RequestError(
        413, "body_too_large", f"the body is larger than the limit of {limit} bytes for this call"
    )
