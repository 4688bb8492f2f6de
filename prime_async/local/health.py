"""Asking a platform whether it is up, without an HTTP library."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

__all__ = ["Health", "probe"]

_LONGEST_ANSWER = 64 * 1024
_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Health:
    """What a platform answers.

    Attributes:
        version: version of the package it runs.
        live: number of things in it that a restart would disturb.
    """

    version: str
    live: int = 0


async def probe(unix_socket: str | None, port: int, *, timeout: float = 2.0) -> Health | None:
    """Return what the platform answers within ``timeout`` seconds, or None when it does not.

    The socket is asked where there is one: only the user's own processes can listen on it, while
    anybody's can on a port.
    """
    try:
        async with asyncio.timeout(timeout):
            return _parse(await _exchange(unix_socket, port))
    except (OSError, TimeoutError):
        return None


async def _exchange(unix_socket: str | None, port: int) -> bytes:
    if unix_socket is not None:
        reader, writer = await asyncio.open_unix_connection(unix_socket)
    else:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(_REQUEST)
        await writer.drain()
        answer = bytearray()
        while len(answer) < _LONGEST_ANSWER and (part := await reader.read(4096)):
            answer += part
        return bytes(answer)
    finally:
        # Nothing is waiting to be sent: aborting is closing without the wait.
        writer.transport.abort()


def _parse(answer: bytes) -> Health | None:
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        return None
    try:
        said = json.loads(body)
    except ValueError:
        return None
    if not isinstance(said, dict) or not isinstance(said.get("version"), str):
        return None
    live = said.get("live", 0)
    return Health(said["version"], live if isinstance(live, int) else 0)
