"""Runs the embedded platform for tests: inside the test's loop, in a thread, or in a process of its
own.

``async with running_platform(tmp_path) as platform`` and ``with ThreadedPlatform(tmp_path) as
platform`` give ``url``, ``key`` and ``unix_socket``. ``ProcessPlatform`` can be killed and started
again on the same data and port.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import anyio

from prime_async.server.config import Limits, ServerConfig
from prime_async.server.sandboxes.endings import deleted
from prime_async.server.serve import Listening, PlatformServer, serve

KEY = "pit_test_0123456789abcdef0123456789abcdef"
READY_SECONDS = 30


class RunningPlatform:
    """A platform that answers: where it is, its key, and (in this process) its parts."""

    def __init__(self, config: ServerConfig, listening: Listening, server: PlatformServer) -> None:
        self.config = config
        self.url = listening.url
        self.api = f"{listening.url}/api/v1"
        self.port = listening.port
        self.key = KEY
        self.unix_socket = str(listening.unix_socket)
        self.headers = {"Authorization": f"Bearer {KEY}"}
        self.server = server
        self.parts = server.platform


def platform_config(tmp_path: Path, **changes: Any) -> ServerConfig:
    """A configuration under a test's folder; ``limits`` may be a dict of changed limits."""
    limits = changes.pop("limits", Limits())
    if isinstance(limits, dict):
        limits = Limits(**limits)
    # Socket paths are limited to about 100 bytes, which pytest's folders exceed.
    sockets = Path(tempfile.mkdtemp(prefix="pa-"))
    defaults = {
        "data_dir": tmp_path / "platform",
        "unix_socket": sockets / "s",
        "api_key": KEY,
        "limits": limits,
    }
    return ServerConfig(**{**defaults, **changes})


@asynccontextmanager
async def running_platform(
    tmp_path: Path,
    *,
    clock: Any = None,
    runtime: Any = None,
    leaves_sandboxes: bool = False,
    **changes: Any,
) -> AsyncIterator[RunningPlatform]:
    """Run a platform in this loop; ``runtime`` makes the runtime of its sandboxes.

    They are ended with it, unless they are a double's, or the test goes well and another platform
    of the same folder is to find them.
    """
    config = platform_config(tmp_path, **changes)
    server = PlatformServer(config, clock=clock, runtime=runtime)
    listening = await server.start()
    left = runtime is not None
    try:
        yield RunningPlatform(config, listening, server)
        left = left or leaves_sandboxes
    finally:
        if not left:
            await _end_sandboxes(server)
        await server.stop()
        _remove_folder_of(config.unix_socket)


async def _end_sandboxes(server: PlatformServer) -> None:
    """They would outlive it, as they are meant to."""
    fleet = server.platform.sandboxes.fleet
    async with anyio.create_task_group() as group:
        for sandbox_id in fleet.ids:
            group.start_soon(fleet.end, sandbox_id, deleted("PLATFORM_STOPPED"))


class ThreadedPlatform:
    """A platform in a thread with a loop of its own, for clients that block."""

    def __init__(self, tmp_path: Path, **changes: Any) -> None:
        self._config = platform_config(tmp_path, **changes)
        self._ready: queue.SimpleQueue[Listening | BaseException] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="platform", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self.key = KEY
        self.headers = {"Authorization": f"Bearer {KEY}"}
        self.unix_socket = str(self._config.unix_socket)

    def __enter__(self) -> Self:
        self._thread.start()
        ready = self._ready.get(timeout=READY_SECONDS)
        if isinstance(ready, BaseException):
            raise ready
        self.url, self.port = ready.url, ready.port
        self.api = f"{ready.url}/api/v1"
        return self

    def __exit__(self, *exc_info: object) -> None:
        assert self._loop is not None
        assert self._task is not None
        _ask_to_end_sandboxes(self.api, self._config.api_key or KEY)
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(READY_SECONDS)
        _remove_folder_of(self._config.unix_socket)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            return
        except BaseException as error:
            self._ready.put(error)

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        await serve(self._config, ready=self._ready.put)


class ProcessPlatform:
    """A platform in a process of its own; ``start`` after ``kill`` keeps data, port and socket."""

    def __init__(self, tmp_path: Path, **changes: Any) -> None:
        self._config = platform_config(tmp_path, port=_free_port(), **changes)
        self._process: subprocess.Popen[str] | None = None
        self.key = KEY
        self.headers = {"Authorization": f"Bearer {KEY}"}
        self.port = self._config.port
        self.url = f"http://127.0.0.1:{self.port}"
        self.api = f"{self.url}/api/v1"
        self.unix_socket = str(self._config.unix_socket)
        self.data_dir = self._config.data_dir
        self.log = tmp_path / "platform.log"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started, and not ended since."""
        return self._process is not None

    def start(self) -> Self:
        """Start it and wait until it answers."""
        settings = {
            "data_dir": str(self._config.data_dir),
            "port": self.port,
            "unix_socket": self.unix_socket,
            "limits": {
                name: getattr(self._config.limits, name) for name in Limits.__dataclass_fields__
            },
        }
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                # As a module: as a script, this file would hide the standard library's platform.
                [sys.executable, "-m", "tests.platform", json.dumps(settings)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=Path(__file__).parents[1],
            )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"the platform did not start: {self.log.read_text()[-2000:]}")
        return self

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and wait until it is gone."""
        self._end(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        if not self.running and any((self._config.data_dir / "sandboxes").glob("[!.]*")):
            self.start()  # It was killed: nobody else finds what it left.
        if self.running:
            _ask_to_end_sandboxes(self.api, KEY)
        self.kill()
        _remove_folder_of(self._config.unix_socket)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(READY_SECONDS)
            assert process.stdout is not None
            process.stdout.close()


def _ask_to_end_sandboxes(api: str, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"{api}/local/end-all", b"", headers)
    with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=READY_SECONDS):
        pass


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _remove_folder_of(path: Path | None) -> None:
    if path is not None:
        path.unlink(missing_ok=True)
        if not any(path.parent.iterdir()):
            path.parent.rmdir()


def _main() -> None:
    settings = json.loads(sys.argv[1])
    config = ServerConfig(
        data_dir=Path(settings["data_dir"]),
        port=settings["port"],
        unix_socket=Path(settings["unix_socket"]),
        api_key=KEY,
        limits=Limits(**settings["limits"]),
    )

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await serve(config, ready=lambda _: print("ready", flush=True))

    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        return


if __name__ == "__main__":
    _main()
