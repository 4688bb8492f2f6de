"""What runs between fork and exec: entering a sandbox and becoming a command in it.

Every function here runs in a child of the spawner. It tells what happened over the report channel:
``host_pid``, ``pid``, descriptors, or ``error`` with the ``stage`` it happened at. A report channel
that closes without an error means that the program runs.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import signal
import socket
import stat
import struct
import termios
from collections.abc import Callable
from typing import Any, NoReturn

from prime_async.server.runtimes.spawner import kernel
from prime_async.server.runtimes.spawner.messages import Message, send

__all__ = [
    "Report",
    "become_command",
    "become_keeper",
    "finish_namespaces",
    "join_cgroups",
    "make_socket",
    "open_terminal",
    "resize_terminal",
    "run_helper",
    "set_limits",
    "signal_inside",
    "take_terminal",
    "take_user",
]

_TIOCSPTLCK = 0x40045431
_TIOCGPTPEER = 0x5441
_PTMX = os.makedev(5, 2)
_LISTEN_BACKLOG = 128
_HIGH = 256
_TOUCHED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What Python, or the spawner, ignores or handles, and a program expects to find as usual."""


class Report:
    """The way back to the spawner, and which step this child is at."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self.stage = "enter"

    def say(self, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        """Tell something."""
        send(self._channel, message, descriptors)

    def fail(self, error: BaseException) -> None:
        """Tell why this child gives up."""
        number = error.errno if isinstance(error, OSError) else errno.EINVAL
        text = (error.strerror if isinstance(error, OSError) else None) or str(error)
        with contextlib.suppress(OSError):  # Nobody listens any more: there is nothing to do.
            self.say({"error": number or errno.EIO, "stage": self.stage, "text": text})

    def close(self) -> None:
        """Nothing more comes: all went well."""
        self._channel.close()

    def close_others(self) -> None:
        """Close what lies above the descriptors that :meth:`arrange` put in their places.

        Only a child that goes on without exec has to: it would hold other children's channels open.
        """
        own = self._channel.fileno()
        os.closerange(_HIGH, own)
        os.closerange(own + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1])

    def arrange(self, wanted: list[int]) -> None:
        """Put descriptors at 0, 1, 2 …, close all others, and undo what Python did to signals."""
        high = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _HIGH) for number in wanted]
        channel = fcntl.fcntl(self._channel.detach(), fcntl.F_DUPFD_CLOEXEC, _HIGH)
        self._channel = socket.socket(fileno=channel)
        os.closerange(0, _HIGH)
        for target, number in enumerate(high):
            os.dup2(number, target, inheritable=True)
        for number in _TOUCHED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


def join_cgroups(paths: list[str]) -> None:
    """Move this process into cgroups; what it forks is in them too."""
    for path in paths:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"0")
        finally:
            os.close(descriptor)


def become_keeper(
    report: Report, argv: list[str], handed: list[int], cgroups: list[str]
) -> NoReturn:
    """Become what holds a sandbox open: a program in a session of its own.

    Args:
        handed: descriptors that the program finds at 2, 3 and so on.
    """
    try:
        report.stage = "cgroup"
        join_cgroups(cgroups)
        os.setsid()
        # Ignored all the way to the sandbox's first process: what ends there is never a zombie.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        report.stage = "keeper"
        report.arrange([null, null, *handed])
        os.execve(argv[0], argv, {})  # noqa: S606  # the point of it
    except BaseException as error:
        report.fail(error)
    finally:
        os._exit(127)


def become_command(
    report: Report, request: Message, stdio: list[int], pidfd: int, cgroups: list[str]
) -> NoReturn:
    """Enter the sandbox, fork once more (only that child is inside), and run the program."""
    try:
        join_cgroups(cgroups)
        if pidfd >= 0:
            kernel.setns(pidfd, kernel.CLONE_NEWALL)
        child = os.fork()
        if child:
            report.say({"host_pid": child})
            os._exit(0)
        _become(report, request, stdio, isolated=pidfd >= 0)
    except BaseException as error:
        report.fail(error)
    finally:
        os._exit(127)


def _become(report: Report, request: Message, stdio: list[int], *, isolated: bool) -> None:
    os.setsid()
    if isolated:
        report.stage = "user"
        take_user(request)
    if request["pty"] is not None:
        report.stage = "pty"
        stdio = _open_own_terminal(report, request["pty"], isolated=isolated)
    report.say({"pid": os.getpid()})
    report.stage = "working_dir"
    os.chdir(request["cwd"])
    report.stage = "limits"
    set_limits(request["rlimits"])
    if isolated:
        kernel.drop_capabilities()
    kernel.no_new_privileges()
    report.stage = "argv"
    report.arrange(stdio)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.execvpe(request["argv"][0], request["argv"], request["env"])  # noqa: S606  # the point of it


def take_user(request: Message) -> None:
    """Become the user of a command, without a way back."""
    # Before the user: only who has capabilities may give away the right to have them.
    kernel.drop_bounding_set()
    if request["groups"] is not None:
        os.setgroups(request["groups"])
    os.setresgid(request["gid"], request["gid"], request["gid"])
    os.setresuid(request["uid"], request["uid"], request["uid"])
    # Changing the user made this copy of the spawner's memory readable for that user again.
    kernel.hide_memory()


def set_limits(limits: dict[str, int]) -> None:
    """Limit this process and what it starts, at most as far as it is limited itself."""
    for name, value in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        wanted = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (wanted, wanted))


def open_terminal(size: list[int], *, isolated: bool) -> tuple[int, int]:
    """Open a terminal of the sandbox's own devpts; return our end, and that of a command.

    Args:
        size: columns and rows.
    """
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(master)
        # The sandbox may have put something else at that path; without capabilities it cannot make
        # a device.
        if isolated and not (stat.S_ISCHR(found.st_mode) and found.st_rdev == _PTMX):
            raise OSError(errno.ENODEV, "/dev/ptmx is not a terminal multiplexer")
        fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
        slave: int = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        resize_terminal(slave, *size)
    except BaseException:
        os.close(master)
        raise
    return master, slave


def resize_terminal(descriptor: int, cols: int, rows: int) -> None:
    """Give a terminal another size."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def take_terminal(slave: int) -> None:
    """Make a terminal that of this session."""
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)


