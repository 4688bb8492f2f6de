"""What this disk knows about an interrupted push of a file."""

from __future__ import annotations

from pathlib import Path

from prime_async.evals import ResumeToken, find_runs, load_run
from prime_async.evals.keeping import KIND, default_spool
from prime_async_cli.failures import CommandError

__all__ = ["unfinished_push"]


def unfinished_push(path: Path) -> str:
    """Return the resume token of the latest interrupted push of a file or result folder.

    Raises:
        CommandError: none is known.
    """
    file = load_run(path).samples if path in find_runs(path) else path
    wanted = str(file.absolute())
    spool = default_spool()
    entries = spool.entries(KIND) if spool is not None else []
    for entry in reversed(entries):  # ids sort by age
        state = entry.state(verify=False)
        meta = state.meta
        if meta is not None and meta.source is not None and meta.source.path == wanted:
            return str(ResumeToken(meta.target["evaluation_id"], entry.id, state.settled))
    raise CommandError(
        f"no interrupted push of {file} is known on this machine",
        hint="give the token that the push printed: --resume TOKEN",
    )
