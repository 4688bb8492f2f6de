"""A keeper on its way: bubblewrap makes the namespaces, its child stays as their first process."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import time
from collections.abc import Callable

from prime_async.server.runtimes.spawner import children, sessions
from prime_async.server.runtimes.spawner.loop import Loop, Pending
from prime_async.server.runtimes.spawner.messages import Message

__all__ = ["Birth", "is_up", "start_time"]

_ERRORS, _INFO, _MAP = 2, 3, 4
"""Where the program finds its descriptors; the request's ``argv`` names the last two."""

_MESSAGE_BYTES = 4000
_LOOK_SECONDS = 0.0003
_UP_SECONDS = 30.0

Done = Callable[[int, int, list[int], Message | None], None]


class Birth:
    """One keeper from fork to the moment its first process is ready.

    Args:
        loop: watches the descriptors.
        request: the *start* message.
        done: called once, with pid and pidfd of the first process and further descriptors, or with
            the error.
    """

    def __init__(self, loop: Loop, request: Message, done: Done) -> None:
        self._loop = loop
        self._request = request
        self._done = done
        self._pid = 0
        self._pidfd = -1
        self._wrapper = 0
        self._told = b""
        self._info = self._errors = self._map = -1
        self._over = False

    def begin(self) -> None:
        """Fork and watch."""
        pending = Pending(self._loop, self._executed)
        self._errors, errors = os.pipe2(os.O_CLOEXEC)
        self._info, info = os.pipe2(os.O_CLOEXEC)
        ids, self._map = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._errors, False)
        os.set_blocking(self._info, False)
        handed = [errors, info, ids]
        try:
            self._wrapper = pending.fork(
                lambda report: children.become_keeper(
                    report, self._request["argv"], handed, self._request["cgroups"]
                )
            )
        except OSError as error:
            self._fail(error.strerror or str(error))
            return
        finally:
            for number in handed:
                os.close(number)
        self._loop.watch(self._info, self._read_info)

    def abort(self) -> None:
        """It took too long."""
        self._fail("it did not come up in time")

    def mapped(self) -> None:
        """The ids are mapped: let bubblewrap go on."""
        if self._map >= 0:
            os.write(self._map, b"1")

    def _executed(self, said: Message, _: list[int]) -> None:
        if "error" in said:
            self._fail(f"{self._request['argv'][0]}: {said['text']} ({said['stage']})")

    def _read_info(self, _: int) -> None:
        piece = os.read(self._info, 4096)
        self._told += piece
        if piece and not self._told.rstrip().endswith(b"}"):
            return
        self._loop.unwatch(self._info)
        try:
            self._pid = json.loads(self._told)["child-pid"]
            self._pidfd = os.pidfd_open(self._pid)
            self._finish()
        except (ValueError, KeyError, OSError):
            self._fail(self._complaint() or "bubblewrap ended without a word")
            return
        if self._request["map"]:
            self._loop.say({"event": "mapping", "id": self._request["id"], "pid": self._pid})

    def _finish(self) -> None:
        """Let a child wait for the first process and then do what is left to do."""
        pidfd, pid, port = self._pidfd, self._pid, self._request["listen"]
        pending = Pending(self._loop, self._finished)
        pending.fork(
            lambda report: children.run_helper(
                report, lambda: children.finish_namespaces(is_up, pid, pidfd, port)
            )
        )

    def _finished(self, said: Message, descriptors: list[int]) -> None:
        if self._over:
            for number in descriptors:
                os.close(number)
            return
        if "answer" not in said:
            self._fail(self._complaint() or f"bubblewrap: {said.get('text', 'it was killed')}")
            return
        self._close()
        # It only waits for its child from here on, and would not even notice its end.
        os.kill(self._wrapper, signal.SIGKILL)
        self._done(self._pid, self._pidfd, descriptors, None)

    def _complaint(self) -> str:
        """What bubblewrap wrote to its standard error, if anything."""
        ready, _, _ = select.select([self._errors], [], [], 0.1)
        text = os.read(self._errors, _MESSAGE_BYTES) if ready else b""
        return text.decode(errors="replace").strip()

    def _fail(self, text: str) -> None:
        if self._over:
            return
        self._close()
        if self._wrapper:
            sessions.kill_session(self._wrapper)
        if self._pidfd >= 0:
            os.close(self._pidfd)
        error = {"error": errno.ECHILD, "stage": "keeper", "text": text}
        self._done(0, -1, [], error)

    def _close(self) -> None:
        self._over = True
        self._loop.unwatch(self._info)
        for number in (self._info, self._errors, self._map):
            if number >= 0:
                os.close(number)
        self._info = self._errors = self._map = -1


def is_up(pid: int, pidfd: int) -> None:
    """Wait until the first process runs its program, which bubblewrap tells nobody.

    A shell that could say it would make an ignored SIGCHLD an ordinary one again.

    Raises:
        OSError: it ended, or did not come up.
    """
    until = time.monotonic() + _UP_SECONDS
    while _name(pid) != b"sleep":
        if select.select([pidfd], [], [], _LOOK_SECONDS)[0]:
            raise OSError(errno.ECHILD, "the first process ended")
        if time.monotonic() > until:
            raise OSError(errno.ETIMEDOUT, "the first process did not come up")


def _name(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:  # noqa: PTH123  # pathlib is 2 MB more here
            return file.read().strip()
    except OSError:
        return b""


def start_time(pid: int) -> str | None:
    """When a process started, told from all others with the same number; None without one."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  # pathlib is 2 MB more here
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:  # noqa: PTH123
            boot = file.read().strip()
    except OSError:
        return None
    return None if fields[0] in {b"Z", b"X"} else f"{boot.decode()}/{fields[19].decode()}"
