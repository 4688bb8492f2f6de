"""The contract of a runtime: what can run sandboxes, and what a running one can do.

A runtime starts sandboxes, finds them again after the server was killed, and ends them. Everything
else is done through the :class:`RunningSandbox` it hands out. `tests/runtimes/contract.py` holds
any implementation to what is said here. The rules, in short:

* No method blocks the event loop, every method may be cancelled, and none swallows a cancellation.
* A sandbox is gone after ``stop``: processes, cgroups, mounts, and its folder.
* A sandbox outlives the server. ``record`` is all that a new server needs to ``adopt`` it.
* A command ends when its direct child ends; what that left running goes on, inside the sandbox.
* A command started by a server that died is killed, unless it was started with ``survives``.
* Output is bounded by back-pressure while somebody reads, by a ring of :data:`RETAINED_BYTES` while
  nobody does (:meth:`OutputStream.detach`); what a ring drops is counted in ``dropped``.
* Secrets (``environment``) are never on a command line, in a log, or in a repr.
"""

from __future__ import annotations

import signal as _signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import msgspec

from prime_async.server.runtimes.egress_policy import EgressPolicy
from prime_async.server.runtimes.files import SandboxFiles

__all__ = [
    "CommandExit",
    "EndReason",
    "Ending",
    "ExecSpec",
    "Limits",
    "Mount",
    "OutputStream",
    "RETAINED_BYTES",
    "RunningCommand",
    "RunningSandbox",
    "Runtime",
    "RuntimeReport",
    "SandboxRecord",
    "SandboxSpec",
    "Stats",
    "TerminalSize",
]

RETAINED_BYTES = 1024 * 1024
"""What an output stream keeps, at most, while nobody listens: its newest bytes."""


class Ending(StrEnum):
    """Why a sandbox is not running any more. The names in capitals are the wire's error types."""

    STOPPED = "STOPPED"
    """Somebody called ``stop``."""
    OOM_KILLED = "OOM_KILLED"
    """Its processes used more memory than it was given."""
    TIMEOUT = "TIMEOUT"
    """Its time (``timeout_seconds``) was over."""
    IDLE = "IDLE"
    """Nothing was asked of it for ``idle_seconds``."""
    DISK_FULL = "DISK_FULL"
    """Its files took more than ``disk_bytes``, or the machine's disk fell below its floor."""
    EXITED = "EXITED"
    """Its first process ended by itself."""
    KILLED = "KILLED"
    """Its first process was killed from outside."""
    LOST = "LOST"
    """It was not there any more when a server came back to adopt it."""


@dataclass(frozen=True, slots=True)
class EndReason:
    """Why and when a sandbox ended.

    Attributes:
        kind: which kind of end.
        message: one sentence for people, with the figures.
        at: when it was noticed, seconds since the epoch.
    """

    kind: Ending
    message: str
    at: float


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of the host that the sandbox sees (room for volumes).

    Attributes:
        source: absolute path on the host, below the folder of sandboxes.
        target: absolute path inside.
        read_only: whether it may be written.
    """

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What a sandbox shall be.

    Attributes:
        id: name of the sandbox, ``[A-Za-z0-9_-]{1,64}``; also the name of its folder.
        image: name in the catalogue of images.
        cpu_cores: ceiling in cores; clipped to the host's, with a note.
        memory_bytes: ceiling of all its processes together; clipped to the host's, with a note.
        disk_bytes: ceiling of its files.
        processes: ceiling of processes and threads.
        timeout_seconds: life time, or None for no end.
        idle_seconds: it ends after so long without a call and without a running command; None for
            never.
        environment: variables of every command, secrets among them.
        egress: where its processes may connect to; the policy can be changed later.
        mounts: further folders.
        snapshot: archive that its private root is filled from (`snapshots.py`).
    """

    id: str
    image: str = "ubuntu:latest"
    cpu_cores: float = 1.0
    memory_bytes: int = 1 << 30
    disk_bytes: int = 5 << 30
    processes: int = 1024
    timeout_seconds: float | None = 3600.0
    idle_seconds: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    mounts: tuple[Mount, ...] = ()
    snapshot: Path | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits in force, after clipping.

    Attributes:
        notes: one sentence for everything that is less than, or other than, what was asked for.
    """

    cpu_cores: float
    memory_bytes: int
    disk_bytes: int
    processes: int
    notes: tuple[str, ...] = ()


class SandboxRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All that is needed to adopt a running sandbox. Holds no secret; JSON by ``msgspec.json``.

    Attributes:
        id: the sandbox.
        runtime: name of the runtime that started it.
        folder: its folder on the host.
        pid: the host's number of its first process.
        start_time: when that process started, in the words of the system; tells it from a later
            process with the same number.
        details: what else the runtime wants to know again.
    """

    id: str
    runtime: str
    folder: str
    pid: int
    start_time: str
    details: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """Size of a pseudo-terminal in characters."""

    cols: int = 80
    rows: int = 24


