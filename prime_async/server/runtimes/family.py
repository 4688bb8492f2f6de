"""Which running command is whose: ends reported by number find the object that waits for them."""

from __future__ import annotations

from collections.abc import Callable

from prime_async.server.runtimes.commands import Command

__all__ = ["Family"]


class Family:
    """The commands of one runtime, by their numbers on the host.

    The report of an end can overtake the task that started the command: such ends are kept until
    the command is added.
    """

    def __init__(self) -> None:
        self._commands: dict[int, tuple[Command, Callable[[Command], None]]] = {}
        self._early: dict[int, tuple[int, int | None]] = {}

    def add(self, command: Command, on_end: Callable[[Command], None]) -> None:
        """Take a command that was just started; ``on_end`` is called once."""
        early = self._early.pop(command.host_pid, None)
        self._commands[command.host_pid] = (command, on_end)
        if early is not None:
            self.ended(command.host_pid, *early)

    def ended(self, host_pid: int, code: int, number: int | None) -> None:
        """The spawner reports an end."""
        found = self._commands.pop(host_pid, None)
        if found is None:
            self._early[host_pid] = (code, number)
            return
        command, on_end = found
        command.ended(code, number)
        on_end(command)

    def lost(self) -> list[int]:
        """The spawner ended; return the numbers of what it left running that has to end too."""
        commands, self._commands = self._commands, {}
        self._early.clear()
        for command, on_end in commands.values():
            command.lost()
            on_end(command)
        return [pid for pid, (command, _) in commands.items() if not command.survives]
