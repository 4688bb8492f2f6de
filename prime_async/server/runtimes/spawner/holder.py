"""A holder: the process that keeps one user's sessions in one sandbox, whatever becomes of servers.

It is what a launcher is, but it outlives the server: it holds the pipes and terminals of its
commands, a window of what they wrote, and how they ended, and listens on a socket for the next
server. It ends with the sandbox, or when there is neither a session nor a server.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from prime_async.server.runtimes.spawner import sessions
from prime_async.server.runtimes.spawner.children import (
    Report,
    open_terminal,
    resize_terminal,
    take_terminal,
)
from prime_async.server.runtimes.spawner.intake import Intake
from prime_async.server.runtimes.spawner.launcher import (
    PROC,
    enter,
    number_inside,
    start_failure,
)
from prime_async.server.runtimes.spawner.loop import Loop
from prime_async.server.runtimes.spawner.messages import Message, end_event, failure_answer
from prime_async.server.runtimes.spawner.window import Window

__all__ = ["become_holder"]

RETAINED_SECONDS = 600.0
"""How long the end of a command is kept while there is no server."""

_LISTENER, _KEEPER = PROC + 1, PROC + 2
_FIRST_SECONDS = 30.0
"""How long the server that asked for this process may take to call."""

_LAST_SECONDS = 5.0
"""How long the commands of a sandbox that ended may take to be gone."""


def become_holder(
    report: Report,
    request: Message,
    handed: list[int],
    pidfd: int,
    cgroups: list[str],
) -> NoReturn:
    """Enter a sandbox and hold sessions until there is no need of it.

    Args:
        request: user, limits and environment of all its commands.
        handed: the listening socket, and the pidfd of the sandbox's first process.
        pidfd: the same, to enter by; -1 where there is nothing to enter.
    """
    try:
        enter(report, request, pidfd, cgroups, handed)
        _Holder(request["env"], isolated=pidfd >= 0).serve()
    except BaseException as error:
        report.fail(error)
    finally:
        os._exit(0)


@dataclass(slots=True)
class _Held:
    """One command.

    Attributes:
        label: what the server wants to know of it again.
        deadline: when its time is over, by the system's monotonic clock; None for never.
        terminal: our end of its terminal, or -1.
        ended: message that says how it ended, None while it runs.
        ended_at: when, by the same clock.
        abandoned: who asked for it was gone before it ran; nobody will ask for its end.
    """

    popen: subprocess.Popen[bytes]
    pid: int
    label: str
    deadline: float | None
    terminal: int
    intake: Intake
    outputs: list[Window]
    ended: Message | None = None
    ended_at: float = 0.0
    abandoned: bool = False

    def told(self) -> Message:
        """What a server is told of it."""
        return {
            "host_pid": self.popen.pid,
            "pid": self.pid,
            "label": self.label,
            "deadline": self.deadline,
            "pty": self.terminal >= 0,
            "ended": self.ended,
        }


@dataclass(slots=True)
class _Streams:
    """Our ends of a command's streams, and its own."""

    ours: list[int] = field(default_factory=list)
    theirs: list[int] = field(default_factory=list)

    def open(self, *, stdin: bool) -> None:
        """Make pipes; without input it reads an empty one."""
        if stdin:
            theirs, ours = os.pipe2(os.O_CLOEXEC)
        else:
            theirs, ours = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), -1
        self.ours.append(ours)
        self.theirs.append(theirs)
        for _ in range(2):
            ours, theirs = os.pipe2(os.O_CLOEXEC)
            self.ours.append(ours)
            self.theirs.append(theirs)

    def open_terminal(self, size: list[int], *, isolated: bool) -> None:
        """Make a terminal."""
        master, slave = open_terminal(size, isolated=isolated)
        self.theirs.append(slave)
        # One descriptor each: the loop watches a descriptor for one purpose only.
        self.ours += [os.dup(master), master]

    def close_theirs(self) -> None:
        """The command has them."""
        while self.theirs:
            os.close(self.theirs.pop())

    def close(self) -> None:
        """It was not started."""
        self.close_theirs()
        for number in self.ours:
            if number >= 0:
                os.close(number)


