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
    from prime_async.sandboxes import TransferProgress

__all__ = ["progress", "transfer_progress"]


@contextmanager
def progress(output: Output, title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how far a work of ``total`` steps has come; call what is given with the steps done."""
    if not (total and _welcome(output)):
        yield lambda _: None
        return
    with _bar(title, total) as advance:
        yield advance


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
