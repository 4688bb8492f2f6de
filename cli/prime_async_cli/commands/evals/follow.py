"""What is new in a log that is always fetched whole."""

from __future__ import annotations

__all__ = ["last_lines", "new_text"]


def last_lines(text: str, count: int) -> str:
    """Return the last lines of a text."""
    return "".join(text.splitlines(keepends=True)[-count:]) if count else ""


def new_text(before: str, now: str) -> str:
    """Return what of ``now`` was not in ``before``.

    The platform may have dropped the beginning meanwhile: then the longest overlap of lines counts.
    One pass over the lines, as in string search: a long log costs no more than reading it.
    """
    if now.startswith(before):
        return now[len(before) :]
    old, new = before.splitlines(keepends=True), now.splitlines(keepends=True)
    return "".join(new[_overlap(old, new) :])


def _overlap(old: list[str], new: list[str]) -> int:
    """Return how many of the first lines of ``new`` are the last ones of ``old``."""
    fallback = _fallbacks(new)
    matched = 0
    for line in old:
        while matched and (matched == len(new) or new[matched] != line):
            matched = fallback[matched - 1]
        if new and new[matched] == line:
            matched += 1
    return matched


def _fallbacks(lines: list[str]) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is its suffix too."""
    lengths = [0] * len(lines)
    matched = 0
    for place in range(1, len(lines)):
        while matched and lines[place] != lines[matched]:
            matched = lengths[matched - 1]
        if lines[place] == lines[matched]:
            matched += 1
        lengths[place] = matched
    return lengths
