"""Connections into a sandbox's own network: to its ports, as if from inside."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import anyio
from aiohttp.client_proto import ResponseHandler

from prime_async.server.runtimes.protocol import RunningSandbox

__all__ = ["Ports"]

_CONNECTIONS = 128
_HEAD_BYTES = 64 * 1024
_ADDED_BY_AIOHTTP = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class _Connector(aiohttp.BaseConnector):
    """Opens connections by the runtime, whatever address a request names."""

    def __init__(self, running: RunningSandbox, port: int) -> None:
        super().__init__(limit=_CONNECTIONS)
        self._running = running
        self._port = port

    async def _create_connection(self, *_: Any) -> ResponseHandler:
        connected = await self._running.connect(self._port)
        loop = asyncio.get_running_loop()
        try:
            made = await loop.create_connection(self._factory, sock=connected)
        except BaseException:
            connected.close()
            raise
        return made[1]


class Ports:
    """What is reached of one sandbox.

    Args:
        running: the sandbox.
    """

    def __init__(self, running: RunningSandbox) -> None:
        self._running = running
        self._sessions: dict[int, aiohttp.ClientSession] = {}
        self._streams: set[anyio.CancelScope] = set()

    @property
    def busy(self) -> bool:
        """Whether something is open to it."""
        return bool(self._streams)

    @property
    def ended(self) -> bool:
        """Whether the sandbox is not running any more."""
        return self._running.end is not None

    def session(self, port: int) -> aiohttp.ClientSession:
        """A session whose every request goes to a port of the sandbox, as it is."""
        session = self._sessions.get(port)
        if session is None:
            session = self._sessions[port] = aiohttp.ClientSession(
                connector=_Connector(self._running, port),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=_ADDED_BY_AIOHTTP,
                timeout=aiohttp.ClientTimeout(total=None),
                max_line_size=_HEAD_BYTES,
                max_field_size=_HEAD_BYTES,
            )
        return session

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Do something for a block that ends early when :meth:`cut` is called.

        Raises:
            ConnectionResetError: it was.
        """
        with anyio.CancelScope() as scope:
            self._streams.add(scope)
            try:
                yield
            finally:
                self._streams.discard(scope)
        if scope.cancelled_caught:
            raise ConnectionResetError("the platform, or the sandbox, has ended")

    def cut(self) -> None:
        """End what is open, so that the server can end."""
        for scope in self._streams:
            scope.cancel()

    async def aclose(self) -> None:
        """Close everything."""
        self.cut()
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()