def _open_own_terminal(report: Report, size: list[int], *, isolated: bool) -> list[int]:
    """Open a terminal, make it ours, and give the other end away."""
    master, slave = open_terminal(size, isolated=isolated)
    take_terminal(slave)
    report.say({"pty": True}, (master,))
    os.close(master)
    return [slave, slave, slave]


def run_helper(report: Report, work: Callable[[], tuple[Any, tuple[int, ...]]]) -> NoReturn:
    """Do one thing in this child and report what it gave."""
    try:
        answer, descriptors = work()
        report.say({"answer": answer}, descriptors)
    except BaseException as error:
        report.fail(error)
    finally:
        os._exit(0)


def make_socket(pidfd: int, kind: str, port: int) -> tuple[Any, tuple[int, ...]]:
    """Make a socket in the sandbox's network and give it away."""
    if pidfd >= 0:
        kernel.setns(pidfd, kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET)
    return True, (_make_socket(kind, port),)


def _make_socket(kind: str, port: int) -> int:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setblocking(False)
    if kind == "listen":
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
        made.listen(_LISTEN_BACKLOG)
    return made.detach()


def signal_inside(report: Report, pidfd: int, pid: int, number: int) -> NoReturn:
    """Send a signal by a number of the sandbox's own; -1 is everything but its first process."""
    try:
        kernel.setns(pidfd, kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID)
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            os._exit(0)
        os.kill(pid, number)
        report.say({"answer": True})
    except ProcessLookupError:
        report.say({"answer": False})
    except BaseException as error:
        report.fail(error)
    finally:
        os._exit(0)


def finish_namespaces(
    wait: Callable[[int, int], None], pid: int, pidfd: int, port: int
) -> tuple[Any, tuple[int, ...]]:
    """Wait for the first process; forbid further user namespaces, and with them capabilities; open
    the proxy's socket. Nothing of the user's runs before this is done."""
    wait(pid, pidfd)
    kernel.setns(pidfd, kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET)
    descriptor = os.open("/proc/sys/user/max_user_namespaces", os.O_WRONLY | os.O_CLOEXEC)
    os.write(descriptor, b"0")
    os.close(descriptor)
    return True, (_make_socket("listen", port),)
