"""Ids and names as they may appear in paths, and the making of new ids."""

from __future__ import annotations

import re
import secrets

__all__ = ["ID_PATTERN", "NAME_PATTERN", "is_id", "is_name", "new_id"]

ID_PATTERN = "^[A-Za-z0-9_-]{1,64}$"
"""Ids in paths and headers."""

NAME_PATTERN = r"^[^/\\\x00-\x1f\x7f@.\s][^/\\\x00-\x1f\x7f]{0,199}$"
"""Names of environments and owners: no separators or controls, no leading dot, space or ``@``."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME = re.compile(NAME_PATTERN[1:-1])
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


def is_id(text: str) -> bool:
    """Whether text may be an id."""
    return _ID.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Whether text may name an environment or an owner."""
    return _NAME.fullmatch(text) is not None


def new_id() -> str:
    """Make an id in the platform's form: ``c`` and 24 random lower-case letters or digits."""
    return "c" + "".join(secrets.choice(_ALPHABET) for _ in range(24))
