"""Ids and names as they may appear in paths, and the making of new ids."""

from __future__ import annotations

import re
import secrets

__all__ = ["ID_PATTERN", "NAME_PATTERN", "fits", "is_id", "is_name", "new_id", "pattern_of"]

ID_PATTERN = "^[A-Za-z0-9_-]{1,64}$"
"""Ids in paths and headers."""

NAME_PATTERN = r"^[^/\\\x00-\x1f\x7f@.\s][^/\\\x00-\x1f\x7f]{0,199}$"
"""Names of environments and owners: no separators or controls, no leading dot, space or ``@``."""

LONGEST_TEXT = 256

TEXT_PATTERN = r"^[\s\S]{1,256}$"
"""Ids that users choose: any text."""

_NAMED_BY_PEOPLE = frozenset({"owner", "name", "version"})
_CHOSEN_BY_USERS = frozenset({"trace_id", "episode_id", "trace_run_id"})

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME = re.compile(NAME_PATTERN[1:-1])
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


def is_id(text: str) -> bool:
    """Whether text may be an id."""
    return _ID.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Whether text may name an environment or an owner."""
    return _NAME.fullmatch(text) is not None


def pattern_of(parameter: str) -> str:
    """The pattern of a parameter of a path."""
    if parameter in _CHOSEN_BY_USERS:
        return TEXT_PATTERN
    return NAME_PATTERN if parameter in _NAMED_BY_PEOPLE else ID_PATTERN


def fits(parameter: str, value: str) -> bool:
    """Whether text may be the value of a parameter of a path."""
    if parameter in _CHOSEN_BY_USERS:
        return 0 < len(value) <= LONGEST_TEXT
    return is_name(value) if parameter in _NAMED_BY_PEOPLE else is_id(value)


def new_id() -> str:
    """Make an id in the platform's form: ``c`` and 24 random lower-case letters or digits."""
    return "c" + "".join(secrets.choice(_ALPHABET) for _ in range(24))
