"""The holders of one sandbox, one for each user with sessions there; found again after a crash."""

from __future__ import annotations

import base64
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from prime_async.server.logs import log_event
from prime_async.server.runtimes.conversation import ANSWER_SECONDS, Answer, SpawnerError
from prime_async.server.runtimes.held import HeldCommand, Talk
from prime_async.server.runtimes.launchers import Ask, Launcher
from prime_async.server.runtimes.spawner.messages import Message
from prime_async.server.runtimes.users import User

__all__ = ["Holders"]

_PREFIX = "held-"
_BACKLOG = 8


class Holder(Launcher):
    """One holder, from the server's side. Its commands outlive the connection."""

    def adopt(self, told: Message) -> HeldCommand:
        """Take a command that it holds."""
        command = HeldCommand(
            Talk(self._talk_to, self._talk.post),
            pid=told["pid"],
            host_pid=told["host_pid"],
            pty=told["pty"],
            on_left=self._release,
        )
        self._occupy()
        return command

    async def held(self) -> list[Message]:
        """What it holds."""
        answer = await self.ask({"op": "list"})
        found: list[Message] = answer.fields["held"]
        return found

    def follow(self, command: HeldCommand, ended: Message | None, on_end: Any) -> None:
        """Hear of its end, which may have been."""
        self._family.add(command, on_end)
        if ended is not None:
            self._family.ended(command.host_pid, ended["code"], ended["signal"])

    async def _talk_to(
        self,
        request: Message,
        descriptors: Sequence[int] = (),
        seconds: float = ANSWER_SECONDS,
    ) -> Answer:
        return await self._talk.ask(request, descriptors, seconds=seconds)


class Holders:
    """Finds or makes them.

    Args:
        ask: asks the spawner.
        request: what every holder of this sandbox is told: its limits.
        folder: where their sockets are, closed to everybody else.
        on_end: called when a command of theirs has ended.
        on_strays: see :class:`Launcher`.
    """

    def __init__(
        self,
        ask: Ask,
        request: Mapping[str, object],
        folder: Path,
        *,
        on_end: Callable[[HeldCommand], None],
        on_strays: Callable[[list[int]], None],
    ) -> None:
        self._ask = ask
        self._request = request
        self._folder = folder
        self._on_end = on_end
        self._on_strays = on_strays
        self._made: dict[int, Holder] = {}
        self._turn = anyio.Lock()

    @property
    def count(self) -> int:
        """How many there are now."""
        return sum(not holder.over for holder in self._made.values())

    async def exec(
        self, user: User, environment: Mapping[str, str], request: Message
    ) -> HeldCommand:
        """Start a command; see *exec* of a holder for the request.

        Raises:
            SpawnerError: it was not started.
        """
        holder = await self._of(user, environment)
        answer = await holder.ask({"op": "exec", **request})
        told = {**request, **answer.fields, "pty": request["pty"] is not None}
        command = holder.adopt(told)
        holder.follow(command, None, self._on_end)
        return command

    async def find(self) -> list[tuple[bytes, float | None, HeldCommand]]:
        """Find the commands that an earlier server has left, with what they were started with."""
        found = []
        async with self._turn:
            for path in self._folder.glob(f"{_PREFIX}*"):
                holder = self._call(path.name)
                if holder is None:
                    path.unlink(missing_ok=True)
                    continue
                self._made[int(path.name.removeprefix(_PREFIX))] = holder
                try:
                    listed = await holder.held()
                except SpawnerError as error:
                    log_event(logging.WARNING, "sessions_not_adopted", folder=path, error=error)
                    continue
                for told in listed:
                    command = holder.adopt(told)
                    holder.follow(command, told["ended"], self._on_end)
                    found.append((base64.b64decode(told["label"]), told["deadline"], command))
        return found

    def close(self) -> None:
        """Let go of them; what they hold goes on as long as the sandbox does."""
        for holder in self._made.values():
            holder.close()
        self._made.clear()

    async def _of(self, user: User, environment: Mapping[str, str]) -> Holder:
        async with self._turn:
            made = self._made.get(user.uid)
            if made is None or made.over:
                # One that is still busy with what others write is there, though nobody calls it.
                made = await self._again(f"{_PREFIX}{user.uid}")
                made = self._made[user.uid] = made or await self._make(user, environment)
            return made

    async def _again(self, name: str) -> Holder | None:
        """Call one that is there, unless it is just ending."""
        holder = self._call(name)
        try:
            if holder is not None:
                await holder.held()
        except SpawnerError:
            return None
        return holder

    async def _make(self, user: User, environment: Mapping[str, str]) -> Holder:
        name = f"{_PREFIX}{user.uid}"
        with _listening(self._folder, name) as listening:
            await self._ask(
                {
                    **self._request,
                    "op": "holder",
                    "uid": user.uid,
                    "gid": user.gid,
                    "groups": user.groups,
                    "env": dict(environment),
                },
                (listening.fileno(),),
            )
        holder = self._call(name)
        if holder is None:
            raise SpawnerError(32, "holder", "it ended at once")
        return holder

    def _call(self, name: str) -> Holder | None:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            # Whether or not somebody accepts, this waits for nothing.
            channel.setblocking(False)
            _at(self._folder, name, channel.connect)
        except OSError:
            channel.close()
            return None
        return Holder(channel, self._on_strays)


def _listening(folder: Path, name: str) -> socket.socket:
    (folder / name).unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        _at(folder, name, listening.bind)
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _at(folder: Path, name: str, work: Callable[[str], object]) -> None:
    """Do something with the address of a socket; the folder's own may be too long for one."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        work(f"/proc/self/fd/{descriptor}/{name}")
    finally:
        os.close(descriptor)
