"""A running sandbox: what every runtime of ours that goes through the spawner has in common."""

from __future__ import annotations

import asyncio
import base64
import errno
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
from anyio import to_thread

from prime_async.server.logs import log_event
from prime_async.server.runtimes.cgroups import Cgroups, Group, Usage
from prime_async.server.runtimes.checks import check_command
from prime_async.server.runtimes.commands import Asks, Command, Pipes
from prime_async.server.runtimes.conversation import Answer, SpawnerError
from prime_async.server.runtimes.egress import EgressProxy
from prime_async.server.runtimes.egress_policy import EgressPolicy
from prime_async.server.runtimes.errors import (
    CommandRefusedError,
    SandboxEndedError,
    SandboxRuntimeError,
)
from prime_async.server.runtimes.family import Family
from prime_async.server.runtimes.files import SandboxFiles
from prime_async.server.runtimes.folders import remove_folder
from prime_async.server.runtimes.holders import Holders
from prime_async.server.runtimes.launchers import Launchers
from prime_async.server.runtimes.protocol import (
    Ending,
    EndReason,
    ExecSpec,
    Held,
    Limits,
    SandboxRecord,
    Stats,
)
from prime_async.server.runtimes.spawner.messages import Message
from prime_async.server.runtimes.spawner_client import SpawnerClient
from prime_async.server.runtimes.users import User

__all__ = ["Sandbox", "SandboxState"]

_GONE_SECONDS = 10.0
_LOOK_SECONDS = 0.05


@dataclass(slots=True)
class SandboxState:
    """What a sandbox is made of.

    Attributes:
        record: for whoever adopts it.
        limits: in force.
        environment: of every command; secrets among them.
        folder: on the host.
        deadline: when its time is over, seconds since the epoch.
        idle_seconds: it ends after so long without use.
        group: its control groups, if there are any.
        rlimits: of every command.
        working_dir: where commands start, unless they say otherwise.
    """

    record: SandboxRecord
    limits: Limits
    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    deadline: float | None
    idle_seconds: float | None
    group: Group | None
    rlimits: dict[str, int]
    working_dir: str


