"""Deleting entries so that a crash in between never leaves half of one."""

from __future__ import annotations

from pathlib import Path

from prime_async.spool.writer import spool_error

__all__ = ["delete_folder", "sweep"]


def delete_folder(path: Path) -> None:
    """Delete an entry's folder.

    Raises:
        SpoolError: it cannot be renamed or deleted.
    """
    from shutil import rmtree

    doomed = path.with_name(f".removed-{path.name}")
    try:
        rmtree(doomed, ignore_errors=True)  # of an entry of that name, cut off by a crash
        # Renamed first: a crash half-way must not leave records without the notes that they
        # arrived.
        path.rename(doomed)
        rmtree(doomed)
    except OSError as error:
        raise spool_error("cannot delete the spool entry", path, error) from error


def sweep(kind_folder: Path) -> None:
    """Delete what a crash in the middle of a removal left behind."""
    from shutil import rmtree

    for doomed in kind_folder.glob(".removed-*"):
        rmtree(doomed, ignore_errors=True)  # another process may be at the same
