"""The launchers of one sandbox, one for each user that runs commands, while there are commands."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio

from prime_async.server.runtimes.commands import Command
from prime_async.server.runtimes.conversation import Answer, Conversation
from prime_async.server.runtimes.family import Family
from prime_async.server.runtimes.spawner.messages import Message
from prime_async.server.runtimes.users import User

__all__ = ["Launcher", "Launchers"]

IDLE_SECONDS = 5.0
"""How long a launcher stays when nothing runs: the next command need not enter the sandbox."""

Ask = Callable[[Message, Sequence[int]], Awaitable[Answer]]
OnEnd = Callable[[Command], None]


class Launcher:
    """One launcher, from the server's side.

    Args:
        channel: to its process.
        on_strays: called with the commands it left behind when it was killed.
    """

    def __init__(self, channel: socket.socket, on_strays: Callable[[list[int]], None]) -> None:
        self._family = Family()
        self._on_strays = on_strays
        self._busy = 0
        self._closing: asyncio.TimerHandle | None = None
        self._closed = False
        self._talk = Conversation(channel, on_exit=self._family.ended, on_lost=self._lost)

    @property
    def over(self) -> bool:
        """Whether it takes no more commands."""
        return self._talk.over

    async def ask(self, request: Message, descriptors: Sequence[int] = ()) -> Answer:
        """Send a request; see :meth:`Conversation.ask`."""
        self._occupy()
        try:
            return await self._talk.ask(request, descriptors)
        finally:
            self._release()

    def add(self, command: Command, on_end: OnEnd) -> None:
        """Take a command that it started."""
        self._occupy()

        def ended(command: Command) -> None:
            self._release()
            on_end(command)

        self._family.add(command, ended)

    def close(self) -> None:
        """Let it end, with every command of it that still runs."""
        self._closed = True
        if self._closing is not None:
            self._closing.cancel()
        self._talk.close()

    def _occupy(self) -> None:
        self._busy += 1
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None

    def _release(self) -> None:
        self._busy -= 1
        if self._busy == 0 and not self._talk.over:
            loop = asyncio.get_running_loop()
            self._closing = loop.call_later(IDLE_SECONDS, self.close)

    def _lost(self) -> None:
        strays = self._family.lost()
        # One that is let go ends its commands itself.
        if strays and not self._closed:
            self._on_strays(strays)


class Launchers:
    """Makes them when they are needed.

    Args:
        ask: asks the spawner.
        request: what every launcher of this sandbox is told: its name, limits, environment.
        on_strays: see :class:`Launcher`.
    """

    def __init__(
        self,
        ask: Ask,
        request: Mapping[str, object],
        on_strays: Callable[[list[int]], None],
    ) -> None:
        self._ask = ask
        self._request = request
        self._on_strays = on_strays
        self._made: dict[User, Launcher] = {}
        self._turn = anyio.Lock()

    @property
    def count(self) -> int:
        """How many there are now."""
        return sum(not launcher.over for launcher in self._made.values())

    async def of(self, user: User, environment: Mapping[str, str]) -> Launcher:
        """The launcher of a user.

        Args:
            environment: of the user's commands, if it has to be made.

        Raises:
            SpawnerError: the sandbox could not be entered.
        """
        made = self._made.get(user)
        if made is not None and not made.over:
            return made
        async with self._turn:
            made = self._made.get(user)
            if made is None or made.over:
                made = self._made[user] = await self._make(user, environment)
        return made

    def close(self) -> None:
        """End all of them."""
        for launcher in self._made.values():
            launcher.close()
        self._made.clear()

    async def _make(self, user: User, environment: Mapping[str, str]) -> Launcher:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                await self._ask(
                    {
                        **self._request,
                        "op": "launcher",
                        "uid": user.uid,
                        "gid": user.gid,
                        "groups": user.groups,
                        "env": dict(environment),
                    },
                    (theirs.fileno(),),
                )
        except BaseException:
            ours.close()
            raise
        return Launcher(ours, self._on_strays)
