"""Structured log lines: ``event key=value …``, for people and programs."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["LOGGER", "log_event"]

LOGGER = logging.getLogger("prime_async.server")


def log_event(level: int, event: str, *, error: BaseException | None = None, **fields: Any) -> None:
    """Log an event with its fields; values with spaces, quotes or control characters are quoted."""
    if not LOGGER.isEnabledFor(level):
        return
    parts = [
        event,
        *(f"{name}={_quoted(value)}" for name, value in fields.items() if value is not None),
    ]
    LOGGER.log(level, " ".join(parts), exc_info=error)


def _quoted(value: Any) -> str:
    text = f"{value:.1f}" if isinstance(value, float) else str(value)
    if text and text.isprintable() and not any(mark in text for mark in ' "=\\'):
        return text
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'
