"""What the spawner does for each request."""

from __future__ import annotations

import errno
import os
import resource
import socket
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from prime_async.server.runtimes.spawner import children, sessions
from prime_async.server.runtimes.spawner.holder import become_holder
from prime_async.server.runtimes.spawner.keepers import Birth, start_time
from prime_async.server.runtimes.spawner.launcher import become_launcher
from prime_async.server.runtimes.spawner.loop import Loop, Pending
from prime_async.server.runtimes.spawner.messages import (
    VERSION,
    Message,
    end_event,
    failure_answer,
)
from prime_async.server.runtimes.spawner.privileges import take_place

__all__ = ["Service"]


@dataclass(slots=True)
class _Keeper:
    """A sandbox as the spawner knows it."""

    pid: int
    pidfd: int
    isolated: bool
    cgroups: list[str] = field(default_factory=list)

    @property
    def entry(self) -> int:
        """What to enter it by; -1 where there is nothing to enter."""
        return self.pidfd if self.isolated else -1


@dataclass(slots=True)
class _Command:
    """A command that was asked for."""

    sandbox: str
    survives: bool
    host_pid: int = 0
    status: int | None = None
    answered: bool = False


class Service:
    """The table of sandboxes and commands, and the requests on them.

    Args:
        channel: to the server.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._loop = Loop(channel, self._handle)
        self._loop.on_exit = self._on_exit
        self._keepers: dict[str, _Keeper] = {}
        self._commands: dict[int, _Command] = {}
        self._births: dict[int, Birth] = {}
        self._early: dict[int, int] = {}
        self._unplaced = 0

    def run(self) -> None:
        """Serve until the server is gone; then end what only it could have listened to."""
        self._loop.run()
        for command in self._commands.values():
            if not command.survives:
                sessions.kill_session(command.host_pid)

    def _handle(self, message: Message, descriptors: list[int]) -> None:
        operation = getattr(self, f"_do_{message['op']}", None)
        try:
            if operation is None:
                raise OSError(errno.ENOSYS, f"unknown operation {message['op']}")
            operation(message, descriptors)
        except KeyError as error:
            self._fail(message, OSError(errno.ESRCH, f"unknown: {error}"))
        except OSError as error:
            self._fail(message, error)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _answer(self, request: Message, descriptors: tuple[int, ...] = (), **fields: Any) -> None:
        self._loop.say({"id": request["id"], "ok": True, **fields}, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def _fail(self, request: Message, error: OSError, stage: str = "spawner") -> None:
        text = error.strerror or str(error)
        self._loop.say(
            {"id": request["id"], **failure_answer(error.errno or errno.EIO, stage, text)}
        )

    def _do_hello(self, request: Message, _: list[int]) -> None:
        if request["version"] == VERSION:
            take_place(request["uid"], request["gid"], request["binds"])
        self._answer(request, pid=os.getpid(), version=VERSION)

    def _do_start(self, request: Message, _: list[int]) -> None:
        birth = Birth(self._loop, request, partial(self._born, request))
        self._births[request["id"]] = birth
        birth.begin()

    def _do_mapped(self, request: Message, _: list[int]) -> None:
        birth = self._births.get(request["of"])
        if birth is not None:
            birth.mapped()

    def _do_abort(self, request: Message, _: list[int]) -> None:
        birth = self._births.get(request["of"])
        if birth is not None:
            birth.abort()

    def _born(
        self,
        request: Message,
        pid: int,
        pidfd: int,
        descriptors: list[int],
        error: Message | None,
    ) -> None:
        del self._births[request["id"]]
        if error is not None:
            self._loop.say({"id": request["id"], **error})
            return
        self._keep(request, _Keeper(pid, pidfd, True, request["cgroups"]))
        self._answer(request, tuple(descriptors), pid=pid, start_time=start_time(pid))

    def _do_launch(self, request: Message, _: list[int]) -> None:
        pending = Pending(self._loop, partial(self._launched, request))
        argv = ["/bin/sleep", request["life"]]
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        pid = pending.fork(
            lambda report: children.become_keeper(report, argv, [null], request["cgroups"])
        )
        os.close(null)
        self._add(request, pid, isolated=False)

    def _launched(self, request: Message, said: Message, _: list[int]) -> None:
        keeper = self._keepers[request["sandbox"]]
        if "error" in said:
            self._forget(request["sandbox"])
            self._loop.say({"id": request["id"], **_failure(said)})
            return
        self._answer(request, pid=keeper.pid, start_time=start_time(keeper.pid))

    def _do_adopt(self, request: Message, _: list[int]) -> None:
        pid = request["pid"]
        try:
            self._add(request, pid, isolated=request["isolated"])
        except ProcessLookupError:
            self._answer(request, alive=False)
            return
        # Looked at only now: the descriptor holds on to whoever has the number.
        alive = start_time(pid) == request["start_time"]
        if not alive:
            self._forget(request["sandbox"])
        self._answer(request, alive=alive)

    def _add(self, request: Message, pid: int, *, isolated: bool) -> _Keeper:
        keeper = _Keeper(pid, os.pidfd_open(pid), isolated, request["cgroups"])
        self._keep(request, keeper)
        return keeper

    def _keep(self, request: Message, keeper: _Keeper) -> None:
        self._forget(request["sandbox"])
        self._keepers[request["sandbox"]] = keeper

    def _do_forget(self, request: Message, _: list[int]) -> None:
        self._forget(request["sandbox"])
        self._answer(request)

    def _forget(self, sandbox: str) -> None:
        keeper = self._keepers.pop(sandbox, None)
        if keeper is not None:
            os.close(keeper.pidfd)

    def _do_exec(self, request: Message, descriptors: list[int]) -> None:
        keeper = self._keepers[request["sandbox"]]
        command = _Command(request["sandbox"], request["survives"])
        pending = Pending(self._loop, partial(self._executed, request, command))
        self._unplaced += 1
        try:
            pending.fork(
                lambda report: children.become_command(
                    report, request, descriptors, keeper.entry, keeper.cgroups
                )
            )
        except OSError:
            self._unplaced -= 1
            raise

    def _executed(
        self, request: Message, command: _Command, said: Message, descriptors: list[int]
    ) -> None:
        self._unplaced -= 1
        command.host_pid = said.get("host_pid", 0)
        status = self._early.pop(command.host_pid, None)
        if self._unplaced == 0:
            self._early.clear()
        if "error" in said or "pid" not in said:
            for descriptor in descriptors:
                os.close(descriptor)
            self._loop.say({"id": request["id"], **_failure(said)})
            return
        self._answer(request, tuple(descriptors), pid=said["pid"], host_pid=command.host_pid)
        if status is None:
            self._commands[command.host_pid] = command
        else:
            self._loop.say(end_event(command.host_pid, status))

    def _on_exit(self, pid: int, status: int) -> None:
        if self._commands.pop(pid, None) is not None:
            self._loop.say(end_event(pid, status))
        elif self._unplaced:
            # It may be a command that ended before its start was reported.
            self._early[pid] = status

    def _do_signal(self, request: Message, _: list[int]) -> None:
        pid, number = request["host_pid"], request["number"]
        running = pid in self._commands
        # As long as it is in the table it was not collected, so the number is still its own.
        if running and request["session"]:
            sessions.kill_session(pid, number)
        elif running:
            sessions.signal_group(pid, number)
        self._answer(request, sent=running)

    def _do_inside(self, request: Message, _: list[int]) -> None:
        keeper = self._keepers[request["sandbox"]]
        pending = Pending(self._loop, partial(self._helped, request))
        pending.fork(
            lambda report: children.signal_inside(
                report, keeper.pidfd, request["pid"], request["number"]
            )
        )

    def _do_launcher(self, request: Message, descriptors: list[int]) -> None:
        keeper = self._keepers[request["sandbox"]]
        pending = Pending(self._loop, partial(self._helped, request))
        pending.fork(
            lambda report: become_launcher(
                report, request, descriptors[0], keeper.entry, keeper.cgroups
            )
        )

    def _do_holder(self, request: Message, descriptors: list[int]) -> None:
        keeper = self._keepers[request["sandbox"]]
        pending = Pending(self._loop, partial(self._helped, request))
        handed = [descriptors[0], keeper.pidfd]
        pending.fork(
            lambda report: become_holder(report, request, handed, keeper.entry, keeper.cgroups)
        )

    def _do_socket(self, request: Message, _: list[int]) -> None:
        entry = self._keepers[request["sandbox"]].entry
        pending = Pending(self._loop, partial(self._helped, request))
        pending.fork(
            lambda report: children.run_helper(
                report, lambda: children.make_socket(entry, request["kind"], request["port"])
            )
        )

    def _helped(self, request: Message, said: Message, descriptors: list[int]) -> None:
        if "answer" in said:
            self._answer(request, tuple(descriptors), answer=said["answer"])
        else:
            self._loop.say({"id": request["id"], **_failure(said)})

    def _do_stats(self, request: Message, _: list[int]) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._answer(
            request,
            keepers=len(self._keepers),
            commands=len(self._commands),
            rss=usage.ru_maxrss * 1024,
        )


def _failure(said: Message) -> Message:
    """What a child said about its failure; a child that was killed says nothing."""
    return failure_answer(
        said.get("error", errno.ECHILD),
        said.get("stage", "enter"),
        said.get("text", "it was killed before it could begin"),
    )
