"""The server's side of a channel to a process that starts things: requests, answers, events."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from prime_async.server.runtimes.errors import SandboxRuntimeError
from prime_async.server.runtimes.spawner.messages import Message, receive, send

__all__ = ["ANSWER_SECONDS", "Answer", "Conversation", "SpawnerError", "close_all"]

ANSWER_SECONDS = 30.0


class SpawnerError(SandboxRuntimeError):
    """The spawner, or a launcher, could not do what it was asked.

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
    """What was answered.

    Attributes:
        fields: of the message.
        descriptors: beside it; the caller owns them.
    """

    fields: Message
    descriptors: list[int]


class Conversation:
    """Asks, and hears of what happens.

    Args:
        channel: to the other process; owned by this object.
        on_exit: called with host pid, code and signal when a command ended.
        on_event: called with every other event.
        on_lost: called once when the other process is gone, or closes the channel.
    """

    def __init__(
        self,
        channel: socket.socket,
        *,
        on_exit: Callable[[int, int, int | None], None],
        on_event: Callable[[Message], None] | None = None,
        on_lost: Callable[[], None],
    ) -> None:
        self._channel = channel
        self._on_exit = on_exit
        self._on_event = on_event
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._outbox: deque[tuple[Message, tuple[int, ...]]] = deque()
        self._abandoned: set[int] = set()
        channel.setblocking(False)
        self._loop.add_reader(channel, self._read)

    @property
    def over(self) -> bool:
        """Whether nothing more comes of it."""
        return self._channel.fileno() < 0

    def next_number(self) -> int:
        """The number the next request will have."""
        return self._number + 1

    async def ask(
        self,
        request: Message,
        descriptors: Sequence[int] = (),
        *,
        seconds: float = ANSWER_SECONDS,
    ) -> Answer:
        """Send a request and wait for its answer. A cancelled caller leaves nothing open.

        Raises:
            SpawnerError: it was refused, or the other process ended meanwhile.
        """
        if self.over:
            raise SpawnerError(32, "spawner", "it has ended")
        self._number += 1
        number = self._number
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[number] = future
        self.post({**request, "id": number}, tuple(descriptors))
        late = self._loop.call_later(seconds, self._give_up, number, seconds)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                # Answered in the moment in which the caller was cancelled: nobody has it.
                answer = future.result()
                self._clean_up(answer.fields, answer.descriptors)
            raise
        finally:
            late.cancel()

    def post(self, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        """Send something that is not answered."""
        if self.over:
            return
        if self._outbox or not self._sent(message, descriptors):
            # Copies: the caller closes its own as soon as it is cancelled.
            self._outbox.append((message, tuple(os.dup(one) for one in descriptors)))

    def close(self) -> None:
        """End it: whoever waits for an answer is told that there will be none."""
        if self.over:
            return
        self._loop.remove_reader(self._channel)
        self._loop.remove_writer(self._channel)
        self._channel.close()
        for _, descriptors in self._outbox:
            close_all(descriptors)
        self._outbox.clear()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(SpawnerError(32, "spawner", "it ended before it answered"))
        self._on_lost()

    def _give_up(self, number: int, seconds: float) -> None:
        future = self._waiting[number]
        if not future.done():
            future.set_exception(SpawnerError(110, "spawner", f"no answer in {seconds:g} s"))
            self.post({"id": number, "op": "abort", "of": number})

    def _sent(self, message: Message, descriptors: tuple[int, ...]) -> bool:
        """Send without waiting; False when the other side has to read first."""
        try:
            send(self._channel, message, descriptors)
        except BlockingIOError:
            self._loop.add_writer(self._channel, self._flush)
            return False
        except OSError:
            self.close()
        return True

    def _flush(self) -> None:
        while self._outbox:
            message, descriptors = self._outbox[0]
            if not self._sent(message, descriptors):
                return
            if self._outbox:
                self._outbox.popleft()
                close_all(descriptors)
        if not self.over:
            self._loop.remove_writer(self._channel)

    def _read(self) -> None:
        while not self.over:
            try:
                received = receive(self._channel)
            except BlockingIOError:
                return
            except (OSError, ValueError):
                received = None
            if received is None:
                self.close()
                return
            self._dispatch(*received)

    def _dispatch(self, message: Message, descriptors: list[int]) -> None:
        event = message.get("event")
        if event == "exit":
            self._exited(message)
            return
        if event is not None:
            if self._on_event is not None:
                self._on_event(message)
            return
        future = self._waiting.pop(message["id"], None)
        if future is None or future.done():
            self._clean_up(message, descriptors)
        elif "error" in message:
            future.set_exception(SpawnerError(message["error"], message["stage"], message["text"]))
        else:
            future.set_result(Answer(message, descriptors))

    def _clean_up(self, message: Message, descriptors: list[int]) -> None:
        """Whoever asked was cancelled: what it would have got must not stay behind."""
        close_all(descriptors)
        if "host_pid" in message:
            self._abandoned.add(message["host_pid"])
            kill = {"op": "signal", "host_pid": message["host_pid"], "number": 9}
            self.post({**kill, "session": True, "abandoned": True, "id": 0})

    def _exited(self, message: Message) -> None:
        pid = message["host_pid"]
        if pid in self._abandoned:
            self._abandoned.discard(pid)
        else:
            self._on_exit(pid, message["code"], message["signal"])


def close_all(descriptors: Sequence[int]) -> None:
    """Close descriptors, those that are closed already too."""
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)
