"""Text that is safe to show.

Names, messages and logs come from elsewhere: they may hold escape sequences that repaint a
terminal, marks that turn the reading direction round, or line breaks that fake another row. They
are shown as what they are.
"""

from __future__ import annotations

__all__ = [
    "as_drawn",
    "cell_width",
    "escapes_for_json",
    "harmless",
    "pad",
    "paint",
    "shorten",
    "without_colour",
]

_REORDERING = (*range(0x200E, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_LINE_BREAKERS = (0x85, 0x2028, 0x2029)
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def _visible(code: int) -> str:
    character = chr(code)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_ONE_LINE = {code: _visible(code) for code in (*_CONTROLS, *_REORDERING, *_LINE_BREAKERS)}
_LINES = {code: shown for code, shown in _ONE_LINE.items() if chr(code) not in "\n\t"}


def harmless(text: str, *, lines: bool = False) -> str:
    """Return ``text`` with control characters written out (``\\e``, ``\\x07``).

    Args:
        text: anything from outside.
        lines: keep line breaks and tabs as they are; without it the result is one line.
    """
    return text.translate(_LINES if lines else _ONE_LINE)


def escapes_for_json() -> dict[int, str]:
    """Return the table that writes those of them which JSON leaves alone as its escapes."""
    return {code: f"\\u{code:04x}" for code in _ONE_LINE if code >= 0x7F}


def as_drawn(line: str) -> str:
    """Return what a terminal shows of a line in the end: a progress bar draws itself anew after
    each carriage return.
    """
    return next((part for part in reversed(line.split("\r")) if part), "")


def without_colour(text: str) -> str:
    """Return ``text`` without the colour sequences that programs write into their logs."""
    if "\x1b" not in text:
        return text
    import re

    return re.sub(r"\x1b\[[0-9;:]*m", "", text)


def cell_width(text: str) -> int:
    """Return how many terminal columns ``text`` takes."""
    if text.isascii():
        return len(text)
    import unicodedata

    width = 0
    for character in text:
        if unicodedata.category(character) in ("Mn", "Me", "Cf"):
            continue
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return width


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Return ``text`` filled with spaces to ``width`` columns, on the left when it belongs to the
    right."""
    filling = " " * max(0, width - cell_width(text))
    return filling + text if right else text + filling


def shorten(text: str, width: int) -> str:
    """Return ``text`` cut to ``width`` columns, with ``...`` where something is missing."""
    if cell_width(text) <= width:
        return text
    kept = text
    while kept and cell_width(kept) > max(0, width - 3):
        kept = kept[:-1]
    return (kept + "...")[:width] if width < 3 else kept + "..."


_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def paint(text: str, style: str, colour: bool) -> str:
    """Return ``text`` in a style when colours are welcome, unchanged otherwise; the line break
    stays outside."""
    if not colour:
        return text
    body = text.rstrip("\n")
    return f"\x1b[{_STYLES[style]}m{body}\x1b[0m{text[len(body) :]}"