class Sandbox:
    """See :class:`prime_async.server.runtimes.protocol.RunningSandbox`.

    Subclasses say how its first process is ended and how users and signals are found inside.

    Args:
        end_strays: ends commands whose parent was killed: nobody could tell how they end.
    """

    def __init__(
        self,
        state: SandboxState,
        files: SandboxFiles,
        *,
        spawner: SpawnerClient,
        family: Family,
        cgroups: Cgroups | None,
        end_strays: Callable[[list[int]], None],
    ) -> None:
        self.id = state.record.id
        self.record = state.record
        self.limits = state.limits
        self.files = files
        self.state = state
        self.used_at = time.monotonic()
        self.disk_bytes = 0
        self.processes = 0
        self.commands: set[Command] = set()
        self._spawner = spawner
        self._family = family
        self._cgroups = cgroups
        self._launchers = Launchers(self._ask, {"rlimits": state.rlimits}, end_strays)
        self._holders = Holders(
            self._ask,
            {"rlimits": state.rlimits},
            state.folder / "meta",
            on_end=self._command_ended,
            on_strays=end_strays,
        )
        self._proxy: EgressProxy | None = None
        self._end: EndReason | None = None
        self._ended = asyncio.Event()
        self._gone = asyncio.Event()
        self._cleaned = False
        self._cleaning = anyio.Lock()
        self._pidfd = os.pidfd_open(state.record.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._first_process_ended)

    @property
    def end(self) -> EndReason | None:
        """Why it ended."""
        return self._end

    @property
    def active(self) -> bool:
        """Whether anything but its first process runs."""
        return bool(self.commands) or self.processes > 1

    @property
    def launchers(self) -> int:
        """How many processes of ours are among its own."""
        return self._launchers.count + self._holders.count

    def touch(self) -> None:
        """Somebody uses it."""
        self.used_at = time.monotonic()

    def room(self) -> int:
        """Bytes that may still be written."""
        return max(0, self.limits.disk_bytes - self.disk_bytes)

    async def serve_egress(self, proxy: EgressProxy, listening: socket.socket) -> None:
        """Let its processes out through this proxy."""
        self._proxy = proxy
        await proxy.start(listening)

    def set_egress(self, policy: EgressPolicy) -> None:
        """Put another policy in force."""
        if self._proxy is not None:
            self._proxy.set_policy(policy)

    async def exec(self, command: ExecSpec) -> Command:
        """Start a command."""
        self._require_running()
        self.touch()
        check_command(command)
        command = replace(command, argv=self.host_argv(command.argv))
        user = await self.find_user(command.user)
        if command.held is not None:
            return await self._hold(command, command.held, user)
        pipes = Pipes.for_command(command)
        try:
            if command.pty is None and not command.survives:
                return await self._launch(command, user, pipes)
            return await self._spawn(command, user, pipes)
        except SpawnerError as error:
            raise await self._explained(error, command) from error
        finally:
            pipes.close()

    async def _launch(self, command: ExecSpec, user: User, pipes: Pipes) -> Command:
        """Start it from where its user's commands start."""
        launcher = await self._launchers.of(user, self._environment(user))
        request = {
            "op": "exec",
            "argv": command.argv,
            "env": command.environment,
            "cwd": self._where(command),
        }
        answer = await launcher.ask(request, pipes.theirs)
        started = _command(launcher.ask, answer)
        started.take_pipes(pipes.ours)
        pipes.ours = []
        self.commands.add(started)
        launcher.add(started, self._command_ended)
        return started

    async def _hold(self, command: ExecSpec, label: bytes, user: User) -> Command:
        """Start it where it outlives this server."""
        request = {
            "argv": command.argv,
            "env": {**_terminal(command), **command.environment},
            "cwd": self._where(command),
            "stdin": command.stdin,
            "pty": [command.pty.cols, command.pty.rows] if command.pty else None,
            "label": base64.b64encode(label).decode(),
            "deadline": command.deadline,
        }
        try:
            started = await self._holders.exec(user, self._environment(user), request)
        except SpawnerError as error:
            raise await self._explained(error) from error
        self.commands.add(started)
        return started

    async def find_held(self) -> list[Held]:
        """Find what an earlier server started and a holder kept."""
        found = await self._holders.find()
        self.commands.update(command for _, _, command in found if command.running)
        return [Held(*held) for held in found]

    async def _spawn(self, command: ExecSpec, user: User, pipes: Pipes) -> Command:
        """Start it by itself: it opens a terminal in there, or outlives the server."""
        answer = await self._ask(self._request(command, user), pipes.theirs)
        started = _command(self._spawner.ask, answer, survives=command.survives)
        if answer.descriptors:
            started.take_terminal(answer.descriptors[0])
        else:
            started.take_pipes(pipes.ours)
            pipes.ours = []
        self.commands.add(started)
        self._family.add(started, self._command_ended)
        return started

    def _environment(self, user: User) -> dict[str, str]:
        return {**self.state.environment, **(user.environment() if user.uid else {})}

    def _where(self, command: ExecSpec) -> str:
        return self.host_path(command.working_dir or self.state.working_dir)

    def _request(self, command: ExecSpec, user: User) -> Message:
        return {
            "op": "exec",
            "argv": command.argv,
            "env": {**self._environment(user), **_terminal(command), **command.environment},
            "cwd": self._where(command),
            "uid": user.uid,
            "gid": user.gid,
            "groups": user.groups,
            "rlimits": self.state.rlimits,
            "pty": [command.pty.cols, command.pty.rows] if command.pty else None,
            "survives": command.survives,
        }

    async def _ask(self, request: Message, descriptors: Sequence[int] = ()) -> Answer:
        return await self._spawner.ask({**request, "sandbox": self.id}, descriptors)

    async def _explained(
        self, error: SpawnerError, command: ExecSpec | None = None
    ) -> SandboxRuntimeError:
        """What went wrong, in the words of who asked."""
        if error.stage in {"working_dir", "argv", "user", "pty"}:
            text = error.text or os.strerror(error.errno)
            if error.stage == "working_dir" and command is not None:
                text = f"{text}: {command.working_dir!r}"
            return CommandRefusedError(text, field=error.stage)
        # A sandbox that is ending says so a moment later.
        with anyio.move_on_after(0.5 if error.errno in {errno.ESRCH, errno.ECHILD} else 0):
            await self._ended.wait()
        if self._end is not None:
            return SandboxEndedError(self.id, self._end)
        return SandboxRuntimeError(f"the command was not started: {error.text} ({error.stage})")

    def _command_ended(self, command: Command) -> None:
        self.commands.discard(command)
        self.touch()
        if command.exit is None or command.exit.signal == signal.SIGKILL:
            self.check_memory()

    def check_memory(self) -> None:
        """End it if the kernel had to kill something of it for memory."""
        group = self.state.group
        if self._end is not None or group is None or self._cgroups is None:
            return
        # A read of the kernel's own files: it waits for nothing.
        if self._cgroups.out_of_memory(group):
            self.finish_for_memory()

    def finish_for_memory(self) -> None:
        """It needed more memory than it was given."""
        given = self.limits.memory_bytes >> 20
        self.finish(Ending.OOM_KILLED, f"its processes needed more than {given} MiB of memory")

    async def ended(self) -> EndReason:
        """Wait for its end."""
        await self._ended.wait()
        assert self._end is not None
        return self._end

    def finish(self, kind: Ending, message: str) -> None:
        """It ends now, for this reason; the first reason stays."""
        if self._end is not None:
            return
        self._end = EndReason(kind, message, time.time())
        log_event(logging.INFO, "sandbox_finished", sandbox=self.id, reason=kind.value)
        self.kill()
        self._ended.set()

    async def stop(self, grace: float = 0.0) -> EndReason:
        """End it and remove everything."""
        if self._end is None and grace > 0:
            await self._ask_to_end(grace)
        self.finish(Ending.STOPPED, "it was stopped")
        with anyio.CancelScope(shield=True):
            async with self._cleaning:
                if not self._cleaned:
                    await self._clean()
                    self._cleaned = True
        assert self._end is not None
        return self._end

    async def _ask_to_end(self, grace: float) -> None:
        with suppress(SandboxRuntimeError), anyio.move_on_after(grace):
            await self.signal(-1, signal.SIGTERM)
            while await to_thread.run_sync(self.count) > 1:  # noqa: ASYNC110  # nobody tells
                await anyio.sleep(_LOOK_SECONDS)

    async def settle(self) -> None:
        """Wait until its processes are gone; remove its groups, let go of the rest but the files.

        Safe to repeat: an end by itself does this at once, ``stop`` does it again.
        """
        with anyio.move_on_after(_GONE_SECONDS) as limit:
            await self._gone.wait()
        if limit.cancelled_caught:
            log_event(logging.ERROR, "sandbox_not_gone", sandbox=self.id, pid=self.record.pid)
        for command in list(self.commands):
            with anyio.move_on_after(_GONE_SECONDS), suppress(SandboxRuntimeError):
                await command.wait()
        self._launchers.close()
        self._holders.close()
        if self._proxy is not None:
            await self._proxy.aclose()
        if self.state.group is not None:
            await _remove_group(self.state.group)
        with suppress(SpawnerError):
            await self._ask({"op": "forget"})

    async def _clean(self) -> None:
        await self.settle()
        self.let_go()
        await to_thread.run_sync(remove_folder, self.state.folder)

    def let_go(self) -> None:
        """Close what this object holds open; the sandbox itself is not touched."""
        self.files.close()
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    async def leave(self) -> None:
        """The server ends: let go of a running sandbox, for the next one to adopt."""
        self._launchers.close()
        self._holders.close()
        if self._proxy is not None:
            await self._proxy.aclose()
        self.let_go()

    async def signal(self, pid: int, number: signal.Signals | int) -> bool:
        """Send a signal to a process inside."""
        self._require_running()
        if pid < -1 or pid in {0, 1}:
            raise CommandRefusedError("a process inside has a number above 1", field="pid")
        try:
            answer = await self._ask({"op": "inside", "pid": pid, "number": int(number)})
        except SpawnerError as error:
            raise await self._explained(error) from error
        return bool(answer.fields["answer"])

    async def stats(self) -> Stats:
        """What it uses."""
        usage = await to_thread.run_sync(self.measure)
        return Stats(
            memory_bytes=usage.memory_bytes,
            cpu_seconds=usage.cpu_seconds,
            processes=usage.processes,
            disk_bytes=self.disk_bytes,
            commands=len(self.commands),
        )

    async def listen(self, port: int) -> socket.socket:
        """Listen on its own loopback."""
        return await self._socket("listen", port)

    async def connect(self, port: int, *, timeout: float = 10.0) -> socket.socket:
        """Connect to a port on its own loopback."""
        made = await self._socket("connect", port)
        try:
            with anyio.fail_after(timeout):
                await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
        except BaseException:
            made.close()
            raise
        return made

    async def _socket(self, kind: str, port: int) -> socket.socket:
        self._require_running()
        self.touch()
        if not 1 <= port <= 65535:
            raise CommandRefusedError("a port is 1 to 65535", field="port")
        try:
            answer = await self._ask({"op": "socket", "kind": kind, "port": port})
        except SpawnerError as error:
            if error.stage == "helper":
                raise OSError(error.errno, error.text) from error
            raise await self._explained(error) from error
        made = socket.socket(fileno=answer.descriptors[0])
        made.setblocking(False)
        return made

    def _require_running(self) -> None:
        if self._end is not None:
            raise SandboxEndedError(self.id, self._end)

    def _first_process_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self.check_memory()
        deadline = self.state.deadline
        if deadline is not None and time.time() >= deadline:
            self.finish(Ending.TIMEOUT, "its time was over")
        self.finish(Ending.KILLED, "its first process was killed from outside")
        self._gone.set()

    def roots(self) -> list[int]:
        """Processes below which all of its processes are. Blocks."""
        raise NotImplementedError

    def glance(self) -> bool:
        """Count its processes, and say whether it ran out of memory, by its groups. Blocks."""
        group, groups = self.state.group, self._cgroups
        if group is None or groups is None:
            return False
        self.processes = groups.processes(group) - self.launchers
        return groups.out_of_memory(group) > 0

    def measure(self) -> Usage:
        """What it uses. Blocks."""
        raise NotImplementedError

    def count(self) -> int:
        """How many processes it has. Blocks."""
        return self.measure().processes

    def kill(self) -> None:
        """End all its processes."""
        raise NotImplementedError

    def host_path(self, path: str) -> str:
        """A path inside, as its commands have to be told."""
        return path

    def host_argv(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """A command line, as it has to be told."""
        return argv

    async def find_user(self, wanted: str | None) -> User:
        """Who a command runs as."""
        raise NotImplementedError


def _terminal(command: ExecSpec) -> dict[str, str]:
    return {"TERM": "xterm-256color"} if command.pty else {}


def _command(ask: Asks, answer: Answer, *, survives: bool = False) -> Command:
    fields = answer.fields
    return Command(ask, pid=fields["pid"], host_pid=fields["host_pid"], survives=survives)


async def _remove_group(group: Group) -> None:
    """A group is held by its last process until that is quite gone: a moment, or longer on a busy
    machine."""
    pause, waited = 0.002, 0.0
    while not await to_thread.run_sync(group.remove):
        if waited > _GONE_SECONDS:
            # The next server that starts here sweeps it up.
            log_event(logging.ERROR, "group_not_removed", folders=dict(group.folders))
            return
        await anyio.sleep(pause)
        waited += pause
        pause = min(2 * pause, 0.25)
