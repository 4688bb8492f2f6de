"""A progress bar on standard error, for a person at a terminal and for nobody else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prime_async_cli import streams
from prime_async_cli.output import Output

__all__ = ["progress"]


@contextmanager
def progress(output: Output, title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how far a work of ``total`` steps has come; call what is given with the steps done."""
    welcome = not (output.json or output.plain or os.environ.get("TERM") == "dumb")
    if not (welcome and total and streams.is_terminal(sys.stderr)):
        yield lambda _: None
        return
    with _bar(title, total) as advance:
        yield advance


@contextmanager
def _bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True, no_color=not streams.can_colour(sys.stderr))
    with Progress(*columns, TimeLeft(), console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.advance(task, steps)
