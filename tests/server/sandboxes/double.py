"""A runtime for tests that runs plain processes of this machine: quick, faithful to the protocol,
isolating nothing. Its sandboxes can be ended for any reason, and outlive it as real ones do.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import pty as terminals
import shutil
import signal
import socket
import termios
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio

from prime_async.server.runtimes.egress_policy import EgressPolicy
from prime_async.server.runtimes.errors import (
    CommandRefusedError,
    SandboxEndedError,
    SandboxStartError,
    StdinClosedError,
)
from prime_async.server.runtimes.files import SandboxFiles
from prime_async.server.runtimes.protocol import (
    RETAINED_BYTES,
    CommandExit,
    Ending,
    EndReason,
    ExecSpec,
    Held,
    Limits,
    RunningSandbox,
    RuntimeReport,
    SandboxRecord,
    SandboxSpec,
    Stats,
    TerminalSize,
)
from prime_async.server.runtimes.rooted import Identity, Root


class DoubleOutput:
    """One output: read on demand, or into a ring."""

    def __init__(self) -> None:
        self._given = 0
        self.dropped = 0
        self._reader = asyncio.StreamReader(limit=2**16)
        self._transport: asyncio.ReadTransport | None = None
        self._descriptor = -1
        self._ring = bytearray()
        self._task: asyncio.Task[None] | None = None

    async def open(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), os.fdopen(descriptor, "rb", 0)
        )

    async def end(self) -> None:
        """The command is gone: give what is in the pipe, whoever else may hold its other end."""
        if self._transport is not None:
            await asyncio.sleep(0.02)
            while not self._transport.is_closing() and _waiting(self._descriptor):
                await asyncio.sleep(0.01)
        self._reader.feed_eof()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def read(self, limit: int = 65536) -> bytes:
        data = await self._next(limit)
        self._given += len(data)
        return data

    async def _next(self, limit: int) -> bytes:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        if self._ring:
            data = bytes(self._ring[:limit])
            del self._ring[:limit]
            return data
        return await self._reader.read(limit)

    async def resume(self, at: int | None = None) -> int:
        return self._given + self.dropped

    def detach(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._fill())

    async def _fill(self) -> None:
        while data := await self._reader.read(65536):
            self._ring += data
            extra = max(0, len(self._ring) - RETAINED_BYTES)
            del self._ring[:extra]
            self.dropped += extra

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._transport is not None:
            self._transport.close()


def _waiting(descriptor: int) -> bool:
    held = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, held)
    return held[0] > 0


class DoubleCommand:
    """A process in a session of its own."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: int | None) -> None:
        self.process = process
        self.pid = process.pid
        self.pty = terminal is not None
        self.stdout = DoubleOutput()
        self.stderr = DoubleOutput()
        self.sizes: list[TerminalSize] = []
        self._terminal = terminal
        self._waiter = asyncio.get_running_loop().create_task(self._wait())
        self._exit: CommandExit | None = None

    async def _wait(self) -> None:
        code = await self.process.wait()
        self._exit = CommandExit(code) if code >= 0 else CommandExit(128 - code, -code)
        await self.stdout.end()
        await self.stderr.end()

    @property
    def exit(self) -> CommandExit | None:
        return self._exit

    async def wait(self) -> CommandExit:
        await asyncio.shield(self._waiter)
        assert self._exit is not None
        return self._exit

    def on_end(self, call: Callable[[], None]) -> None:
        self._waiter.add_done_callback(lambda _: call())

    async def write_stdin(self, data: bytes, key: str | None = None) -> None:
        if self._terminal is not None:
            os.write(self._terminal, data)
            return
        stdin = self.process.stdin
        if stdin is None or stdin.is_closing() or self._exit is not None:
            raise StdinClosedError("the command reads no input")
        try:
            stdin.write(data)
            await stdin.drain()
        except ConnectionError as error:
            raise StdinClosedError("the command reads no input") from error

    async def close_stdin(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()

    async def resize(self, size: TerminalSize) -> None:
        if not self.pty:
            raise CommandRefusedError("it has no terminal", field="pty")
        self.sizes.append(size)

    async def signal(self, number: int) -> bool:
        if self._exit is not None:
            return False
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    async def aclose(self) -> None:
        if self._exit is None:
            await self.signal(signal.SIGKILL)
            await self.wait()
        await self.close_stdin()
        await self.stdout.close()
        await self.stderr.close()


class DoubleSandbox:
    """A folder, and the processes that were started for it."""

    def __init__(self, record: SandboxRecord, limits: Limits, environment: dict[str, str]) -> None:
        self.id = record.id
        self.record = record
        self.limits = limits
        self.environment = environment
        self.folder = Path(record.folder)
        self.files = SandboxFiles(_root(self.folder), room=lambda: 2**40)
        self.policy: EgressPolicy | None = None
        self.commands: list[DoubleCommand] = []
        self.touched = 0
        self._end: EndReason | None = None
        self._ended = anyio.Event()

    @property
    def end(self) -> EndReason | None:
        return self._end

    async def exec(self, command: ExecSpec) -> Any:
        if self._end is not None:
            raise SandboxEndedError(self.id, self._end)
        folder = self.folder / (command.working_dir or "/app").lstrip("/")
        if not folder.is_dir():
            raise CommandRefusedError(f"no folder {command.working_dir}", field="working_dir")
        if command.user not in (None, "root"):
            raise CommandRefusedError(f"no user {command.user}", field="user")
        terminal = follower = None
        if command.pty is not None:
            terminal, follower = terminals.openpty()
        log = command.log.open("ab") if command.log is not None else None
        piped = log or follower or asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            stdin=follower
            or (asyncio.subprocess.PIPE if command.stdin else asyncio.subprocess.DEVNULL),
            stdout=(pipes := _pipes(piped))[1],
            stderr=(errors := _pipes(piped))[1],
            cwd=folder,
            env={"PATH": os.environ["PATH"], **self.environment, **command.environment},
            start_new_session=True,
        )
        made = DoubleCommand(process, terminal)
        if terminal is not None:
            await made.stdout.open(terminal)
        elif log is None:
            await made.stdout.open(pipes[0])
            await made.stderr.open(errors[0])
        for end in {pipes[1], errors[1]} - {log, None}:
            os.close(end)
        if log is not None:
            log.close()
        self.commands.append(made)
        return made

    async def find_held(self) -> list[Held]:
        return []

    async def ended(self) -> EndReason:
        await self._ended.wait()
        assert self._end is not None
        return self._end

    async def finish(self, kind: Ending, message: str = "as the test wished") -> EndReason:
        """End it for a reason."""
        if self._end is None:
            self._end = EndReason(kind, message, time.time())
            for command in self.commands:
                await command.aclose()
            self.files.close()
            shutil.rmtree(self.folder)
            self._ended.set()
        return self._end

    async def stop(self, grace: float = 0.0) -> EndReason:
        return await self.finish(Ending.STOPPED)

    async def signal(self, pid: int, number: int) -> bool:
        raise NotImplementedError

    async def stats(self) -> Stats:
        return Stats(0, 0.0, 0, 0, len(self.commands))

    def set_egress(self, policy: EgressPolicy) -> None:
        self.policy = policy

    async def listen(self, port: int) -> socket.socket:
        raise NotImplementedError

    async def connect(self, port: int, *, timeout: float = 10.0) -> socket.socket:
        raise NotImplementedError

    def touch(self) -> None:
        self.touched += 1


