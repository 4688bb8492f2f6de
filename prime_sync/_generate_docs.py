"""Turns docstrings of the async core into those of the sync facade."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

from prime_sync._generate_layout import WIDTH

__all__ = ["Docs"]

_WORDS = (
    # Only before a call: "await" as a word of prose stays.
    (re.compile(r"\bawait\s+(?=[A-Za-z_][\w.]*[(\[])"), ""),
    (re.compile(r"\basync (?=with\b|for\b|def\b)"), ""),
    (re.compile(r"\baclose\b"), "close"),
    (re.compile(r"\b__a(?=enter__|exit__|iter__|next__)"), "__"),
    (re.compile(r"\ban async (?=iterator\b)"), "an "),
    (re.compile(r"\ban async (?=context manager\b)"), "a "),
)
_NAMED = re.compile(r"\b(?:([Aa])n ((?::\w+:)?`*))?(Async\w+)")


class Docs:
    """Rewrites docstrings: sync names, no ``await``, and the given phrases replaced.

    Args:
        packages: async package and sync package.
        twins: async class to sync class.
        phrases: prose that is only true of the async side, and what is true here. Blanks in it
            match line breaks.
    """

    def __init__(
        self, packages: tuple[str, str], twins: Mapping[str, str], phrases: Mapping[str, str]
    ) -> None:
        self._packages = packages
        self._twins = twins
        self._phrases = {
            phrase: (re.compile(re.escape(phrase).replace(r"\ ", r"\s+")), other)
            for phrase, other in phrases.items()
        }
        self.unused = set(phrases)

    def adapted(self, text: str | None) -> str | None:
        """Return the sync docstring."""
        if text is None:
            return None
        for phrase, (pattern, other) in self._phrases.items():
            if pattern.search(text):
                self.unused.discard(phrase)
                text = "\n\n".join(
                    _filled(pattern.sub(other, part)) if pattern.search(part) else part
                    for part in text.split("\n\n")
                )
        for pattern, replacement in _WORDS:
            text = pattern.sub(replacement, text)
        text = re.sub(rf"\b{self._packages[0]}(?=(\.\w+)? import\b)", self._packages[1], text)
        return _NAMED.sub(self._renamed, text)

    def _renamed(self, match: re.Match[str]) -> str:
        name = self._twins.get(match[3], match[3])
        if match[1] is None:
            return name
        article = f"{match[1]}n" if name[0] in "AEIO" else match[1]
        return f"{article} {match[2]}{name}"


def _filled(paragraph: str) -> str:
    """Fill a paragraph of prose again, keeping the indentation of its last line."""
    blanks = re.match(r"\s*", paragraph.rsplit("\n", 1)[-1])
    indent = blanks[0] if blanks else ""
    text = " ".join(paragraph.split())
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
