"""A progress bar on standard error, for a person at a terminal and for nobody else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prime_async_cli import streams
from prime_async_cli.output import Output
from prime_async_cli.text import harmless

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from prime_async.sandboxes import TransferProgress

__all__ = ["Bar", "progress", "transfer_progress"]


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
    bar = Bar(_drawing if _welcome(output) else None)
    try:
        yield bar
    finally:
        bar.end()


@contextmanager
def transfer_progress(
    output: Output, title: str
) -> Iterator[Callable[[TransferProgress], None] | None]:
    """Show how far a transfer is; give what it is told with, or None where nobody looks."""
    if not _welcome(output):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    console = Console(stderr=True, no_color=not streams.can_colour(sys.stderr))
    with Progress(*columns, TransferSpeedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(harmless(title), total=None)
        yield lambda now: bar.update(task, completed=now.done, total=now.total)


def _welcome(output: Output) -> bool:
    asked_for_text = output.json or output.plain or os.environ.get("TERM") == "dumb"
    return not asked_for_text and streams.is_terminal(sys.stderr)


def _drawing() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True, no_color=not streams.can_colour(sys.stderr))
    return Progress(*columns, TimeLeft(), console=console, transient=True)
