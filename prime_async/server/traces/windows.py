"""Decodes a long list inside a JSON object piece by piece, so that nothing holds the interpreter.

The decoder keeps the interpreter for as long as one call takes, in whatever thread: for the largest
line that is a tenth of a second in which the server answers nobody. So the elements of its one long
list are taken out in windows, cut at a comma where an element seems to begin as the first one did.
Whether it was one is decided by decoding the window: a piece of a list that is whole by itself was
cut between two of its elements. Whether it was *the* list is decided by a mark that is left in its
place. Where any of that does not work out, the object is decoded in one piece.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

__all__ = ["WINDOW_BYTES", "Windows", "in_windows"]

WINDOW_BYTES = 1024 * 1024

_TRIES = 8
_OPENING = re.compile(rb'\s*(\{\s*"[^"\\]{1,100}"\s*:)')


class Windows(NamedTuple):
    """An object whose long list was decoded apart.

    Attributes:
        rest: the object's text, with the mark and the last elements in the list.
        elements: the first ones, decoded.
        mark: what is ``parent`` of the element that stands before the last ones.
    """

    rest: bytes
    elements: list[Any]
    mark: str


def in_windows(
    json: bytes | msgspec.Raw,
    name: str,
    decode: Callable[[bytes], list[Any]],
    *,
    window: int = WINDOW_BYTES,
) -> Windows | None:
    """Take the first elements of the list ``name`` out of an object.

    Args:
        json: the object's text.
        decode: decodes the text of a list.

    Returns:
        None when the object is not worth it, or its list cannot be found or cut.
    """
    text = memoryview(json)
    if len(text) <= 2 * window:
        return None
    head = re.search(rb'"%s"\s*:\s*\[' % re.escape(name.encode()), text)
    opening = _OPENING.match(text, head.end()) if head else None
    if head is None or opening is None:
        return None
    border = re.compile(rb",\s*" + re.escape(opening[1]))
    elements: list[Any] = []
    start = head.end()
    while len(text) - start > 2 * window:
        found = _window(text, start, window, border, decode)
        if found is None:
            break
        decoded, start = found
        elements += decoded
    if not elements:
        return None
    mark = secrets.token_hex(16)
    rest = b"".join((text[: head.end()], b'{"parent":"%s"},' % mark.encode(), text[start:]))
    return Windows(rest, elements, mark)


def _window(
    text: memoryview,
    start: int,
    window: int,
    border: re.Pattern[bytes],
    decode: Callable[[bytes], list[Any]],
) -> tuple[list[Any], int] | None:
    """The elements of one window, and where the next one begins."""
    place = start + window
    for _ in range(_TRIES):
        match = border.search(text, place, start + 2 * window)
        if match is None:
            return None
        try:
            piece = b"".join((b"[", text[start : match.start()], b"]"))
            return decode(piece), match.start() + 1
        except (msgspec.DecodeError, RecursionError):
            place = match.end()
    return None
