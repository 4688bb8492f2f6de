"""Asking a platform whether it is up, and to end what lives in it, without an HTTP library."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

__all__ = ["Health", "end_all", "living", "probe"]

_LONGEST_ANSWER = 64 * 1024
_HEAD = "{what} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n{more}\r\n"


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
            return _health(await _ask(unix_socket, port, "GET /healthz"))
    except (OSError, TimeoutError):
        return None


async def living(
    unix_socket: str | None, port: int, key: str, *, timeout: float
) -> tuple[str, ...] | None:
    """Return the ids of the sandboxes that live in a platform, None when it does not answer within
    ``timeout`` seconds.
    """
    return await _sandboxes(unix_socket, port, key, "GET /api/v1/local/living", timeout)


async def end_all(
    unix_socket: str | None, port: int, key: str, *, timeout: float
) -> tuple[str, ...] | None:
    """End every sandbox that lives in a platform; return which, None when it does not answer within
    ``timeout`` seconds.
    """
    return await _sandboxes(unix_socket, port, key, "POST /api/v1/local/end-all", timeout)


async def _sandboxes(
    unix_socket: str | None, port: int, key: str, what: str, timeout: float
) -> tuple[str, ...] | None:
    more = f"Authorization: Bearer {key}\r\n"
    try:
        async with asyncio.timeout(timeout):
            said = _said(await _ask(unix_socket, port, what, more))
    except (OSError, TimeoutError):
        return None
    named = said.get("sandboxes") if said is not None else None
    return tuple(map(str, named)) if isinstance(named, list) else None


async def _ask(unix_socket: str | None, port: int, what: str, more: str = "") -> bytes:
    if unix_socket is not None:
        reader, writer = await asyncio.open_unix_connection(unix_socket)
    else:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(_HEAD.format(what=what, more=more).encode())
        await writer.drain()
        answer = bytearray()
        while len(answer) < _LONGEST_ANSWER and (part := await reader.read(4096)):
            answer += part
        return bytes(answer)
    finally:
        # Nothing is waiting to be sent: aborting is closing without the wait.
        writer.transport.abort()


def _health(answer: bytes) -> Health | None:
    said = _said(answer)
    if said is None or not isinstance(said.get("version"), str):
        return None
    live = said.get("live", 0)
    return Health(said["version"], live if isinstance(live, int) else 0)


def _said(answer: bytes) -> dict[str, Any] | None:
    """The JSON object of an answer that is well."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        return None
    try:
        said = json.loads(body)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None
