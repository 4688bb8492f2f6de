"""How the traces service says no: its codes, and the lines they are about.

The frame around the handlers speaks the platform's own words; :func:`in_traces_words` puts them
into those of the traces wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prime_async.server.failures import RequestError
from prime_async.traces.codes import ErrorCode

__all__ = ["BUSY_SECONDS", "BadLine", "in_traces_words", "refused", "refused_lines"]

BUSY_SECONDS = "2"
"""``Retry-After`` of what may work a moment later."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be stored; lines count from 1, blank ones included."""

    line: int
    code: ErrorCode
    message: str


def refused(
    code: ErrorCode, message: str, *, status: int = 400, headers: Mapping[str, str] | None = None
) -> RequestError:
    """A refusal in the words of the traces wire."""
    return RequestError(status, code.value, message, headers=headers)


def refused_lines(bad: Sequence[BadLine], *, more: bool) -> RequestError:
    """The refusal of an upload for its lines: the first one speaks, ``details`` name them all.

    Args:
        bad: in the order of the lines.
        more: whether there are further ones that are not named.
    """
    first = bad[0]
    lines = [{"line": one.line, "code": one.code.value, "message": one.message} for one in bad]
    return RequestError(
        400,
        first.code.value,
        f"line {first.line}: {first.message}; nothing of the upload was stored",
        details={"line": first.line, "lines": lines, "more": more},
    )


def in_traces_words(failure: RequestError) -> RequestError:
    """Translate a refusal of the frame: key, query string, storage."""
    if failure.code == "unauthorized":
        return _renamed(failure, 401, ErrorCode.UNAUTHENTICATED)
    if failure.code == "validation_error":
        return _renamed(failure, 400, ErrorCode.INVALID_FILTER)
    if failure.code in {"storage_full", "storage_error", "shutting_down"}:
        known = failure.code == "shutting_down"
        code = ErrorCode.INGEST_UNAVAILABLE if known else ErrorCode.STORAGE_UNAVAILABLE
        return _renamed(failure, 503, code, {"Retry-After": BUSY_SECONDS})
    return failure


def _renamed(
    failure: RequestError, status: int, code: ErrorCode, headers: dict[str, str] | None = None
) -> RequestError:
    return RequestError(
        status, code.value, failure.message, headers={**failure.headers, **(headers or {})}
    )


def stored_otherwise(line_format: str) -> RequestError:
    """Make the refusal of bytes that are stored with the other line format."""
    return refused(
        ErrorCode.LINE_FORMAT_CONFLICT,
        f"these bytes were stored as lines of format {line_format!r}",
        status=409,
    )