def _root(folder: Path) -> Root:
    return Root.of(folder, Identity(os.getuid(), os.getgid()), "/app")


def _pipes(piped: Any) -> tuple[int, Any]:
    if piped is asyncio.subprocess.PIPE:
        return os.pipe()
    return -1, piped


class DoubleRuntime:
    """Starts folders.

    Attributes:
        sandboxes: all it has started or adopted.
        usable: what the probe says.
        gate: starts wait for it.
    """

    name = "double"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sandboxes: dict[str, DoubleSandbox] = {}
        self.specs: dict[str, SandboxSpec] = {}
        self.usable = True
        self.failure: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def probe(self) -> RuntimeReport:
        if self.usable:
            return RuntimeReport(self.name, True, False)
        return RuntimeReport(self.name, False, False, "user namespaces are refused", "allow them")

    async def start(self, spec: SandboxSpec) -> RunningSandbox:
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        folder = self.folder / spec.id
        for name in ("app", "tmp", "workspace"):
            (folder / name).mkdir(parents=True)
        record = SandboxRecord(
            id=spec.id, runtime=self.name, folder=str(folder), pid=1, start_time="now"
        )
        cores = min(spec.cpu_cores, 2.0)
        notes = ("clipped to 2 cores",) if cores < spec.cpu_cores else ()
        limits = Limits(cores, spec.memory_bytes, spec.disk_bytes, spec.processes, notes)
        made = DoubleSandbox(record, limits, dict(spec.environment))
        self.specs[spec.id] = spec
        self.sandboxes[spec.id] = made
        return made

    async def adopt(self, record: SandboxRecord) -> RunningSandbox | None:
        if not Path(record.folder).is_dir():
            return None
        made = DoubleSandbox(record, Limits(2.0, 2**30, 2**30, 100), {})
        self.sandboxes[record.id] = made
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for sandbox in self.sandboxes.values():
            if sandbox.end is None:
                for command in sandbox.commands:
                    await command.aclose()
                sandbox.files.close()


__all__ = ["DoubleRuntime", "DoubleSandbox", "SandboxStartError"]
