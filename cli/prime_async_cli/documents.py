"""JSON documents: one per command, indented, never coloured, valid in every encoding."""

from __future__ import annotations

import json
import sys
from typing import Any

from prime_async_cli.streams import takes_unicode
from prime_async_cli.text import escapes_for_json

__all__ = ["document", "line"]


def document(value: Any) -> str:
    """Return ``value`` as one indented JSON document that ends with a line break."""
    return _encode(value, indent=2) + "\n"


def line(value: Any) -> str:
    """Return ``value`` as JSON on one line."""
    return _encode(value, indent=None) + "\n"


def _encode(value: Any, *, indent: int | None) -> str:
    separators = None if indent else (",", ":")
    text = json.dumps(
        value,
        indent=indent,
        separators=separators,
        ensure_ascii=not takes_unicode(sys.stdout),
        allow_nan=False,
        default=_plain,
    )
    # Inside JSON these characters can only stand in strings, where the escape means the same; a
    # terminal obeys them.
    return text.translate(escapes_for_json())


def _plain(value: Any) -> Any:
    """Turn what json does not know into what it does: records of the wire, paths, sets."""
    if hasattr(value, "to_wire"):
        return value.to_wire()
    if hasattr(value, "items"):
        return dict(value)
    if hasattr(value, "__struct_fields__"):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
