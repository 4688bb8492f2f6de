"""Ways to run the command line, and a platform for it to talk to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sysconfig
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = str(Path(sysconfig.get_path("scripts")) / "prime-async")
CANARY = "sk-CANARY-123-0123456789"
"""The key every command runs with; no output may ever hold it."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command line did."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"

    @property
    def everything(self) -> str:
        return self.out + self.err


def run_command(*arguments: str, **options: Any) -> Ran:
    """Run the installed command in a process of its own, without a terminal."""
    env = {**os.environ, **options.pop("env", {})}
    options.setdefault("stdin", subprocess.DEVNULL if "input" not in options else None)
    if options["stdin"] is None:
        del options["stdin"]
    done = subprocess.run(
        [COMMAND, *arguments],
        env={name: value for name, value in env.items() if value is not None},
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=60,
        check=False,
        **options,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True, slots=True)
class Platform:
    """An embedded platform that runs beside the tests."""

    url: str
    key: str


class PlatformThread:
    """Runs a platform on a loop of its own: the command line blocks the loop of the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready: Future[tuple[str, Callable[[], None]]] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Platform:
        self._thread.start()
        url, self._stop = self._ready.result(30)
        return Platform(url, CANARY)

    def stop(self) -> None:
        self._stop()
        self._thread.join(30)

    def _run(self) -> None:
        from prime_async.server.config import ServerConfig
        from prime_async.server.serve import Listening, serve

        config = ServerConfig(data_dir=self._folder, api_key=CANARY)

        async def main() -> None:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None

            def ready(listening: Listening) -> None:
                self._ready.set_result(
                    (listening.url, lambda: loop.call_soon_threadsafe(task.cancel))
                )

            with contextlib.suppress(asyncio.CancelledError):
                await serve(config, ready=ready)

        try:
            with asyncio.Runner() as runner:
                runner.run(main())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise
