"""The platform as a process: one per home directory, found by what it writes, ended by a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from prime_async._version import __version__
from prime_async.config.locks import FileLock
from prime_async.errors import LocalPlatformError
from prime_async.local.context import publish
from prime_async.local.paths import LocalPaths
from prime_async.local.ports import choose_port
from prime_async.local.processes import process_start
from prime_async.local.state import State, set_state_aside, write_state
from prime_async.server.config import Limits, ServerConfig
from prime_async.server.logs import log_event
from prime_async.server.serve import Listening, PlatformServer

__all__ = ["BUSY", "Daemon", "Report"]

BUSY = 3
"""Exit code when the platform of this home directory already has a daemon."""

Report = Callable[[dict[str, Any]], None]

_STOP_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Daemon:
    """The platform of one home directory.

    Attributes:
        paths: where it keeps things.
        port: loopback port asked for now, or None for the one from before.
        report: called once, with what the starter wants to know.
        limits: bounds of the platform.
    """

    paths: LocalPaths
    port: int | None
    report: Report
    limits: Limits = field(default_factory=Limits)

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; return the exit code.

        Raises:
            LocalPlatformError, ConfigError: the platform cannot start.
        """
        lock = FileLock(self.paths.server_lock)
        if not lock.try_acquire():
            self.report({"busy": True})
            return BUSY
        try:
            name, factory = _fastest_loop()
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(self._serve(name))
        finally:
            lock.release()
        return 0

    async def _serve(self, loop: str) -> None:
        before = await to_thread.run_sync(set_state_aside, self.paths)
        port, note = await to_thread.run_sync(self._choose_port, before)
        path = await to_thread.run_sync(self.paths.socket)
        server = PlatformServer(self._config(port, path))
        stop = asyncio.Event()
        with _ended_by_signals(stop):
            listening = await server.start()
            log_event(logging.INFO, "serving", version=__version__, loop=loop)
            try:
                state = await to_thread.run_sync(self._publish, listening, before)
                self.report({"ready": True, "notes": [note] if note else []})
                await stop.wait()
            finally:
                await _stop_in_time(server)
        await to_thread.run_sync(write_state, self.paths, state.ended())

    def _config(self, port: int, unix_socket: Path | None) -> ServerConfig:
        return ServerConfig(self.paths.root, port=port, unix_socket=unix_socket, limits=self.limits)

    def _choose_port(self, before: State | None) -> tuple[int, str | None]:
        chosen = before is not None and before.port_chosen
        return choose_port(self.port, before.port if before else None, chosen=chosen)

    def _publish(self, listening: Listening, before: State | None) -> State:
        """Write down where the platform is: first for those who start it, then for its clients."""
        state = State(
            port=listening.port,
            port_chosen=self.port is not None or (before is not None and before.port_chosen),
            version=__version__,
            pid=os.getpid(),
            process_start=process_start(os.getpid()),
            host=socket.gethostname(),
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            unix_socket=str(listening.unix_socket) if listening.unix_socket else None,
            api_key=_read_key(self.paths.key_file),
        )
        write_state(self.paths, state)
        publish(self.paths, state.address())
        return state


def _fastest_loop() -> tuple[str, Callable[[], asyncio.AbstractEventLoop] | None]:
    """Return uvloop where it is installed (the extra ``fast``), else the standard loop."""
    try:
        uvloop = import_module("uvloop")
    except ImportError:
        return "asyncio", None
    return "uvloop", uvloop.new_event_loop


def _read_key(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise LocalPlatformError(f"cannot read the API key in {path}: {error}") from error


@contextmanager
def _ended_by_signals(stop: asyncio.Event) -> Iterator[None]:
    """Let the first SIGTERM or SIGINT end the platform in good order, a second one at once."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            log_event(logging.WARNING, "stopping_at_once", signal=number.name)
            os._exit(128 + number)
        log_event(logging.INFO, "stopping", signal=number.name)
        stop.set()

    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _stop_in_time(server: PlatformServer) -> None:
    """Stop, or leave what does not stop: committed data survives that."""
    with anyio.CancelScope(shield=True), anyio.move_on_after(_STOP_SECONDS) as limit:
        await server.stop()
    if limit.cancelled_caught:
        log_event(logging.WARNING, "stop_cut_short", seconds=_STOP_SECONDS)
