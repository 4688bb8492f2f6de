"""Help pages, ready-made: showing one loads neither the command tree nor what it stands on.

``help_pages.txt`` is written by ``python -m prime_async_cli.reference``, for the width that every
terminal of 80 columns or more and every pipe gets. A test compares it with what the commands say.
"""

from __future__ import annotations

import os

__all__ = ["FILE", "MARK", "WIDTH", "ready_page"]

WIDTH = 78
"""Columns of a help page where the screen does not limit it."""

FILE = os.path.join(os.path.dirname(__file__), "help_pages.txt")  # noqa: PTH118, PTH120 - pathlib takes longer than all the rest
MARK = "\f"
"""Stands before the words of a command, on a line of its own before its page."""


def ready_page(words: list[str]) -> str | None:
    """Return the help page of a command; None when it has to be made."""
    try:
        with open(FILE, encoding="ascii") as file:  # noqa: PTH123 - as above
            text = file.read()
    except OSError:  # the package lies in an archive
        return None
    _, found, rest = text.partition(f"{MARK}{' '.join(words)}\n")
    return rest.partition(MARK)[0] if found else None
