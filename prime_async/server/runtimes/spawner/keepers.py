"""A keeper on its way: bubblewrap makes the namespaces, its child stays as their first process."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Callable

from prime_async.server.runtimes.spawner import children, sessions
from prime_async.server.runtimes.spawner.loop import Loop, Pending
from prime_async.server.runtimes.spawner.messages import Message

__all__ = ["Birth", "start_time"]

_ERRORS, _INFO, _READY, _MAP = 2, 3, 4, 5
"""Where the program finds its descriptors; the request's ``argv`` names the last three."""

_MESSAGE_BYTES = 4000


class Birth:
    """One keeper from fork to the moment its first process is ready.

    Args:
        loop: watches the descriptors.
        request: the *start* message.
        done: called once, with the pid of the first process, or 0 and the error.
    """

    def __init__(
        self, loop: Loop, request: Message, done: Callable[[int, Message | None], None]
    ) -> None:
        self._loop = loop
        self._request = request
        self._done = done
        self._pid = 0
        self._wrapper = 0
        self._info = b""
        self._pipes: dict[int, int] = {}
        self._map = -1

    def begin(self) -> None:
        """Fork and watch."""
        pending = Pending(self._loop, self._executed)
        theirs = []
        for name in (_ERRORS, _INFO, _READY):
            ours, other = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self._pipes[name] = ours
            theirs.append(other)
        other, self._map = os.pipe2(os.O_CLOEXEC)
        theirs.append(other)
        for number in theirs:
            os.set_blocking(number, True)
        try:
            self._wrapper = pending.fork(
                lambda report: children.become_keeper(
                    report, self._request["argv"], theirs, self._request["cgroups"]
                )
            )
        except OSError as error:
            self._close()
            self._done(0, _error(error.errno or errno.EIO, error.strerror or ""))
            return
        finally:
            for number in theirs:
                os.close(number)
        self._loop.watch(self._pipes[_INFO], self._read_info)
        self._loop.watch(self._pipes[_READY], self._read_ready)

    def abort(self) -> None:
        """It took too long."""
        self._fail("it did not come up in time")

    def mapped(self) -> None:
        """The ids are mapped: let bubblewrap go on."""
        if self._map >= 0:
            os.write(self._map, b"1")

    def _executed(self, said: Message, _: list[int]) -> None:
        if "error" in said and self._pipes:
            self._fail(f"{self._request['argv'][0]}: {said['text']} ({said['stage']})")

    def _read_info(self) -> None:
        try:
            piece = os.read(self._pipes[_INFO], 4096)
        except BlockingIOError:
            return
        self._info += piece
        if piece and not self._info.rstrip().endswith(b"}"):
            return
        self._loop.unwatch(self._pipes[_INFO])
        try:
            self._pid = json.loads(self._info)["child-pid"]
        except (ValueError, KeyError):
            return  # It failed; the other pipe will end too, and say so.
        if self._request["map"]:
            self._loop.say({"event": "mapping", "id": self._request["id"], "pid": self._pid})

    def _read_ready(self) -> None:
        if not self._pid and _INFO in self._pipes:
            self._read_info()  # Written before, but perhaps not yet looked at.
        if not os.read(self._pipes[_READY], 16) or not self._pid:
            self._fail(self._complaint())
            return
        self._close()
        # It only waits for its child from here on, and would not even notice its end.
        os.kill(self._wrapper, signal.SIGKILL)
        self._done(self._pid, None)

    def _complaint(self) -> str:
        try:
            text = os.read(self._pipes[_ERRORS], _MESSAGE_BYTES)
        except BlockingIOError:
            text = b""
        return text.decode(errors="replace").strip() or "bubblewrap ended without a word"

    def _fail(self, text: str) -> None:
        self._close()
        sessions.kill_session(self._wrapper)
        self._done(0, _error(errno.ECHILD, text))

    def _close(self) -> None:
        for number in self._pipes.values():
            self._loop.unwatch(number)
            os.close(number)
        self._pipes.clear()
        if self._map >= 0:
            os.close(self._map)
            self._map = -1


def _error(number: int, text: str) -> Message:
    return {"error": number, "stage": "keeper", "text": text}


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
