"""Speaks bytes to a platform, for what no HTTP client would send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.platform import KEY

AUTH = f"Authorization: Bearer {KEY}\r\n"


@dataclass(frozen=True)
class RawReply:
    """One answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@asynccontextmanager
async def connection(
    port: int,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A TCP connection to the platform."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def read_reply(reader: asyncio.StreamReader) -> RawReply:
    """Read one answer that has a Content-Length."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = [line.split(": ", 1) for line in head[1:] if line]
    headers = {name.lower(): value for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return RawReply(int(head[0].split()[1]), headers, body)


async def exchange(port: int, request: bytes | str) -> RawReply:
    """Send bytes on a connection of their own and read the answer."""
    async with connection(port) as (reader, writer):
        writer.write(request.encode() if isinstance(request, str) else request)
        return await asyncio.wait_for(read_reply(reader), 20)


async def get(port: int, path: str, headers: str = "Host: 127.0.0.1\r\n") -> RawReply:
    """GET with exactly these headers and the key."""
    return await exchange(port, f"GET {path} HTTP/1.1\r\n{headers}{AUTH}\r\n")
