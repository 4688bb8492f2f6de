"""The server's side of the spawner: starting it, asking it, hearing of ends, starting it anew."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread

from prime_async.server.logs import log_event
from prime_async.server.runtimes.conversation import Answer, Conversation, SpawnerError
from prime_async.server.runtimes.spawner.messages import VERSION, Message

__all__ = ["Ask", "SpawnerClient", "SpawnerPlace"]

_START_SECONDS = 30.0
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[3])
_ENTRY = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from prime_async.server.runtimes.spawner.main import main; main()"
)

Ask = Callable[[Message], Awaitable["Answer"]]
Mapper = Callable[[int], None]
"""Writes the id maps of a process. Called on the loop: two writes to procfs wait for nothing."""


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
class _Running:
    """One spawner process."""

    process: subprocess.Popen[bytes]
    talk: Conversation
    mappers: dict[int, Mapper] = field(default_factory=dict)


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
            self._running.talk.close()
        while self._ended:
            await to_thread.run_sync(_collect, self._ended.pop())

    async def start_keeper(self, request: Message, mapper: Mapper | None) -> Answer:
        """Ask for a keeper; when its ids have to be mapped, ``mapper`` is called with its pid.

        Raises:
            SpawnerError: it did not come up.
        """
        running = await self._ensure()
        number = running.talk.next_number()
        if mapper is not None:
            running.mappers[number] = mapper
        try:
            return await running.talk.ask(request, seconds=_START_SECONDS)
        finally:
            running.mappers.pop(number, None)

    async def ask(self, request: Message, descriptors: Sequence[int] = ()) -> Answer:
        """Send a request and wait for its answer. A cancelled caller leaves nothing open.

        Raises:
            SpawnerError: it was refused, or the spawner ended meanwhile.
        """
        return await (await self._ensure()).talk.ask(request, descriptors)

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
        process, channel = await to_thread.run_sync(_spawn, self._place.enroll)
        running = self._listen(process, channel)
        try:
            await self._greet(running)
        except BaseException:
            running.talk.close()
            raise
        self._running = running
        log_event(logging.INFO, "spawner_started", pid=process.pid)
        return running

    def _listen(self, process: subprocess.Popen[bytes], channel: socket.socket) -> _Running:
        talk = Conversation(
            channel,
            on_exit=self._on_exit,
            on_event=lambda message: self._map(running, message),
            on_lost=lambda: self._lost(running),
        )
        running = _Running(process, talk)
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
        answer = await running.talk.ask(hello)
        if answer.fields["version"] != VERSION:
            raise SpawnerError(71, "hello", f"it speaks version {answer.fields['version']}")
        await self._on_ready(running.talk.ask)

    def _map(self, running: _Running, message: Message) -> None:
        mapper = running.mappers.get(message["id"])
        operation = "abort"
        if mapper is not None:
            try:
                mapper(message["pid"])
                operation = "mapped"
            except OSError as error:
                log_event(logging.ERROR, "id_map_failed", pid=message["pid"], error=error)
        running.talk.post({"id": 0, "op": operation, "of": message["id"]})

    def _lost(self, running: _Running) -> None:
        """The spawner ended, or ends because its channel does: nothing more comes from it."""
        self._ended.append(running.process)
        if self._running is running:
            self._running = None
            if not self._closed:
                log_event(logging.WARNING, "spawner_lost", pid=running.process.pid)
            self._on_lost()


def _spawn(enroll: Callable[[int], None] | None) -> tuple[subprocess.Popen[bytes], socket.socket]:
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
    if enroll is not None:
        try:
            enroll(process.pid)
        except OSError as error:
            log_event(logging.WARNING, "spawner_not_enrolled", pid=process.pid, error=error)
    return process, ours


def _collect(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a spawner whose channel is closed."""
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