class _Holder:
    """The sessions of this process.

    Args:
        environment: of every command, unless it says otherwise.
    """

    def __init__(self, environment: dict[str, str], *, isolated: bool) -> None:
        self._environment = environment
        self._isolated = isolated
        self._listener: socket.socket | None = socket.socket(fileno=_LISTENER)
        self._listener.setblocking(False)
        self._loop = Loop(None, self._handle)
        self._loop.on_exit = self._on_exit
        self._loop.on_lost = self._alone
        self._held: dict[int, _Held] = {}
        self._left: set[Window] = set()
        self._over = False

    def serve(self) -> None:
        """Serve one server after the other, until nothing is left to hold."""
        self._loop.watch(_LISTENER, self._accept)
        self._loop.watch(_KEEPER, lambda _: self._sandbox_ended())
        self._loop.later(_FIRST_SECONDS, self._alone)
        self._loop.run()

    def _accept(self, _: int) -> None:
        if self._listener is None:
            return
        try:
            channel, _address = self._listener.accept()
        except OSError:
            return
        channel.setblocking(True)
        self._loop.talk(channel)

    def _alone(self) -> None:
        """There is no server, for now: let go of what no later one will ask for."""
        if self._loop.connected:
            return
        now = time.monotonic()
        for pid, held in list(self._held.items()):
            if held.ended is not None and held.ended_at + RETAINED_SECONDS <= now:
                self._forget(pid)
        if not self._held and not self._left:
            self._loop.stop()

    def _sandbox_ended(self) -> None:
        """Nothing in it can run any more: hear how its commands ended, and go."""
        if self._over:
            return
        self._over = True
        self._loop.unwatch(_KEEPER)
        if self._listener is not None:
            self._loop.unwatch(_LISTENER)
            self._listener.close()
            self._listener = None
        for pid, held in self._held.items():
            if held.ended is None:
                sessions.kill_session(pid, proc=PROC)
        self._loop.later(_LAST_SECONDS, self._loop.stop)
        self._stop_if_over()

    def _stop_if_over(self) -> None:
        if self._over and all(held.ended is not None for held in self._held.values()):
            self._loop.stop()

    def _on_exit(self, pid: int, status: int) -> None:
        held = self._held.get(pid)
        if held is None:
            return
        held.popen.returncode = status  # Collected: there is nothing to wait for any more.
        held.ended = end_event(pid, status)
        held.ended_at = time.monotonic()
        held.intake.close()
        for output in held.outputs:
            output.ended()
        self._loop.say(held.ended)
        self._loop.later(RETAINED_SECONDS + 1, self._alone)
        if held.abandoned:
            self._forget(pid)
        self._stop_if_over()

    def _handle(self, message: Message, descriptors: list[int]) -> None:
        operation = getattr(self, f"_do_{message['op']}", None)
        try:
            if operation is None:
                raise OSError(errno.ENOSYS, f"unknown operation {message['op']}")
            operation(message, descriptors)
        except KeyError as error:
            self._fail(message, errno.ESRCH, f"unknown: {error}")
        except OSError as error:
            self._fail(message, error.errno or errno.EIO, error.strerror or str(error))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _answer(self, request: Message, **fields: Any) -> None:
        self._loop.say({"id": request["id"], "ok": True, **fields})

    def _fail(self, request: Message, number: int, text: str) -> None:
        self._loop.say({"id": request["id"], **failure_answer(number, "holder", text)})

    def _do_list(self, request: Message, _: list[int]) -> None:
        self._answer(request, held=[held.told() for held in self._held.values()])

    def _do_exec(self, request: Message, _: list[int]) -> None:
        streams = _Streams()
        failure = self._open(request, streams)
        if failure is None:
            try:
                started = self._start(request, streams.theirs)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                failure = start_failure(error, request["cwd"])
        if failure is not None:
            streams.close()
            self._loop.say({"id": request["id"], **failure})
            return
        streams.close_theirs()
        held = self._hold(started, request, streams.ours)
        self._held[started.pid] = held
        self._answer(request, pid=held.pid, host_pid=started.pid)

    def _open(self, request: Message, streams: _Streams) -> Message | None:
        """Make the streams of a command; return what went wrong, if something did."""
        size = request["pty"]
        try:
            if size is None:
                streams.open(stdin=request["stdin"])
            else:
                streams.open_terminal(size, isolated=self._isolated)
        except OSError as error:
            text = error.strerror or str(error)
            return failure_answer(error.errno or errno.EIO, "pty" if size else "enter", text)
        return None

    def _start(self, request: Message, theirs: list[int]) -> subprocess.Popen[bytes]:
        terminal = request["pty"] is not None
        stdin, stdout, stderr = theirs * 3 if terminal else theirs
        return subprocess.Popen(  # noqa: S603  # the point of it
            request["argv"],
            env={**self._environment, **request["env"]},
            cwd=request["cwd"],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            close_fds=False,
            start_new_session=True,
            # One thread, and nothing but a system call: what makes this dangerous is not here.
            preexec_fn=partial(take_terminal, 0) if terminal else None,
        )

    def _hold(self, started: subprocess.Popen[bytes], request: Message, ours: list[int]) -> _Held:
        terminal = request["pty"] is not None
        outputs = [
            Window(self._loop, number, terminal=terminal, on_closed=self._tidy)
            for number in (*ours[1:], *([-1] if terminal else []))
        ]
        return _Held(
            popen=started,
            pid=number_inside(started.pid),
            label=request["label"],
            deadline=request["deadline"],
            terminal=os.dup(ours[1]) if terminal else -1,
            intake=Intake(self._loop, ours[0], terminal=terminal),
            outputs=outputs,
        )

    def _do_follow(self, request: Message, descriptors: list[int]) -> None:
        output = self._held[request["host_pid"]].outputs[request["stream"]]
        self._answer(request, at=output.follow(descriptors.pop(), request["at"]))

    def _do_rest(self, request: Message, _: list[int]) -> None:
        held = self._held.get(request["host_pid"])
        if held is not None:
            held.outputs[request["stream"]].rest(request["at"])

    def _do_write(self, request: Message, descriptors: list[int]) -> None:
        intake = self._held[request["host_pid"]].intake
        done = partial(self._written, request)
        intake.write(request["key"], descriptors.pop(), request["size"], done)

    def _do_finish(self, request: Message, _: list[int]) -> None:
        self._held[request["host_pid"]].intake.finish(partial(self._written, request))

    def _written(self, request: Message, written: bool) -> None:
        if written:
            self._answer(request)
        else:
            self._fail(request, errno.EPIPE, "the command reads no input any more")

    def _do_resize(self, request: Message, _: list[int]) -> None:
        held = self._held[request["host_pid"]]
        if held.ended is None:
            resize_terminal(held.terminal, *request["size"])
        self._answer(request)

    def _do_signal(self, request: Message, _: list[int]) -> None:
        pid, number = request["host_pid"], request["number"]
        held = self._held.get(pid)
        # As long as its end is not known it was not collected, so the number is still its own.
        running = held is not None and held.ended is None
        if running and request["session"]:
            sessions.kill_session(pid, number, proc=PROC)
        elif running:
            sessions.signal_group(pid, number)
        if held is not None and request.get("abandoned"):
            held.abandoned = True
            if held.ended is not None:
                self._forget(pid)
        self._answer(request, sent=running)

    def _do_forget(self, request: Message, _: list[int]) -> None:
        self._forget(request["host_pid"])

    def _forget(self, pid: int) -> None:
        held = self._held.pop(pid, None)
        if held is None:
            return
        held.intake.close()
        if held.terminal >= 0:
            os.close(held.terminal)
        for output in held.outputs:
            output.leave()
            if output.open:
                self._left.add(output)

    def _tidy(self) -> None:
        """An output nobody reads was kept open for those that still wrote to it."""
        self._left = {output for output in self._left if output.open}
        self._alone()
