"""What this disk knows about an interrupted push of a file."""

from __future__ import annotations

from pathlib import Path

from prime_async.evals import find_runs, interrupted_pushes, load_run
from prime_async_cli.failures import CommandError

__all__ = ["unfinished_push"]


def unfinished_push(path: Path) -> str:
    """Return the resume token of the latest interrupted push of a file or result folder.

    Raises:
        CommandError: none is known.
    """
    file = load_run(path).samples if path in find_runs(path) else path
    wanted = file.absolute()
    for push in reversed(interrupted_pushes()):
        if push.file == wanted:
            return push.resume_token
    raise CommandError(
        f"no interrupted push of {file} is known on this machine",
        hint="give the token that the push printed: --resume TOKEN",
    )
