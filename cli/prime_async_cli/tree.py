"""A walk over the whole command tree; loads every command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import asyncclick

from prime_async_cli.command import Group

__all__ = ["Node", "walk"]


class Node(NamedTuple):
    """One command or group.

    Attributes:
        words: how it is called, without the program.
        command: the loaded object.
        context: a context for usage lines and help.
        short: its line in the help of its group; empty for the root.
    """

    words: tuple[str, ...]
    command: asyncclick.Command
    context: asyncclick.Context
    short: str


def walk(
    group: Group, context: asyncclick.Context | None = None, *, width: int | None = None
) -> Iterator[Node]:
    """Yield the group itself and everything below it, in the order of the help pages.

    Args:
        group: where to begin.
        context: its context, to yield only what is below it.
        width: columns of the help pages.
    """
    here = context or asyncclick.Context(group, info_name=group.name, terminal_width=width)
    if context is None:
        yield Node((), group, here, "")
    for name in group.list_commands(here):
        command = group.get_command(here, name)
        assert command is not None
        inner = asyncclick.Context(command, info_name=name, parent=here)
        words = tuple(inner.command_path.split(" ")[1:])
        yield Node(words, command, inner, group.entries[name].short)
        if isinstance(command, Group):
            yield from walk(command, inner)
