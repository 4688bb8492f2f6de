"""What a sandbox runs from its start, and what that wrote."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from anyio import to_thread

from prime_async.server.config import ServerConfig
from prime_async.server.logs import log_event
from prime_async.server.runtimes.errors import CommandLostError, SandboxRuntimeError
from prime_async.server.runtimes.protocol import ExecSpec, RunningSandbox

__all__ = ["read_log", "remove_log", "run_start_command"]

_SHOWN_BYTES = 1024 * 1024

Note = Callable[[str, Mapping[str, Any]], Awaitable[object]]


async def run_start_command(
    config: ServerConfig, running: RunningSandbox, argv: tuple[str, ...], note: Note
) -> None:
    """Run it beside the sandbox's other commands; it goes on without the server."""
    log = config.sandbox_logs_dir / f"{running.id}.log"
    await to_thread.run_sync(lambda: log.parent.mkdir(mode=0o700, parents=True, exist_ok=True))
    try:
        command = await running.exec(ExecSpec(argv=argv, log=log, survives=True))
        exit_ = await command.wait()
    except CommandLostError:
        return
    except SandboxRuntimeError as error:
        log_event(logging.WARNING, "start_command_failed", sandbox=running.id, error=error)
        message = f"the start command could not be run: {error.message}\n"
        await to_thread.run_sync(_append, log, message)
        await note(running.id, {"exit_code": 127})
        return
    await note(running.id, {"exit_code": exit_.code})


async def read_log(config: ServerConfig, sandbox_id: str) -> str:
    """The last MiB of what the start command wrote; empty when there is none."""
    data = await to_thread.run_sync(_tail, config.sandbox_logs_dir / f"{sandbox_id}.log")
    return data.decode("utf-8", "replace")


async def remove_log(config: ServerConfig, sandbox_id: str) -> None:
    """Remove it."""
    log = config.sandbox_logs_dir / f"{sandbox_id}.log"
    await to_thread.run_sync(lambda: log.unlink(missing_ok=True))


def _append(log: Path, message: str) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "a", encoding="utf-8") as file:
        file.write(message)


def _tail(log: Path) -> bytes:
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _SHOWN_BYTES))
            return file.read(_SHOWN_BYTES)
    except FileNotFoundError:
        return b""
