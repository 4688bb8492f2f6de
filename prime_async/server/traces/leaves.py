"""Values of documents, taken for what they can be meant as: anything else is None or empty."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from prime_async.server.store.numbers import LARGEST

__all__ = ["as_integer", "as_list", "as_number", "as_object", "as_text"]


def as_object(value: Any) -> Mapping[str, Any]:
    """An object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """A list; empty for anything else."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str | None:
    """A string that is not empty."""
    return value if isinstance(value, str) and value else None


def as_number(value: Any) -> float | None:
    """A finite number; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def as_integer(value: Any) -> int | None:
    """A whole number that the store can hold; a bool is none."""
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or not -LARGEST <= value <= LARGEST:
        return None
    return int(value)
