"""The spawner's loop: requests in, children watched, answers and ends out. One thread, no waiting.

Between two processes there is no time to lose: every request is taken up at once, and what has to
be waited for (a keeper coming up, a child on its way to exec) is a :class:`Pending` whose
descriptors are polled together with the server's channel.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import NoReturn

from prime_async.server.runtimes.spawner.children import Report
from prime_async.server.runtimes.spawner.messages import Message, receive, send

__all__ = ["Loop", "Pending"]

Watcher = Callable[[], None]


class Loop:
    """Watches descriptors and children.

    Args:
        channel: to the server.
        handle: called with every message and its descriptors.
    """

    def __init__(
        self, channel: socket.socket, handle: Callable[[Message, list[int]], None]
    ) -> None:
        self._channel = channel
        self._handle = handle
        self._poll = select.poll()
        self._watchers: dict[int, Watcher] = {}
        self.on_exit: Callable[[int, int], None] = lambda pid, status: None

    def watch(self, descriptor: int, watcher: Watcher) -> None:
        """Call ``watcher`` whenever there is something to read, or the end."""
        self._watchers[descriptor] = watcher
        self._poll.register(descriptor, select.POLLIN)

    def unwatch(self, descriptor: int) -> None:
        """Not any more."""
        if self._watchers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def say(self, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        """Tell the server. When it does not read, this waits: there is nothing better to do."""
        send(self._channel, message, descriptors)

    def run(self) -> None:
        """Serve until the server is gone."""
        wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self.watch(wake, lambda: self._reap(wake))
        channel = self._channel.fileno()
        self._poll.register(channel, select.POLLIN)
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == channel:
                    if not self._take():
                        return
                elif descriptor in self._watchers:
                    self._watchers[descriptor]()

    def _take(self) -> bool:
        try:
            received = receive(self._channel)
        except BlockingIOError:
            return True
        except OSError as error:
            return error.errno == errno.EINTR
        if received is None:
            return False
        self._handle(*received)
        return True

    def _reap(self, wake: int) -> None:
        os.read(wake, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.on_exit(pid, status)


class Pending:
    """A child that was forked and has not yet said how it went.

    Args:
        loop: watches its report channel.
        done: called once, with everything it said merged, and the descriptors it sent.
    """

    def __init__(self, loop: Loop, done: Callable[[Message, list[int]], None]) -> None:
        self._loop = loop
        self._done = done
        self._said: Message = {}
        self._descriptors: list[int] = []
        ours, theirs = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        )
        self._ours = ours
        self._theirs = theirs

    def fork(self, child: Callable[[Report], NoReturn]) -> int:
        """Fork; the child runs ``child``, the spawner goes on at once."""
        try:
            pid = os.fork()
        except OSError:
            self._ours.close()
            self._theirs.close()
            raise
        if pid == 0:
            self._theirs.setblocking(True)
            child(Report(self._theirs))
        self._theirs.close()
        self._loop.watch(self._ours.fileno(), self._read)
        return pid

    def _read(self) -> None:
        while True:
            try:
                received = receive(self._ours)
            except BlockingIOError:
                return
            if received is None:
                break
            self._said.update(received[0])
            self._descriptors += received[1]
        self._loop.unwatch(self._ours.fileno())
        self._ours.close()
        self._done(self._said, self._descriptors)
