"""Short ways to say what tests of sandboxes do all the time."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from prime_async.server.runtimes.base import BaseRuntime
from prime_async.server.runtimes.commands import Command
from prime_async.server.runtimes.protocol import CommandExit, ExecSpec, OutputStream, SandboxSpec
from prime_async.server.runtimes.sandbox import Sandbox

_numbers = itertools.count()

MIB = 1024 * 1024


def spec(**fields: Any) -> SandboxSpec:
    """A sandbox of modest size with an id of its own."""
    given = {"memory_bytes": 256 * MIB, "disk_bytes": 256 * MIB, "timeout_seconds": 300.0}
    return SandboxSpec(f"box-{next(_numbers)}", **{**given, **fields})


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    exit: CommandExit
    stdout: str
    stderr: str

    @property
    def code(self) -> int:
        """Its exit code."""
        return self.exit.code


async def collect(stream: OutputStream) -> bytes:
    """All of an output."""
    return b"".join([chunk async for chunk in stream])


async def finish(command: Command) -> Done:
    """Read both outputs to their end, and wait for the end."""
    outputs: dict[str, bytes] = {}

    async def read(name: str, stream: OutputStream) -> None:
        outputs[name] = await collect(stream)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(read, "stdout", command.stdout)
            group.start_soon(read, "stderr", command.stderr)
        done = await command.wait()
    await command.aclose()
    return Done(done, outputs["stdout"].decode(), outputs["stderr"].decode())


async def run(box: Sandbox, *argv: str, **fields: Any) -> Done:
    """Run a program to its end."""
    return await finish(await box.exec(ExecSpec(argv, **fields)))


async def sh(box: Sandbox, script: str, **fields: Any) -> Done:
    """Run a script of bash to its end."""
    return await run(box, "/bin/bash", "-c", script, **fields)


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    """An upload of some parts."""
    for part in parts:
        yield part


@contextmanager
def new_store() -> Iterator[Path]:
    """An empty folder for sandboxes, below one that only this user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="boxes-"))
    try:
        yield folder / "sandboxes"
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def ending(runtime: BaseRuntime) -> AsyncIterator[None]:
    """End what is started meanwhile: sandboxes outlive a runtime, as they are meant to."""
    before = set(runtime._sandboxes)
    try:
        yield
    finally:
        for box in list(runtime._sandboxes.values()):
            if box.id not in before:
                await box.stop()


async def until(condition: Any, seconds: float = 20.0) -> None:
    """Wait for what nobody tells about; gives up after ``seconds``."""
    with anyio.fail_after(seconds):
        while not await condition():
            await anyio.sleep(0.02)
