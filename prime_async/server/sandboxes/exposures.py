"""Exposed ports: the marks in their addresses, and the listeners of those that are plain TCP.

An address has a mark that only this platform can make, so that it cannot be guessed and needs no
secret in the store.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from contextlib import suppress

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.stapled import MultiListener
from sqlalchemy import RowMapping

from prime_async.server.logs import log_event
from prime_async.server.runtimes.errors import SandboxRuntimeError
from prime_async.server.runtimes.protocol import RunningSandbox
from prime_async.server.sandboxes.fleet import Fleet, Live
from prime_async.server.store import exposures as store
from prime_async.server.store.database import Database
from prime_async.server.tasks import Tasks

__all__ = ["Exposures", "TcpListener"]

_HOST = "127.0.0.1"
_MARK_CHARS = 32
_CONNECTIONS = 64

TcpListener = MultiListener[SocketStream]


class Exposures:
    """Finds exposures by their addresses and serves TCP."""

    def __init__(self, fleet: Fleet, database: Database, tasks: Tasks) -> None:
        self._fleet = fleet
        self._database = database
        self._tasks = tasks
        self._key = b""
        self._served: dict[str, anyio.CancelScope] = {}

    async def open(self, key: str) -> None:
        """Serve what an earlier server has exposed.

        Args:
            key: of this platform; the marks come from it.
        """
        self._key = hashlib.sha256(f"exposures\n{key}".encode()).digest()
        for row in await self._database.scan(store.tcp):
            live = self._fleet.live.get(row["sandbox_id"])
            if live is not None:
                await self._resume(row, live)

    def token(self, exposure_id: str) -> str:
        """The word in the address of an exposure: a label of a host name, or part of a path."""
        return f"{exposure_id}-{self._mark(exposure_id)}"

    def find(self, token: str) -> RowMapping | None:
        """The exposure with this word."""
        exposure_id, _, mark = token.rpartition("-")
        if not token.isascii() or not hmac.compare_digest(mark, self._mark(exposure_id)):
            return None
        return self._database.point(lambda reader: store.find(reader, exposure_id))

    def _mark(self, exposure_id: str) -> str:
        return hmac.new(self._key, exposure_id.encode(), "sha256").hexdigest()[:_MARK_CHARS]

    async def listen(self, port: int = 0) -> tuple[TcpListener, int]:
        """Listen on this machine's loopback; return the listener and its port.

        Raises:
            OSError: the port is taken.
        """
        listener = await anyio.create_tcp_listener(local_host=_HOST, local_port=port)
        return listener, listener.extra(SocketAttribute.local_port)  # noqa: S610  # no Django

    def serve(self, exposure_id: str, listener: TcpListener, live: Live, port: int) -> None:
        """Pass connections on to a port of a sandbox until it ends, or :meth:`end`."""
        self._tasks.start(self._serve, exposure_id, listener, live, port)

    def end(self, exposure_id: str) -> None:
        """Serve an exposure no more; what is connected is cut."""
        scope = self._served.get(exposure_id)
        if scope is not None:
            scope.cancel()

    async def _resume(self, row: RowMapping, live: Live) -> None:
        try:
            listener, _ = await self.listen(row["external_port"])
        except OSError as error:
            # Whoever has it now: another port would be another address.
            log_event(logging.ERROR, "exposure_not_resumed", exposure=row["id"], error=error)
            return
        self.serve(row["id"], listener, live, row["port"])

    async def _serve(self, exposure_id: str, listener: TcpListener, live: Live, port: int) -> None:
        limit = anyio.CapacityLimiter(_CONNECTIONS)

        async def accept(stream: SocketStream) -> None:
            # Cut when the platform ends, or the sandbox: the other side sees it by the stream.
            with suppress(ConnectionResetError):
                async with stream, limit:
                    with live.ports.stream():
                        await _relay(stream, live.running, port)

        async with listener:
            with anyio.CancelScope() as self._served[exposure_id]:
                try:
                    async with anyio.create_task_group() as group:
                        group.start_soon(listener.serve, accept)
                        await live.running.ended()
                        group.cancel_scope.cancel()
                finally:
                    del self._served[exposure_id]


async def _relay(stream: SocketStream, running: RunningSandbox, port: int) -> None:
    try:
        inside = await SocketStream.from_socket(await running.connect(port))
    except (OSError, TimeoutError, SandboxRuntimeError):
        return  # Nothing listens there: the connection ends, as it would there.
    async with inside, anyio.create_task_group() as group:
        group.start_soon(_pump, stream, inside)
        await _pump(inside, stream)


async def _pump(source: SocketStream, sink: SocketStream) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for piece in source:
            await sink.send(piece)
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await sink.send_eof()
