"""Deleting entries so that a crash in between never leaves half of one."""

from __future__ import annotations

import shutil
from pathlib import Path

from prime_async.spool.writer import spool_error

__all__ = ["delete_folder", "sweep"]


def delete_folder(path: Path) -> None:
    """Delete an entry's folder.

    Raises:
        SpoolError: it cannot be renamed or deleted.
    """
    # Renamed first: a crash half-way must not leave records without the notes that they arrived.
    doomed = path.with_name(f".removed-{path.name}")
    try:
        path.rename(doomed)
        shutil.rmtree(doomed)
    except OSError as error:
        raise spool_error("cannot delete the spool entry", path, error) from error


def sweep(kind_folder: Path) -> None:
    """Delete what a crash in the middle of a removal left behind."""
    for doomed in kind_folder.glob(".removed-*"):
        shutil.rmtree(doomed, ignore_errors=True)  # another process may be at the same
