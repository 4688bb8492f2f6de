"""What a ``.dockerignore`` keeps out of a build context."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

__all__ = ["Ignoring"]


class Ignoring:
    """The rules of one file: the last pattern that matches a path, or a folder above it, decides.

    ``*`` and ``?`` stay within a name, ``**`` is any number of folders, ``[...]`` a set, ``!``
    takes back.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules: list[tuple[re.Pattern[str], bool]] = []
        for line in lines:
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            taken_back = text.startswith("!")
            pattern = posixpath.normpath(text.removeprefix("!").strip()).lstrip("/")
            self._rules.append((_compiled(pattern), taken_back))

    @property
    def takes_back(self) -> bool:
        """Whether something inside a folder that is left out may be in nevertheless."""
        return any(taken_back for _, taken_back in self._rules)

    def leaves_out(self, path: str) -> bool:
        """Say whether a path of the context, with ``/``, is left out."""
        parts = path.split("/")
        above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        left_out = False
        for pattern, taken_back in self._rules:
            if any(pattern.fullmatch(each) for each in above):
                left_out = not taken_back
        return left_out


def _compiled(pattern: str) -> re.Pattern[str]:
    written, place = "", 0
    while place < len(pattern):
        if pattern.startswith("**/", place):
            written, place = written + "(?:.*/)?", place + 3
        elif pattern.startswith("**", place):
            written, place = written + ".*", place + 2
        else:
            piece, place = _piece(pattern, place)
            written += piece
    return re.compile(written, re.DOTALL)


def _piece(pattern: str, place: int) -> tuple[str, int]:
    """Translate one sign, or one set, and return where the next begins."""
    sign = pattern[place]
    if sign == "*":
        return "[^/]*", place + 1
    if sign == "?":
        return "[^/]", place + 1
    end = pattern.find("]", place + 2)
    if sign == "[" and end > 0:
        inside = pattern[place + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
        return f"[{inside}]", end + 1
    if sign == "\\" and place + 1 < len(pattern):
        return re.escape(pattern[place + 1]), place + 2
    return re.escape(sign), place + 1
