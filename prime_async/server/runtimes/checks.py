"""What no program could be started with, refused before anything is done."""

from __future__ import annotations

from collections.abc import Mapping

from prime_async.server.runtimes.commands import check_size
from prime_async.server.runtimes.errors import CommandRefusedError
from prime_async.server.runtimes.protocol import ExecSpec

__all__ = ["check_command", "check_environment"]


def check_command(command: ExecSpec) -> None:
    """Refuse what no program could be started with.

    Raises:
        CommandRefusedError: naming the field.
    """
    if not command.argv or not command.argv[0]:
        raise CommandRefusedError("a command names a program", field="argv")
    if any("\0" in part for part in command.argv):
        raise CommandRefusedError("an argument cannot hold a NUL", field="argv")
    check_environment(command.environment)
    where = command.working_dir
    if where is not None and (not where.startswith("/") or "\0" in where):
        raise CommandRefusedError(f"{where!r} is not an absolute path", field="working_dir")
    if command.pty is not None:
        check_size(command.pty)
    if command.pty is not None and command.log is not None:
        raise CommandRefusedError("a command with a log has no terminal", field="pty")
    if command.held is not None and command.log is not None:
        raise CommandRefusedError("a command with a log is not held", field="held")
    if command.survives and command.log is None:
        raise CommandRefusedError("a command that survives writes to a log", field="survives")


def check_environment(environment: Mapping[str, str]) -> None:
    """Refuse names and values that no process can have.

    Raises:
        CommandRefusedError: naming the variable, never its value.
    """
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name:
            raise CommandRefusedError(f"{name!r} is not a variable's name", field="environment")
        if "\0" in value:
            raise CommandRefusedError(f"the value of {name} holds a NUL", field="environment")
