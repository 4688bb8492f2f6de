"""The headers of Connect calls, and the deadline they carry."""

from __future__ import annotations

import math

__all__ = [
    "STREAM_TYPE",
    "TIMEOUT_HEADER",
    "UNARY_TYPE",
    "parse_timeout",
    "stream_headers",
    "unary_headers",
]

STREAM_TYPE = "application/connect+proto"
UNARY_TYPE = "application/proto"
TIMEOUT_HEADER = "connect-timeout-ms"

_MAX_DIGITS = 10


def stream_headers(seconds: float | None = None) -> dict[str, str]:
    """Return the headers of a call whose answer is a stream.

    Args:
        seconds: when the server must end it; None and infinity send no deadline.
    """
    return {
        "Accept": STREAM_TYPE,
        "connect-protocol-version": "1",
        "connect-content-encoding": "identity",
        "connect-accept-encoding": "identity",
        **_deadline(seconds),
    }


def unary_headers(seconds: float | None = None) -> dict[str, str]:
    """Return the headers of a call with one message each way."""
    return {"Accept": UNARY_TYPE, "connect-protocol-version": "1", **_deadline(seconds)}


def _deadline(seconds: float | None) -> dict[str, str]:
    if seconds is None or math.isinf(seconds):
        return {}
    return {TIMEOUT_HEADER: str(min(max(1, math.ceil(seconds * 1000)), 10**_MAX_DIGITS - 1))}


def parse_timeout(text: str | None) -> float | None:
    """Read the deadline header: seconds, or None where there is none.

    Raises:
        ValueError: not a whole number of at most ten digits.
    """
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        raise ValueError(f"{TIMEOUT_HEADER} is not a number of at most {_MAX_DIGITS} digits")
    return int(text) / 1000
