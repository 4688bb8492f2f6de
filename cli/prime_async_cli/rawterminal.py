"""The terminal of this process, lent to a program somewhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from prime_async_cli.failures import USAGE, CommandError
from prime_async_cli.streams import is_terminal

__all__ = ["check_terminal", "raw_terminal", "sizes", "terminal_size"]

_DEFAULT = (80, 24)


def check_terminal() -> None:
    """Make sure that there is one.

    Raises:
        CommandError: standard input or output is none.
    """
    for name, stream in (("input", sys.stdin), ("output", sys.stdout)):
        if not is_terminal(stream):
            raise CommandError(
                f"--tty needs a terminal, and standard {name} is none",
                hint="leave --tty out: input and output are passed through as they are",
                code=USAGE,
            )


def terminal_size() -> tuple[int, int]:
    """Return its columns and rows."""
    try:
        columns, rows = os.get_terminal_size(0)
    except OSError:
        return _DEFAULT
    return (columns or _DEFAULT[0], rows or _DEFAULT[1])


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Pass every key on as it is; afterwards, whatever happens, it is as it was before."""
    import termios
    import tty

    before = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


async def sizes() -> AsyncIterator[tuple[int, int]]:
    """Yield its size whenever that changes."""
    import signal

    import anyio

    with anyio.open_signal_receiver(signal.SIGWINCH) as signals:
        async for _ in signals:
            yield terminal_size()
