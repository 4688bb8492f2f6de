"""Splits the body of a push into the JSON texts of its samples, never holding the GIL long.

The decoder holds the GIL for as long as one call takes: 25 ms for the largest body, in whatever
thread. So large bodies are cut into windows first, at a comma where a sample seems to begin as the
first one did. Whether it was one is decided by decoding the window: a piece of a list that is whole
by itself was cut between two of its elements. A body where that does not work out, for example
because it is not JSON, is decoded in one piece.
"""

from __future__ import annotations

import re

import msgspec

from prime_async.server.decoding import decode_body

__all__ = ["split"]

WINDOW_BYTES = 2 * 1024 * 1024

_TRIES = 4
_HEAD = re.compile(rb'\s*\{\s*"samples"\s*:\s*\[\s*')
_TAIL = re.compile(rb"\]\s*\}\s*\Z")
_OPENING = re.compile(rb'\{\s*"[^"\\]{0,100}"')


class _Envelope(msgspec.Struct):
    samples: list[msgspec.Raw]


_elements = msgspec.json.Decoder(list[msgspec.Raw])


def split(body: bytes, *, window: int = WINDOW_BYTES) -> list[msgspec.Raw]:
    """The samples of a body, as JSON texts.

    Raises:
        RequestError: 400 when it is not JSON, 422 when it is not ``{"samples": [...]}``.
    """
    samples = _in_windows(body, window) if len(body) > 2 * window else None
    return decode_body(body, _Envelope).samples if samples is None else samples


def _in_windows(body: bytes, window: int) -> list[msgspec.Raw] | None:
    head, tail = _HEAD.match(body), _TAIL.search(body, len(body) - 100)
    opening = _OPENING.match(body, head.end()) if head else None
    if head is None or tail is None or opening is None:
        return None
    border = re.compile(rb",\s*" + re.escape(opening[0]))
    samples: list[msgspec.Raw] = []
    start = head.end()
    while tail.start() - start > 2 * window:
        found = _window(body, start, window, border)
        if found is None:
            return None
        texts, start = found
        samples += texts
    rest = _decoded(body, start, tail.start())
    return None if rest is None else samples + rest


def _window(
    body: bytes, start: int, window: int, border: re.Pattern[bytes]
) -> tuple[list[msgspec.Raw], int] | None:
    """The samples of one window, and where the next one begins."""
    place = start + window
    for _ in range(_TRIES):
        match = border.search(body, place, start + 2 * window)
        if match is None:
            return None
        texts = _decoded(body, start, match.start())
        if texts is not None:
            return texts, match.start() + 1
        place = match.end()
    return None


def _decoded(body: bytes, start: int, stop: int) -> list[msgspec.Raw] | None:
    try:
        return _elements.decode(b"".join((b"[", memoryview(body)[start:stop], b"]")))
    except (msgspec.DecodeError, RecursionError):
        return None
