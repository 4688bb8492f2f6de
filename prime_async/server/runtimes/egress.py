"""The egress proxy of a sandbox: the only way out of its network, and the place of its rules.

It listens on a socket that was made inside the sandbox's network, and runs in the server's. Whom a
process may reach is decided here, by name and by address: names are resolved by the server, the
addresses are judged, and exactly a judged address is connected to. The host itself (its loopback
and its own addresses), link-local and other special addresses are never reachable; addresses of
private networks only where an allow list names them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from urllib.parse import urlsplit

import anyio

from prime_async.server.logs import log_event
from prime_async.server.runtimes.dialing import Dialer, Refused
from prime_async.server.runtimes.egress_policy import EgressPolicy

__all__ = ["EgressProxy"]

_HEAD_BYTES = 64 * 1024
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 30.0
_IDLE_SECONDS = 600.0
_WINDOW = 65536
_CONNECTIONS = 256
_NOT_PASSED_ON = (
    b"connection:",
    b"host:",
    b"keep-alive:",
    b"proxy-authorization:",
    b"proxy-connection:",
)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class EgressProxy:
    """Serves one listening socket.

    Args:
        name: of the sandbox, for the log.
        policy: the rules; replaced by :meth:`set_policy`.
        dialer: opens connections; tests bring their own.
    """

    def __init__(self, name: str, policy: EgressPolicy, dialer: Dialer) -> None:
        self._name = name
        self._rules = policy
        self._dialer = dialer
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self, listening: socket.socket) -> None:
        """Serve a listening socket, owned from now on."""
        self._server = await asyncio.start_server(self._serve, sock=listening, limit=_HEAD_BYTES)

    def set_policy(self, policy: EgressPolicy) -> None:
        """Put other rules in force, and cut every connection: they were made under the old."""
        self._rules = policy
        for task in self._open:
            task.cancel()

    async def aclose(self) -> None:
        """Stop serving and cut what is open."""
        if self._server is None:
            return
        self._server.close()
        open_tasks = list(self._open)
        for task in open_tasks:
            task.cancel()
        if open_tasks:
            await asyncio.wait(open_tasks)
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= _CONNECTIONS:
            writer.transport.abort()
            return
        self._open.add(task)
        try:
            await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            log_event(logging.DEBUG, "egress_ended", sandbox=self._name, reason=repr(error))
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            await _say(
                writer, "431 Request Header Fields Too Large", "the request head is too long"
            )
            return
        try:
            host, port, first = _target(head)
        except ValueError as error:
            await _say(writer, "400 Bad Request", str(error))
            return
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                there = await self._dialer.open(host, port, self._rules)
        except Refused as error:
            await _say(writer, "403 Forbidden", str(error))
            return
        except (OSError, TimeoutError) as error:
            await _say(writer, "502 Bad Gateway", f"cannot reach {host}:{port}: {error}")
            return
        await _join((reader, writer), there, first)


async def _join(here: Streams, there: Streams, first: bytes) -> None:
    """Carry bytes both ways until both sides are done, or one is idle for long."""
    if first:
        there[1].write(first)
    else:
        here[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_carry, here[0], there[1])
            group.start_soon(_carry, there[0], here[1])
    except* (OSError, TimeoutError):
        pass  # One side broke off: the other learns it by its end below.
    finally:
        there[1].close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        async with asyncio.timeout(_IDLE_SECONDS):
            data = await reader.read(_WINDOW)
        if not data:
            break
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        with contextlib.suppress(OSError):
            writer.write_eof()


def _target(head: bytes) -> tuple[str, int, bytes]:
    """Return host, port, and what to send there first (nothing for CONNECT).

    Raises:
        ValueError: it is no request to a proxy.
    """
    lines = head.split(b"\r\n")
    method, _, rest = lines[0].partition(b" ")
    target, _, version = rest.rpartition(b" ")
    if not version.startswith(b"HTTP/1."):
        raise ValueError("not an HTTP/1 request")
    text = target.decode("ascii", "strict") if target.isascii() else ""
    if method == b"CONNECT":
        url = urlsplit(f"//{text}")
        if not url.hostname or url.port is None:
            raise ValueError("CONNECT wants host:port")
        return url.hostname, url.port, b""
    url = urlsplit(text)
    if url.scheme != "http" or not url.hostname:
        raise ValueError("a proxy wants an absolute http:// address, or CONNECT")
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [line for line in lines[1:-2] if not line.lower().startswith(_NOT_PASSED_ON)]
    # The host that was judged, whatever the request says, and one request per connection.
    host = url.netloc.rpartition("@")[2].encode("ascii")
    line = b" ".join((method, path.encode("ascii"), version))
    first = [line, b"Host: " + host, *kept, b"Connection: close"]
    return url.hostname, url.port or 80, b"\r\n".join(first) + b"\r\n\r\n"


async def _say(writer: asyncio.StreamWriter, status: str, why: str) -> None:
    body = f"{why}\n".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode("ascii") + body)
    await writer.drain()
