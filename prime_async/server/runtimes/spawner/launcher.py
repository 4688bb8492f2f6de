"""A launcher: the process that starts one user's commands in one sandbox.

Entering a sandbox (control groups, namespaces, giving up rights) costs milliseconds. A launcher
enters once and stays while it is needed; from there a command is one `vfork` and one `exec`, and
inherits all the rest. It talks to the server itself.

It is not in the sandbox's pid namespace, so that nothing inside can see, signal or trace it, and it
has no more rights than a command. It imports nothing after entering: what lies at the paths of its
modules in there is the sandbox's.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from typing import Any, NoReturn

from prime_async.server.runtimes.spawner import kernel, sessions
from prime_async.server.runtimes.spawner.children import Report, join_cgroups, set_limits, take_user
from prime_async.server.runtimes.spawner.loop import Loop
from prime_async.server.runtimes.spawner.messages import Message, end_event, failure_answer

__all__ = ["PROC", "become_launcher", "enter", "number_inside", "start_failure"]

_STATUS_BYTES = 2048
PROC = 3
"""Where a process that entered keeps the host's `/proc`, above what commands are given; what it was
handed follows."""

_CHANNEL = 4


def become_launcher(
    report: Report, request: Message, channel: int, pidfd: int, cgroups: list[str]
) -> NoReturn:
    """Enter a sandbox and start its commands until the server closes the channel.

    Args:
        request: user, limits and environment of all its commands.
        pidfd: of the sandbox's first process; -1 where there is nothing to enter.
    """
    try:
        enter(report, request, pidfd, cgroups, [channel])
        _Launcher(request["env"]).serve()
    except BaseException as error:
        report.fail(error)
    finally:
        os._exit(0)


def enter(
    report: Report, request: Message, pidfd: int, cgroups: list[str], handed: list[int]
) -> None:
    """Enter a sandbox for good, as one of its users, and say so.

    Args:
        request: user and limits.
        pidfd: of the sandbox's first process; -1 where there is nothing to enter.
        handed: further descriptors to keep; they are found from ``PROC + 1`` on.
    """
    # The host's: it shows the numbers that signals are sent by.
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    join_cgroups(cgroups)
    isolated = pidfd >= 0
    if isolated:
        kernel.setns(pidfd, kernel.CLONE_NEWALL)
    os.setsid()
    if isolated:
        report.stage = "user"
        take_user(request)
    report.stage = "limits"
    set_limits(request["rlimits"])
    if isolated:
        kernel.drop_capabilities()
    kernel.no_new_privileges()
    _forget_imports()
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    kept = [proc, *handed]
    report.arrange([null, null, null, *kept])
    for number in range(PROC, PROC + len(kept)):
        os.set_inheritable(number, False)
    report.close_others()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    report.say({"answer": True})
    report.close()


def _forget_imports() -> None:
    sys.path.clear()
    sys.meta_path.clear()
    sys.path_hooks.clear()


class _Launcher:
    """The commands of this process.

    Args:
        environment: of every command, unless it says otherwise.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._loop = Loop(socket.socket(fileno=_CHANNEL), self._handle)
        self._loop.on_exit = self._on_exit
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def serve(self) -> None:
        """Serve until the server is gone; then end what only it could have listened to."""
        self._loop.run()
        for pid in self._running:
            sessions.kill_session(pid, proc=PROC)

    def _handle(self, message: Message, descriptors: list[int]) -> None:
        try:
            if message["op"] == "exec":
                self._exec(message, descriptors)
            elif message["op"] == "signal":
                self._answer(message, sent=self._signal(message))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _answer(self, request: Message, **fields: Any) -> None:
        self._loop.say({"id": request["id"], "ok": True, **fields})

    def _exec(self, request: Message, stdio: list[int]) -> None:
        where: str = request["cwd"]
        try:
            # vfork and exec: nothing is copied, and the sandbox sees nothing of this process.
            started = subprocess.Popen(  # noqa: S603  # the point of it
                request["argv"],
                env={**self._environment, **request["env"]},
                cwd=where,
                stdin=stdio[0],
                stdout=stdio[1],
                stderr=stdio[2],
                close_fds=False,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._loop.say({"id": request["id"], **start_failure(error, where)})
            return
        self._running[started.pid] = started
        self._answer(request, pid=number_inside(started.pid), host_pid=started.pid)

    def _signal(self, request: Message) -> bool:
        pid, number = request["host_pid"], request["number"]
        # As long as it is in the table it was not collected, so the number is still its own.
        if pid not in self._running:
            return False
        if request["session"]:
            sessions.kill_session(pid, number, proc=PROC)
        else:
            sessions.signal_group(pid, number)
        return True

    def _on_exit(self, pid: int, status: int) -> None:
        started = self._running.pop(pid, None)
        if started is not None:
            started.returncode = status  # Collected: its object has nothing to wait for any more.
            self._loop.say(end_event(pid, status))


def start_failure(error: OSError | ValueError | subprocess.SubprocessError, where: str) -> Message:
    """Tell which step it was: `subprocess` names the file it failed at."""
    if not isinstance(error, OSError):
        return failure_answer(errno.EINVAL, "argv", str(error))
    number = error.errno or errno.EIO
    text = error.strerror or str(error)
    if error.filename is where:
        return failure_answer(number, "working_dir", text)
    if error.filename is not None:
        return failure_answer(number, "argv", text)
    # A pid namespace whose first process has ended takes no new ones, and says so in these words.
    return failure_answer(errno.ECHILD if number == errno.ENOMEM else number, "enter", text)


def number_inside(pid: int) -> int:
    """What a process is called in its own pid namespace."""
    descriptor = os.open(f"{pid}/status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=PROC)
    try:
        status = os.read(descriptor, _STATUS_BYTES)
    finally:
        os.close(descriptor)
    numbers = status.partition(b"\nNSpid:")[2].partition(b"\n")[0].split()
    return int(numbers[-1]) if numbers else pid
