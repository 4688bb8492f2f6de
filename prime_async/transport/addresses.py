"""What of a request is text from outside: ids in paths, queries, headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from prime_async.errors import UsageError

__all__ = ["check_headers", "check_method", "path_segment", "query_pairs"]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def path_segment(value: str, field: str) -> str:
    """Make an id safe inside a path.

    Raises:
        UsageError: empty, not text, or a name that would leave its place (``.``, ``..``, with a
            slash).
    """
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{field} is empty or not text", field=field)
    if value in (".", "..") or "/" in value or "\\" in value:
        raise UsageError(f"{field} {value!r} is not an id", field=field)
    try:
        return quote(value, safe="")
    except UnicodeEncodeError as error:
        raise UsageError(f"{field} {value!r} is not proper text", field=field) from error


def query_pairs(params: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Write a query: None values are left out, lists repeat the name, truth is lower case."""
    pairs: list[tuple[str, str]] = []
    for name, value in (params or {}).items():
        for item in value if isinstance(value, list | tuple) else [value]:
            if item is not None:
                text = str(item).lower() if isinstance(item, bool) else str(item)
                pairs.append((name, text))
    return pairs


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse what would end a header and begin another.

    Raises:
        UsageError: a name is no token, or a value is not one line of text.
    """
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise UsageError(f"{name!r} is not the name of a header", field="headers")
        if not isinstance(value, str) or not value.isprintable():
            raise UsageError(f"the header {name} is not one line of text", field="headers")


def check_method(method: str) -> None:
    """Refuse what is not the name of an HTTP method.

    Raises:
        UsageError: it is not.
    """
    if not isinstance(method, str) or not _TOKEN.fullmatch(method):
        raise UsageError(f"{method!r} is not an HTTP method", field="method")
