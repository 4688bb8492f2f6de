"""The server's side of the spawner: starting it, asking it, hearing of ends, starting it anew."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread

from prime_async.server.logs import log_event
from prime_async.server.runtimes.errors import SandboxRuntimeError
from prime_async.server.runtimes.spawner.messages import VERSION, Message, receive, send

__all__ = ["Answer", "Ask", "SpawnerClient", "SpawnerError", "SpawnerPlace"]

_ANSWER_SECONDS = 30.0
_START_SECONDS = 30.0
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[3])
_ENTRY = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from prime_async.server.runtimes.spawner.main import main; main()"
)

Ask = Callable[[Message], Awaitable["Answer"]]
Mapper = Callable[[int], None]
"""Writes the id maps of a process. Called on the loop: two writes to procfs wait for nothing."""


class SpawnerError(SandboxRuntimeError):
    """The spawner could not do what it was asked.

    Attributes:
        errno: number of the system's error.
        stage: at which step.
        text: what the system or the program said.
    """

    code = "spawner"

    def __init__(self, number: int, stage: str, text: str) -> None:
        super().__init__(f"{text} (at {stage})")
        self.errno = number
        self.stage = stage
        self.text = text


@dataclass(frozen=True, slots=True)
class Answer:
    """What the spawner answered.

    Attributes:
        fields: of the message.
        descriptors: beside it; the caller owns them.
    """

    fields: Message
    descriptors: list[int]


@dataclass(frozen=True, slots=True)
class SpawnerPlace:
    """Who the spawner becomes, and what it takes along.

    Attributes:
        uid, gid: for a server that runs as root; None stays who it is.
        binds: folders (path, name) it shows itself below ``/run`` before.
        enroll: called with the pid of every new spawner, in a thread.
    """

    uid: int | None
    gid: int
    binds: tuple[tuple[str, str], ...] = ()
    enroll: Callable[[int], None] | None = None


@dataclass(slots=True)
class _Waiting:
    future: asyncio.Future[Answer]
    mapper: Mapper | None = None


@dataclass(slots=True)
class _Running:
    """One spawner process."""

    process: subprocess.Popen[bytes]
    channel: socket.socket
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    outbox: deque[tuple[Message, tuple[int, ...]]] = field(default_factory=deque)
    abandoned: set[int] = field(default_factory=set)


class SpawnerClient:
    """Asks the spawner, and starts another one when it ended.

    Args:
        place: who it becomes.
        on_exit: called with host pid, code and signal when a command ended.
        on_lost: called when the spawner ended: whatever it ran is nobody's child now.
        on_ready: awaited with this client after every start but before any request, to tell the
            new spawner about the keepers there are.
    """

    def __init__(
        self,
        place: SpawnerPlace,
        *,
        on_exit: Callable[[int, int, int | None], None],
        on_lost: Callable[[], None],
        on_ready: Callable[[Ask], Awaitable[None]],
    ) -> None:
        self._place = place
        self._on_exit = on_exit
        self._on_lost = on_lost
        self._on_ready = on_ready
        self._running: _Running | None = None
        self._starting = anyio.Lock()
        self._ids = 0
        self._closed = False
        self._ended: list[subprocess.Popen[bytes]] = []

    @property
    def pid(self) -> int | None:
        """Of the spawner process, None when there is none."""
        return self._running.process.pid if self._running else None

    async def aclose(self) -> None:
        """Let the spawner end; keepers stay."""
        self._closed = True
        if self._running is not None:
            self._lose(self._running)
        while self._ended:
            await to_thread.run_sync(_collect, self._ended.pop())

    async def start_keeper(self, request: Message, mapper: Mapper | None) -> Answer:
        """Ask for a keeper; when its ids have to be mapped, ``mapper`` is called with its pid.

        Raises:
            SpawnerError: it did not come up.
        """
        return await self._ask(request, mapper=mapper, seconds=_START_SECONDS)

    async def ask(self, request: Message, descriptors: tuple[int, ...] = ()) -> Answer:
        """Send a request and wait for its answer. A cancelled caller leaves nothing open.

        Raises:
            SpawnerError: it was refused, or the spawner ended meanwhile.
        """
        return await self._ask(request, descriptors)

    async def _ask(
        self,
        request: Message,
        descriptors: tuple[int, ...] = (),
        *,
        mapper: Mapper | None = None,
        seconds: float = _ANSWER_SECONDS,
    ) -> Answer:
        return await self._ask_one(
            await self._ensure(), request, descriptors, mapper=mapper, seconds=seconds
        )

    async def _ask_one(
        self,
        running: _Running,
        request: Message,
        descriptors: tuple[int, ...] = (),
        *,
        mapper: Mapper | None = None,
        seconds: float = _ANSWER_SECONDS,
    ) -> Answer:
        self._ids += 1
        number = self._ids
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        running.waiting[number] = _Waiting(future, mapper)
        # Copies: the caller may close its own as soon as it is cancelled.
        self._post(running, {**request, "id": number}, tuple(os.dup(d) for d in descriptors))
        try:
            with anyio.fail_after(seconds):
                return await future
        except TimeoutError as error:
            self._post(running, {"id": number, "op": "abort", "of": number})
            raise SpawnerError(110, "spawner", f"no answer in {seconds:g} s") from error

    async def _ensure(self) -> _Running:
        if self._running is not None:
            return self._running
        async with self._starting:
            return self._running or await self._start()

    async def _start(self) -> _Running:
        if self._closed:
            raise SpawnerError(9, "spawner", "the runtime is closed")
        for process in self._ended:
            await to_thread.run_sync(_collect, process)
        self._ended.clear()
        running = await to_thread.run_sync(_spawn, self._place.enroll)
        running.channel.setblocking(False)
        asyncio.get_running_loop().add_reader(running.channel, self._read, running)
        try:
            await self._greet(running)
        except BaseException:
            self._lose(running)
            raise
        self._running = running
        log_event(logging.INFO, "spawner_started", pid=running.process.pid)
        return running

    async def _greet(self, running: _Running) -> None:
        place = self._place
        hello = {
            "op": "hello",
            "version": VERSION,
            "uid": place.uid,
            "gid": place.gid,
            "binds": place.binds,
        }
        answer = await self._ask_one(running, hello)
        if answer.fields["version"] != VERSION:
            raise SpawnerError(71, "hello", f"it speaks version {answer.fields['version']}")

        async def ask(message: Message) -> Answer:
            return await self._ask_one(running, message)

        await self._on_ready(ask)

    def _post(self, running: _Running, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        running.outbox.append((message, descriptors))
        if len(running.outbox) == 1:
            self._flush(running)

    def _flush(self, running: _Running) -> None:
        loop = asyncio.get_running_loop()
        while running.outbox:
            message, descriptors = running.outbox[0]
            try:
                send(running.channel, message, descriptors)
            except BlockingIOError:
                loop.add_writer(running.channel, self._flush, running)
                return
            except OSError:
                self._lose(running)
                return
            running.outbox.popleft()
            _close_all(descriptors)
        if running.channel.fileno() >= 0:
            loop.remove_writer(running.channel)

    def _read(self, running: _Running) -> None:
        while True:
            try:
                received = receive(running.channel)
            except BlockingIOError:
                return
            except (OSError, ValueError):
                received = None
            if received is None:
                self._lose(running)
                return
            self._dispatch(running, *received)

    def _dispatch(self, running: _Running, message: Message, descriptors: list[int]) -> None:
        event = message.get("event")
        if event == "exit":
            self._exited(running, message)
            return
        if event == "mapping":
            self._map(running, message)
            return
        waiting = running.waiting.pop(message["id"], None)
        if waiting is None or waiting.future.done():
            # Whoever asked was cancelled: what it would have got must not stay behind.
            _close_all(descriptors)
            if "host_pid" in message:
                running.abandoned.add(message["host_pid"])
                kill = {"op": "signal", "host_pid": message["host_pid"], "number": 9}
                self._post(running, {**kill, "session": True, "id": 0})
        elif "error" in message:
            waiting.future.set_exception(
                SpawnerError(message["error"], message["stage"], message["text"])
            )
        else:
            waiting.future.set_result(Answer(message, descriptors))

    def _exited(self, running: _Running, message: Message) -> None:
        pid = message["host_pid"]
        if pid in running.abandoned:
            running.abandoned.discard(pid)
        else:
            self._on_exit(pid, message["code"], message["signal"])

    def _map(self, running: _Running, message: Message) -> None:
        waiting = running.waiting.get(message["id"])
        operation = "abort"
        if waiting is not None and waiting.mapper is not None:
            try:
                waiting.mapper(message["pid"])
                operation = "mapped"
            except OSError as error:
                log_event(logging.ERROR, "id_map_failed", pid=message["pid"], error=error)
        self._post(running, {"id": 0, "op": operation, "of": message["id"]})

    def _lose(self, running: _Running) -> None:
        """The spawner ended, or ends because its channel does: nothing more comes from it."""
        if running.channel.fileno() < 0:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(running.channel)
        loop.remove_writer(running.channel)
        running.channel.close()
        self._ended.append(running.process)
        for _, descriptors in running.outbox:
            _close_all(descriptors)
        running.outbox.clear()
        waiting, running.waiting = running.waiting, {}
        for one in waiting.values():
            if not one.future.done():
                one.future.set_exception(SpawnerError(32, "spawner", "the spawner ended"))
        if self._running is running:
            self._running = None
            if not self._closed:
                log_event(logging.WARNING, "spawner_lost", pid=running.process.pid)
            self._on_lost()


def _spawn(enroll: Callable[[int], None] | None) -> _Running:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        number = theirs.fileno()
        # Isolated (-I) and without site-packages (-S): it needs nothing but the standard library,
        # and what is in the environment or the working directory must not get into it.
        process = subprocess.Popen(  # noqa: S603  # our own interpreter and code
            [sys.executable, "-I", "-S", "-c", _ENTRY, _PACKAGE_ROOT, str(number)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(number,),
            env={},
            cwd="/",
            start_new_session=True,
        )
    running = _Running(process, ours)
    if enroll is not None:
        try:
            enroll(process.pid)
        except OSError as error:
            log_event(logging.WARNING, "spawner_not_enrolled", pid=process.pid, error=error)
    return running


def _collect(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a spawner whose channel is closed."""
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _close_all(descriptors: tuple[int, ...] | list[int]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)
