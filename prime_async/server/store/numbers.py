"""Which numbers the store can be asked about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["LARGEST", "storable"]

LARGEST = 2**63 - 1
"""SQLite's integers end here, and just below minus this."""


def storable(values: Iterable[Any]) -> bool:
    """Whether all integers among some values fit into the store."""
    return all(-LARGEST <= one <= LARGEST for one in values if isinstance(one, int))
