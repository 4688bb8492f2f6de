"""Parts of addresses: ids in paths, and queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from prime_async.errors import UsageError

__all__ = ["path_segment", "query_pairs"]


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
