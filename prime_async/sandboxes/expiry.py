"""When a token ends."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["expiry_of"]


def expiry_of(text: object) -> float | None:
    """Read an ISO 8601 time as seconds since 1970; without a zone it is UTC; None for anything
    else.
    """
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