@dataclass(frozen=True, slots=True)
class ExecSpec:
    """What a command shall be.

    Attributes:
        argv: program and arguments; a program without a slash is looked up in ``PATH``.
        environment: variables over those of the sandbox.
        working_dir: absolute path inside; None is ``/app``.
        user: name or number known to the sandbox's ``/etc/passwd``; None is root.
        stdin: whether it has a standard input to write to; without, it reads an empty one.
        pty: size of a terminal for it, or None for pipes. With a terminal there is no stderr.
        log: file on the host to append stdout and stderr to, instead of pipes.
        survives: whether it goes on when the server dies; only with ``log``.
        held: what to tell a later server; with it the command, its input, the newest
            :data:`RETAINED_BYTES` of its outputs and its end outlive this one.
        deadline: of a held command, by the system's monotonic clock; told again, not enforced.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    working_dir: str | None = None
    user: str | None = None
    stdin: bool = False
    pty: TerminalSize | None = None
    log: Path | None = None
    survives: bool = False
    held: bytes | None = field(default=None, repr=False)
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class CommandExit:
    """How a command ended.

    Attributes:
        code: exit code; 128 + number when a signal ended it, as shells say.
        signal: number of that signal, or None.
    """

    code: int
    signal: int | None = None


class OutputStream(Protocol):
    """One output of a command: an async iterator of non-empty ``bytes``.

    It ends when the command has ended and what it wrote has been read, even if descendants still
    hold the other end (what they write later is thrown away). While nobody reads, the pipe fills
    and the command waits: nothing is held in the server.

    Attributes:
        dropped: bytes that were thrown away while nobody listened (see ``detach``).
    """

    dropped: int

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def read(self, limit: int = 65536) -> bytes:
        """Return 1 to ``limit`` bytes, or ``b""`` at the end. One reader at a time."""
        ...

    async def resume(self, at: int | None = None) -> int:
        """Be ready to read from an offset on: how many bytes the command had written before.

        Returns where reading goes on. That is later where the window of a held command does not
        reach back so far, and for all others wherever reading had stopped, whatever was asked for.

        Args:
            at: None for where reading had stopped.
        """
        ...

    def detach(self) -> None:
        """Nobody listens now: keep the newest :data:`RETAINED_BYTES`, so that the command never
        waits for a client that went away. The next ``read`` ends this and gives what was kept."""
        ...


class RunningCommand(Protocol):
    """A command that was started.

    Attributes:
        pid: its number inside the sandbox.
        pty: whether it has a terminal.
        stdout: with a terminal all that it shows; ended from the start with ``log``.
        stderr: ended from the start with a terminal or ``log``.
        exit: how it ended, None while it runs.
    """

    @property
    def pid(self) -> int: ...

    @property
    def pty(self) -> bool: ...

    @property
    def stdout(self) -> OutputStream: ...

    @property
    def stderr(self) -> OutputStream: ...

    @property
    def exit(self) -> CommandExit | None: ...

    async def wait(self) -> CommandExit:
        """Wait for its end; descendants that go on do not hold it back. Reads no output.

        Raises:
            CommandLostError: what started it was killed, so nobody can tell.
        """
        ...

    def on_end(self, call: Callable[[], None]) -> None:
        """Have something called soon after its end, or after nobody can tell it any more."""
        ...

    async def write_stdin(self, data: bytes, key: str | None = None) -> None:
        """Write all of it, waiting while the command does not read. Calls are kept in order.

        Args:
            key: a held command is written what has the same key once, whichever server says it.

        Raises:
            StdinClosedError: there is no standard input (any more).
        """
        ...

    async def close_stdin(self) -> None:
        """End of input; with a terminal, its end-of-file character. Twice is no error."""
        ...

    async def resize(self, size: TerminalSize) -> None:
        """Give the terminal a new size; its foreground group gets SIGWINCH.

        Raises:
            CommandRefusedError: it has no terminal, or the size is not 1 to 65535.
        """
        ...

    async def signal(self, number: _signal.Signals | int) -> bool:
        """Send a signal to its process group; SIGKILL goes to everything in its session.

        Returns whether it was still running.
        """
        ...

    async def aclose(self) -> None:
        """Kill it if it runs and let go of its streams. Always safe, also twice."""
        ...


class Held(NamedTuple):
    """A command of an earlier server: what it was held with, and itself."""

    label: bytes
    deadline: float | None
    command: RunningCommand


@dataclass(frozen=True, slots=True)
class Stats:
    """What a sandbox uses right now.

    Attributes:
        memory_bytes: of all its processes.
        cpu_seconds: used by all its processes so far, those that ended included where the machine
            accounts for them.
        processes: how many there are.
        disk_bytes: of its files, as of the last look of the watchdog.
        commands: how many commands run.
    """

    memory_bytes: int
    cpu_seconds: float
    processes: int
    disk_bytes: int
    commands: int


class RunningSandbox(Protocol):
    """A sandbox that runs, or ran.

    Attributes:
        id: its name.
        record: what :meth:`Runtime.adopt` needs; the same all its life.
        limits: what is in force.
        files: its files (:class:`prime_async.server.runtimes.files.SandboxFiles`).
    """

    id: str
    record: SandboxRecord
    limits: Limits
    files: SandboxFiles

    @property
    def end(self) -> EndReason | None:
        """Why it ended, None while it runs."""
        ...

    async def exec(self, command: ExecSpec) -> RunningCommand:
        """Start a command.

        Raises:
            CommandRefusedError: a field is wrong; nothing was started.
            SandboxEndedError: the sandbox is not running.
        """
        ...

    async def find_held(self) -> Sequence[Held]:
        """Find the held commands of an earlier server. For who adopted it, once."""
        ...

    async def ended(self) -> EndReason:
        """Wait until it has ended, for whatever reason, and say why."""
        ...

    async def stop(self, grace: float = 0.0) -> EndReason:
        """End it and remove everything. Twice is no error; the first reason stays.

        Args:
            grace: seconds its processes get between SIGTERM and SIGKILL.
        """
        ...

    async def signal(self, pid: int, number: _signal.Signals | int) -> bool:
        """Send a signal to a process inside, by its number there, or to all of them (-1).

        Returns whether there was one.
        """
        ...

    async def stats(self) -> Stats:
        """What it uses."""
        ...

    def set_egress(self, policy: EgressPolicy) -> None:
        """Put another policy in force at once; what was connected under the old one is cut."""
        ...

    async def listen(self, port: int) -> socket.socket:
        """Return a non-blocking socket that listens on the sandbox's own loopback.

        Raises:
            OSError: the port is taken there.
        """
        ...

    async def connect(self, port: int, *, timeout: float = 10.0) -> socket.socket:
        """Return a non-blocking socket connected to a port on the sandbox's own loopback.

        Raises:
            OSError: nothing listens there.
        """
        ...

    def touch(self) -> None:
        """Say that somebody uses it: the idle clock starts anew. Every call does that too."""
        ...


@dataclass(frozen=True, slots=True)
class RuntimeReport:
    """What a runtime can do on this machine.

    Attributes:
        name: of the runtime.
        usable: whether it can run here.
        isolates: whether its sandboxes are kept from the host and from each other.
        reason: why it is not usable, in one sentence.
        remedy: what would help.
        enforced: limit (``memory``, ``cpu``, ``processes``, ``disk``, ``network``, ``users``) to
            how it is enforced here, such as ``cgroup v1``; ``not enforced`` where it is not.
    """

    name: str
    usable: bool
    isolates: bool
    reason: str | None = None
    remedy: str | None = None
    enforced: Mapping[str, str] = field(default_factory=dict)


class Runtime(AbstractAsyncContextManager["Runtime"], Protocol):
    """Starts sandboxes. Entered once per server; leaving it lets go of running sandboxes without
    ending them, so that the next server can adopt them."""

    @property
    def name(self) -> str:
        """As in :attr:`SandboxRecord.runtime`."""
        ...

    async def probe(self) -> RuntimeReport:
        """Try it out, and say what holds here. Never raises for what it finds."""
        ...

    async def start(self, spec: SandboxSpec) -> RunningSandbox:
        """Start a sandbox; when this returns, commands can run in it.

        Raises:
            ImageUnknownError: the image is not in the catalogue.
            CommandRefusedError: a field of the spec is wrong.
            RuntimeUnavailableError: this machine cannot run sandboxes.
            SandboxStartError: it did not come up; nothing of it is left.
        """
        ...

    async def adopt(self, record: SandboxRecord) -> RunningSandbox | None:
        """Take over a sandbox that an earlier server started; None when it is gone, in which case
        what was left of it (folder, cgroups) has been removed."""
        ...

    async def __aenter__(self) -> Self: ...
