"""A running command: its streams, its signals, its end."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from prime_async.server.runtimes.conversation import Answer, SpawnerError
from prime_async.server.runtimes.errors import (
    CommandLostError,
    CommandRefusedError,
    SandboxRuntimeError,
)
from prime_async.server.runtimes.protocol import (
    CommandExit,
    ExecSpec,
    OutputStream,
    TerminalSize,
)
from prime_async.server.runtimes.spawner.messages import Message
from prime_async.server.runtimes.streams import InputStream, PipeOutput, closed_output

__all__ = ["Asks", "Command", "Pipes", "check_size", "large_pipe", "resize_refusal"]

Asks = Callable[[Message], Awaitable[Answer]]


class CommandOutput(OutputStream, Protocol):
    """An output, as its command needs it."""

    def command_ended(self) -> None:
        """The command ended: give what it wrote, and no more than that."""
        ...

    def leave(self) -> None:
        """Nobody will ever read again."""
        ...


_PIPE_BYTES = 256 * 1024
_F_SETPIPE_SZ = 1031


def large_pipe() -> tuple[int, int]:
    """Make a pipe that holds more than usual where the system lets us: fewer turns for much."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    with suppress(OSError):
        fcntl.fcntl(reader, _F_SETPIPE_SZ, _PIPE_BYTES)
    return reader, writer


@dataclass(slots=True)
class Pipes:
    """Both sides of a command's streams while it is being started."""

    ours: list[int] = field(default_factory=list)
    theirs: list[int] = field(default_factory=list)

    @classmethod
    def for_command(cls, spec: ExecSpec) -> Pipes:
        """Open what a command needs; nothing for one with a terminal."""
        pipes = cls()
        try:
            if spec.pty is None:
                pipes._open(spec)
        except BaseException:
            pipes.close()
            raise
        return pipes

    def _open(self, spec: ExecSpec) -> None:
        if spec.stdin:
            self._pipe(reading=False)
        else:
            self.theirs.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            self.ours.append(-1)
        if spec.log is not None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            log = os.open(spec.log, flags, 0o600)
            self.theirs += [log, os.dup(log)]
            self.ours += [-1, -1]
            return
        self._pipe(reading=True)
        self._pipe(reading=True)

    def _pipe(self, *, reading: bool) -> None:
        reader, writer = large_pipe()
        ours, theirs = (reader, writer) if reading else (writer, reader)
        self.ours.append(ours)
        self.theirs.append(theirs)
        os.set_blocking(ours, False)

    def close_theirs(self) -> None:
        """The command has them now."""
        while self.theirs:
            os.close(self.theirs.pop())

    def close(self) -> None:
        """It was not started."""
        self.close_theirs()
        while self.ours:
            descriptor = self.ours.pop()
            if descriptor >= 0:
                os.close(descriptor)


class Command:
    """A command that was started; see :class:`prime_async.server.runtimes.protocol.RunningCommand`.

    Args:
        ask: asks its parent.
        pid: its number inside.
        host_pid: its number on the host.
        survives: whether it goes on when the server dies.
    """

    def __init__(
        self,
        ask: Asks,
        *,
        pid: int,
        host_pid: int,
        survives: bool = False,
    ) -> None:
        self.pid = pid
        self.host_pid = host_pid
        self.survives = survives
        self.pty = False
        self.stdout: CommandOutput = closed_output()
        self.stderr: CommandOutput = closed_output()
        self._stdin = InputStream(-1)
        self._terminal = -1
        self._ask = ask
        self._exit: CommandExit | None = None
        self._over = asyncio.Event()
        self._calls: list[Callable[[], None]] = []

    def take_pipes(self, ours: list[int]) -> None:
        """Use these descriptors: standard input, output, error."""
        self._stdin = InputStream(ours[0])
        self.stdout, self.stderr = PipeOutput(ours[1]), PipeOutput(ours[2])

    def take_terminal(self, master: int) -> None:
        """Use this terminal."""
        self.pty = True
        os.set_blocking(master, False)
        # One descriptor each: the loop watches a descriptor for one purpose only.
        self._stdin = InputStream(os.dup(master), terminal=True)
        self._terminal = os.dup(master)
        self.stdout = PipeOutput(master, terminal=True)

    @property
    def exit(self) -> CommandExit | None:
        """How it ended."""
        return self._exit

    @property
    def running(self) -> bool:
        """Whether it has neither ended nor been lost."""
        return not self._over.is_set()

    async def wait(self) -> CommandExit:
        """Wait for its end."""
        await self._over.wait()
        if self._exit is None:
            raise CommandLostError("the command's end cannot be told: what started it was killed")
        return self._exit

    def on_end(self, call: Callable[[], None]) -> None:
        """Have something called soon after its end."""
        if self._over.is_set():
            asyncio.get_running_loop().call_soon(call)
        else:
            self._calls.append(call)

    async def write_stdin(self, data: bytes, key: str | None = None) -> None:
        """Write to its standard input."""
        await self._stdin.write(data)

    async def close_stdin(self) -> None:
        """End its standard input."""
        await self._stdin.finish()

    async def resize(self, size: TerminalSize) -> None:
        """Give its terminal another size."""
        check_size(size)
        if not self.pty:
            raise resize_refusal()
        if self._terminal < 0:
            return  # It has ended, and its terminal with it.
        packed = struct.pack("HHHH", size.rows, size.cols, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, packed)

    async def signal(self, number: signal.Signals | int) -> bool:
        """Send a signal to its group; SIGKILL to its session."""
        if not self.running:
            return False
        try:
            answer = await self._ask(
                {
                    "op": "signal",
                    "host_pid": self.host_pid,
                    "number": int(number),
                    "session": int(number) == signal.SIGKILL,
                }
            )
        except SpawnerError as error:
            if self._over.is_set():
                return False
            raise SandboxRuntimeError(f"the signal was not sent: {error.text}") from error
        return bool(answer.fields["sent"])

    async def aclose(self) -> None:
        """Kill it if it runs, and let go of its streams."""
        try:
            if await self.signal(signal.SIGKILL):
                await self._over.wait()
        finally:
            self._stdin.close()
            self._close_terminal()
            self.stdout.leave()
            self.stderr.leave()

    def ended(self, code: int, number: int | None) -> None:
        """Its parent says that it ended."""
        self._exit = CommandExit(code, number)
        self._settle()

    def lost(self) -> None:
        """Its parent is gone: it runs on, perhaps, and nobody will know how it ends."""
        if self.running:
            self._settle()

    def _settle(self) -> None:
        self._over.set()
        for call in self._calls:
            asyncio.get_running_loop().call_soon(call)
        self._calls.clear()
        self._stdin.close()
        self._close_terminal()
        self.stdout.command_ended()
        self.stderr.command_ended()

    def _close_terminal(self) -> None:
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1


def resize_refusal() -> CommandRefusedError:
    """Make the error for giving a size to what has none."""
    return CommandRefusedError("the command has no terminal", field="pty")


def check_size(size: TerminalSize) -> None:
    """Refuse sizes that no terminal has.

    Raises:
        CommandRefusedError: one is not 1 to 65535.
    """
    if not (1 <= size.cols <= 65535 and 1 <= size.rows <= 65535):
        raise CommandRefusedError(
            f"a terminal of {size.cols} by {size.rows} characters cannot be", field="pty"
        )
