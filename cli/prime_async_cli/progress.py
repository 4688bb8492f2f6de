"""A progress bar on standard error, for a person at a terminal and for nobody else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prime_async_cli import streams
from prime_async_cli.output import Output

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Bar", "progress"]


class Bar:
    """Counts how far a work has come, and draws it where somebody looks.

    Attributes:
        done: steps so far, drawn or not.
        total: steps in all, or None before it has begun.
    """

    def __init__(self, draw: Callable[[], Progress] | None = None) -> None:
        self.done = 0
        self.total: int | None = None
        self._draw = draw
        self._task: TaskID | None = None
        self._drawn: Progress | None = None

    def begin(self, title: str, total: int) -> None:
        """Draw the bar: what is done, and how many steps it has."""
        self.total = total
        if self._draw is not None and total:
            self._drawn = self._draw()
            self._task = self._drawn.add_task(title, total=total)
            self._drawn.start()

    def advance(self, steps: int) -> None:
        """So many more steps are done."""
        self.done += steps
        if self._drawn is not None and self._task is not None:
            self._drawn.advance(self._task, steps)

    def end(self) -> None:
        """Take the bar away again."""
        if self._drawn is not None:
            self._drawn.stop()


@contextmanager
def progress(output: Output) -> Iterator[Bar]:
    """Give a bar that is drawn from ``Bar.begin`` to the end of the block."""
    welcome = not (output.json or output.plain or os.environ.get("TERM") == "dumb")
    bar = Bar(_drawing if welcome and streams.is_terminal(sys.stderr) else None)
    try:
        yield bar
    finally:
        bar.end()


def _drawing() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True, no_color=not streams.can_colour(sys.stderr))
    return Progress(*columns, TimeLeft(), console=console, transient=True)
