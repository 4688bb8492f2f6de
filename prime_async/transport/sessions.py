"""One aiohttp session per client, for the event loop and process that use it.

A session is made at the first request inside a running loop. When the loop ends (``asyncio.run``
returns) it is closed with it; when a client is used again from another loop a new one is made;
after ``fork`` the child never touches the parent's connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
import anyio.to_thread

from prime_async.errors import PrimeError, WrongLoopError
from prime_async.transport import network

__all__ = ["CONNECTIONS", "CONNECT_TIMEOUT", "SessionPool", "running_loop"]

CONNECTIONS = 100
"""Connections a client holds at most by default; further requests wait for one."""

CONNECT_TIMEOUT = 10.0
"""Seconds for name resolution, TCP, a proxy and TLS together, per try."""

_KEEP_ALIVE = 30.0


class SessionPool:
    """Holds the session of one client.

    Args:
        base_url: decides between http and https.
        unix_socket: path of a socket to use in place of TCP.
        connections: how many it holds at most.

    Attributes:
        closings: how often it was closed: a call that began before the last time is over.
        proxy: the proxy of the open session, or None.
    """

    def __init__(
        self, base_url: str, unix_socket: str | None = None, connections: int = CONNECTIONS
    ) -> None:
        self.closings = 0
        self._tls = base_url.startswith("https:")
        self._unix_socket = unix_socket
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._guard: AsyncGenerator[None, None] | None = None
        self._opening: asyncio.Lock | None = None
        self._dropped: weakref.finalize[..., SessionPool] | None = None
        self._pid = os.getpid()
        self.proxy: network.Proxy | None = None
        self._base_url = base_url

    async def get(self) -> aiohttp.ClientSession:
        """Return the session of the running loop, making it when there is none.

        Raises:
            WrongLoopError: the client is in use on another loop that is still alive.
            ConfigError: proxy or certificate variables are broken.
        """
        loop = running_loop()
        if self._session is not None and self._loop is loop and self._pid == os.getpid():
            return self._session
        self._leave_old_loop(loop)
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._session is None:
                await self._open(loop)
        assert self._session is not None
        return self._session

    async def aclose(self) -> None:
        """Close the session, if there is one. Harmless when called again.

        Raises:
            WrongLoopError: the client is in use on another loop that is still alive.
        """
        if self._session is not None:
            self._leave_old_loop(running_loop())
        self.closings += 1
        session, guard = self._session, self._guard
        if session is None:
            return
        self._session = self._guard = self._opening = None
        self._detach()
        await session.close()
        if guard is not None:
            await guard.aclose()

    def _leave_old_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is None or (self._loop is loop and self._pid == os.getpid()):
            return
        if self._pid == os.getpid() and self._session is not None and not self._loop.is_closed():
            raise WrongLoopError(
                "this client is in use on another running event loop",
                hint="make one client per loop, or close this one there first with aclose()",
            )
        self._forget()

    def _forget(self) -> None:
        """Drop a session whose loop or process is gone, closing only sockets that are ours."""
        session, self._session, self._guard, self._opening = self._session, None, None, None
        if session is None:
            return
        self._detach()
        connector = session.connector
        session.detach()
        if isinstance(connector, _TCPConnector | _UnixConnector):
            connector.abandon(ours=self._pid == os.getpid())

    def _detach(self) -> None:
        if self._dropped is not None:
            self._dropped.detach()
            self._dropped = None

    async def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        _watch_forks()
        self.proxy = None if self._unix_socket else network.proxy_for(self._base_url)
        context = await anyio.to_thread.run_sync(network.tls_context) if self._tls else None
        self._session = aiohttp.ClientSession(
            connector=self._connector(context),
            timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=CONNECT_TIMEOUT),
            cookie_jar=aiohttp.DummyCookieJar(),
            # network.py reads the variables: aiohttp knows neither ALL_PROXY nor our CA variables.
            trust_env=False,
            trace_configs=[_noting_connections()],
        )
        # aiohttp repeats a broken GET, PUT or DELETE once by itself, outside our tries and our
        # budget (guarded by tests/faults). The switch is private; aiohttp's own test client uses
        # it.
        self._session._retry_connection = False
        self._loop, self._pid = loop, os.getpid()
        self._guard = _close_with_loop(self._session)
        await anext(self._guard)
        self._dropped = weakref.finalize(self, _close_soon, loop, self._session)
        self._dropped.atexit = False
        _pools.add(self)

    def _connector(self, context: Any) -> aiohttp.BaseConnector:
        if self._unix_socket is not None:
            return _UnixConnector(
                self._unix_socket, limit=self._connections, keepalive_timeout=_KEEP_ALIVE
            )
        return _TCPConnector(
            limit=self._connections,
            keepalive_timeout=_KEEP_ALIVE,
            ssl=True if context is None else context,
        )


def _noting_connections() -> aiohttp.TraceConfig:
    """Set ``on_the_wire`` of a request's ``trace_request_ctx`` once there is a connection for it:
    only from then on may it be carried out.
    """
    config = aiohttp.TraceConfig()
    config.on_connection_create_end.append(_connected)
    config.on_connection_reuseconn.append(_connected)
    return config


async def _connected(session: aiohttp.ClientSession, context: Any, params: object) -> None:
    context.trace_request_ctx.on_the_wire = True


def _close_soon(loop: asyncio.AbstractEventLoop, session: aiohttp.ClientSession) -> None:
    """Close the session of a client that was dropped unclosed, on its loop.

    That this is registered keeps the session out of the garbage: collected together with the client
    (in a reference cycle) it would complain, and touch its loop from the collector's thread.
    """
    with contextlib.suppress(RuntimeError):  # the loop was closed, perhaps this very moment
        loop.call_soon_threadsafe(_close_now, loop, session)


def _close_now(loop: asyncio.AbstractEventLoop, session: aiohttp.ClientSession) -> None:
    # Made here and not before: a loop that never runs again would leave it without its first step.
    task = loop.create_task(session.close())
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def _close_with_loop(session: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    """Close the session when its loop shuts its async generators down, as ``asyncio.run`` does at
    the end.
    """
    try:
        yield
    finally:
        await session.close()


class _Abandonable(aiohttp.BaseConnector):
    """A connector that can be dropped without touching an event loop that is gone or belongs to the
    parent.
    """

    _abandoned = False

    def abandon(self, *, ours: bool) -> None:
        self._abandoned = True
        if not ours:
            _parents.append(self)
            return
        for connections in self._conns.values():
            for protocol, _ in connections:
                _close_socket(protocol.transport)
        self._conns.clear()

    def __del__(self, *args: Any, **kwargs: Any) -> None:
        if not self._abandoned:
            super().__del__(*args, **kwargs)


class _TCPConnector(_Abandonable, aiohttp.TCPConnector):
    async def _create_connection(self, *args: Any, **kwargs: Any) -> Any:
        # aiohttp's own limit leaves out the resolver and a proxy's answer to CONNECT.
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await super()._create_connection(*args, **kwargs)
        except TimeoutError as error:
            if isinstance(error, aiohttp.ClientError):
                raise
            raise aiohttp.ConnectionTimeoutError("no connection in time") from error


class _UnixConnector(_Abandonable, aiohttp.UnixConnector):
    pass


def _close_socket(transport: asyncio.BaseTransport | None) -> None:
    """Close the socket under a transport whose loop is closed and can no longer do it."""
    sock = None if transport is None else getattr(transport, "_sock", None)
    if sock is not None:
        sock.close()
        transport._sock = None  # type: ignore[union-attr]  # or its __del__ warns about a socket that is closed


_pools: weakref.WeakSet[SessionPool] = weakref.WeakSet()
_parents: list[object] = []
_closing: set[asyncio.Task[None]] = set()
_watch_lock = threading.Lock()
_watching = False


def _watch_forks() -> None:
    global _watching
    with _watch_lock:
        if not _watching and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_in_child)
        _watching = True


def _in_child() -> None:
    """Let go of the parent's sessions: their event loop's epoll is shared, so even closing them
    here would hurt it.
    """
    for pool in list(_pools):
        pool._forget()


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop.

    Raises:
        PrimeError: there is none, or it is not one of asyncio.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise PrimeError(
            "prime_async needs a running asyncio event loop",
            hint="it does not run under trio; in plain scripts use prime_sync",
        ) from error
