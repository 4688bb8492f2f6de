"""The spawner's loop: requests in, children watched, answers and ends out. One thread, no waiting.

Between two processes there is no time to lose: every request is taken up at once, and what has to
be waited for (a keeper coming up, a child on its way to exec) is a :class:`Pending` whose
descriptors are polled together with the server's channel.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import NoReturn

from prime_async.server.runtimes.spawner.children import Report
from prime_async.server.runtimes.spawner.messages import Message, receive, send

__all__ = ["Loop", "Pending"]

Watcher = Callable[[int], None]
"""Called with what there is of a descriptor, as `poll` says it."""


class Loop:
    """Watches descriptors and children.

    Args:
        channel: to the server; None for none yet (see :meth:`talk`).
        handle: called with every message and its descriptors.

    Attributes:
        on_exit: called with pid and status of every child that ended.
        on_lost: called when the server is gone; unless it is replaced, that ends the loop.
    """

    def __init__(
        self, channel: socket.socket | None, handle: Callable[[Message, list[int]], None]
    ) -> None:
        self._handle = handle
        self._poll = select.poll()
        self._watchers: dict[int, Watcher] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._stopped = False
        self.on_exit: Callable[[int, int], None] = lambda pid, status: None
        self.on_lost: Callable[[], None] = self.stop
        self._channel: socket.socket | None = None
        wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.watch(wake, lambda _: self._reap(wake))
        if channel is not None:
            self.talk(channel)

    @property
    def connected(self) -> bool:
        """Whether there is a server."""
        return self._channel is not None

    def talk(self, channel: socket.socket) -> None:
        """Serve this channel from here on; the one before is read to its end, and closed."""
        self._finish()
        self.hang_up()
        self._channel = channel
        self.watch(channel.fileno(), lambda _: self._take(channel))

    def _finish(self) -> None:
        if self._channel is None:
            return
        ready = select.poll()
        ready.register(self._channel, select.POLLIN)
        while ready.poll(0):
            try:
                received = receive(self._channel)
            except OSError:
                return
            if received is None:
                return
            self._handle(*received)

    def hang_up(self) -> None:
        """Close the channel, if there is one."""
        if self._channel is not None:
            self.unwatch(self._channel.fileno())
            self._channel.close()
            self._channel = None

    def watch(self, descriptor: int, watcher: Watcher, events: int = select.POLLIN) -> None:
        """Call ``watcher`` whenever there is something to read (or to what ``events`` says), or
        the end."""
        self._watchers[descriptor] = watcher
        self._poll.register(descriptor, events)

    def unwatch(self, descriptor: int) -> None:
        """Not any more."""
        if self._watchers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something in so many seconds."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), call))

    def stop(self) -> None:
        """Return from :meth:`run` soon."""
        self._stopped = True

    def say(self, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        """Tell the server. When it does not read, this waits: there is nothing better to do.

        When it is gone, nothing happens: that is found out by reading, after what else there is.
        """
        if self._channel is None:
            return
        try:
            send(self._channel, message, descriptors)
        except ConnectionError:
            return

    def run(self) -> None:
        """Serve until the server is gone, or :meth:`stop`."""
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        while not self._stopped:
            for descriptor, events in self._poll.poll(self._patience()):
                watcher = self._watchers.get(descriptor)
                if watcher is not None:
                    watcher(events)
            self._ring()

    def _patience(self) -> float | None:
        """Milliseconds until the next timer."""
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] - time.monotonic()) * 1000

    def _ring(self) -> None:
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()

    def _take(self, channel: socket.socket) -> None:
        try:
            received = receive(channel)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno == errno.EINTR:
                return
            received = None
        if received is not None:
            self._handle(*received)
        elif channel is self._channel:
            self.hang_up()
            self.on_lost()

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

    def _read(self, _: int) -> None:
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
