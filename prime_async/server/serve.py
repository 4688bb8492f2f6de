"""Binds the platform to its unix socket and loopback port and runs it until cancelled."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
from aiohttp import web

from prime_async.errors import LocalPlatformError
from prime_async.server.app import create_app
from prime_async.server.clock import Clock
from prime_async.server.config import ServerConfig
from prime_async.server.connections import ConnectionFactory
from prime_async.server.logs import log_event
from prime_async.server.platform import PLATFORM, Platform
from prime_async.server.sandboxes.host import MakeRuntime

__all__ = ["Listening", "PlatformServer", "serve"]

BACKLOG = 512

CUT_SECONDS = 1.0
"""How long requests that did not end in ``shutdown_seconds`` have to notice that they are cut."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a started platform answers."""

    url: str
    host: str
    port: int
    unix_socket: Path | None
    instance: str


class PlatformServer:
    """The platform with its listeners: ``start`` and ``stop``, or ``async with``."""

    def __init__(
        self,
        config: ServerConfig,
        *,
        clock: Clock | None = None,
        runtime: MakeRuntime | None = None,
    ) -> None:
        self._config = config
        self._app = create_app(config, clock=clock, runtime=runtime)
        # aiohttp stops reading from every connection as soon as its shutdown begins, which would
        # leave uploads hanging: requests in flight are waited for before that.
        # Handlers are cancelled when their client goes away: a command ends with who asked for it.
        self._runner = web.AppRunner(
            self._app,
            handle_signals=False,
            shutdown_timeout=CUT_SECONDS,
            handler_cancellation=True,
        )
        self._listeners: list[asyncio.Server] = []
        self._bound: Path | None = None

    @property
    def platform(self) -> Platform:
        """The parts behind the routes."""
        return self._app[PLATFORM]

    async def start(self) -> Listening:
        """Open the state, bind both listeners and say where they are.

        Raises:
            LocalPlatformError: the database cannot be opened, or a port or socket path is taken.
        """
        try:
            await self._runner.setup()
            server = self._runner.server
            assert server is not None
            factory = ConnectionFactory(server, self._config.limits, self.platform.metrics)
            port = await self._bind_port(factory)
            await self._bind_unix_socket(factory)
        except BaseException as error:
            if isinstance(error, Exception):
                log_event(logging.ERROR, "not_started", reason=str(error))
            with anyio.CancelScope(shield=True):
                await self.stop()
            raise
        config = self._config
        host = f"[{config.host}]" if ":" in config.host else config.host
        self.platform.sandboxes.url = f"http://{host}:{port}"
        log_event(logging.INFO, "listening", host=host, port=port, unix_socket=config.unix_socket)
        return Listening(
            f"http://{host}:{port}", config.host, port, config.unix_socket, self.platform.instance
        )

    async def stop(self) -> None:
        """Stop listening, let requests in flight end (``shutdown_seconds``), commit, close."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        self.platform.sandboxes.fleet.cut()
        left = await self.platform.in_flight.drain(self._config.limits.shutdown_seconds)
        if left:
            log_event(logging.WARNING, "requests_cut", count=left)
        await self._runner.cleanup()
        if self._bound is not None:
            _remove_socket(self._bound)
            self._bound = None
        log_event(logging.INFO, "stopped")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.stop()

    async def _bind_port(self, factory: ConnectionFactory) -> int:
        config = self._config
        loop = asyncio.get_running_loop()
        try:
            listener = await loop.create_server(
                factory, config.host, config.port, backlog=BACKLOG, reuse_address=True
            )
        except OSError as error:
            raise LocalPlatformError(
                f"cannot listen on {config.host} port {config.port}: {error.strerror or error}",
                hint="another program may use the port; choose another one",
            ) from error
        self._listeners.append(listener)
        port: int = listener.sockets[0].getsockname()[1]
        return port

    async def _bind_unix_socket(self, factory: ConnectionFactory) -> None:
        path = self._config.unix_socket
        if path is None:
            return
        try:
            own = await anyio.to_thread.run_sync(_open_socket, path)
        except OSError as error:
            raise LocalPlatformError(
                f"cannot listen on the socket {path}: {error.strerror or error}",
                hint="the path must be short (about 100 bytes) and in a folder of yours",
            ) from error
        self._bound = path
        loop = asyncio.get_running_loop()
        self._listeners.append(await loop.create_unix_server(factory, sock=own, backlog=BACKLOG))


async def serve(config: ServerConfig, *, ready: Callable[[Listening], None] | None = None) -> None:
    """Run the platform until the task is cancelled.

    Args:
        config: where it lives and listens.
        ready: called once, when both listeners answer.

    Raises:
        ConfigError: the configuration is unsafe or out of range.
        LocalPlatformError: the state cannot be opened or an address is taken.
    """
    server = PlatformServer(config)
    listening = await server.start()
    try:
        if ready is not None:
            ready(listening)
        await asyncio.get_running_loop().create_future()
    finally:
        with anyio.CancelScope(shield=True):
            await server.stop()


def _open_socket(path: Path) -> socket.socket:
    """Bind a socket that only its owner can use, replacing one that nobody listens on."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _drop_stale(path)
    own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # fchmod before bind gives the file its mode from the first moment on Linux; chmod covers
        # other systems.
        os.fchmod(own.fileno(), 0o600)
        own.bind(str(path))
        path.chmod(0o600)
    except BaseException:
        own.close()
        raise
    return own


def _drop_stale(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(17, "the path is taken by something that is not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
    raise FileExistsError(17, "another platform is listening on it")


def _remove_socket(path: Path) -> None:
    try:
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    except OSError as error:
        log_event(logging.DEBUG, "socket_left", path=path, reason=error)
