"""Which part of a file a download asks for (RFC 9110: one range, ``If-Range`` by tag)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from prime_async.server.failures import RequestError
from prime_async.server.runtimes.files import FileInfo

__all__ = ["Span", "etag_of", "requested_span"]

_ONE_RANGE = re.compile(r"bytes=(?P<first>\d{0,18})-(?P<last>\d{0,18})")


class Span(NamedTuple):
    """A part of a file, or all of it."""

    start: int
    length: int
    partial: bool


def etag_of(info: FileInfo) -> str:
    """A tag that changes when the file does."""
    return f'"{info.size:x}-{int(info.modified * 1e9):x}"'


def requested_span(headers: Mapping[str, str], etag: str, size: int) -> Span:
    """The part that the headers ask for; several ranges, and one of an older file, mean all of it.

    Raises:
        RequestError: 416, the range is outside the file.
    """
    whole = Span(0, size, False)
    match = _ONE_RANGE.fullmatch(headers.get("Range", "").strip())
    if match is None or headers.get("If-Range", etag) != etag:
        return whole
    first, last = match["first"], match["last"]
    if not first and not last:
        return whole
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
    if start >= end:
        raise RequestError(
            416,
            "range_not_satisfiable",
            f"the file has {size} bytes",
            headers={"Content-Range": f"bytes */{size}"},
        )
    return Span(start, end - start, True)
