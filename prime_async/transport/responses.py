"""What comes back: answers, and the errors that failed answers become."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from prime_async.errors import (
    APIError,
    NotImplementedByPlatformError,
    PaymentRequiredError,
    ProtocolError,
    UnauthorizedError,
    error_class_for_status,
)
from prime_async.transport.policy import RETRYABLE_STATUSES, SAFE_METHODS, parse_retry_after

__all__ = ["Response", "error_from_response"]

_DETAIL_LIMIT = 4096
_MESSAGE_LIMIT = 600
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")
_SHORTEST_KEY = 6
"""Characters: a shorter one, as tests use them, stands in too many words by chance."""


@dataclass(frozen=True, slots=True)
class Response:
    """A complete answer.

    Attributes:
        status: HTTP status, always 2xx.
        headers: names in any case.
        body: the bytes, inflated.
        key: what is cut out where the body is quoted in an error.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    method: str
    url: str
    key: str | None = field(default=None, repr=False)

    def json(self) -> dict[str, Any]:
        """Decode the JSON object; an empty body (204) is an empty object.

        Raises:
            ProtocolError: the body is not JSON, or not an object.
        """
        if not self.body:
            return {}
        try:
            decoded = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise self.broken(f"is not JSON ({error})") from error
        if not isinstance(decoded, dict):
            raise self.broken(f"is JSON but a {type(decoded).__name__}, not an object")
        return decoded

    def broken(self, what: str) -> ProtocolError:
        """Make the error for an answer that cannot be used."""
        return ProtocolError(
            f"the answer to {self.method} {self.url} {what}",
            status=self.status,
            detail=_excerpt(_without_key(self.body, self.key)),
            request_id=self.headers.get("X-Request-Id"),
            method=self.method,
            url=self.url,
            ambiguous=self.method not in SAFE_METHODS,
            hint="is this address really the platform's API?",
        )


def error_from_response(
    *,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    method: str,
    url: str,
    replayable: bool,
    key: str | None = None,
) -> APIError:
    """Turn a failed answer into the error of its status.

    Reads ``{"detail": …}`` (text, or a list of field errors) and ``{"error": {"code",
    "message"}}``; anything else is quoted in short. A platform that sends the `key` back, as in
    "unknown key sk-…", is not quoted in that.
    """
    request_id = headers.get("X-Request-Id")
    body = _without_key(body, key)
    if request_id is not None:
        request_id = _without_key(request_id.encode(), key).decode()
    detail, code, message, details = _read_fault(body)
    kind = error_class_for_status(status)
    retry_after = parse_retry_after(headers.get("Retry-After"))
    locked = status == 409 and (code == "locked" or retry_after is not None)
    return kind(
        # Without what would move the cursor or colour the terminal that shows it.
        f"HTTP {status} for {method} {url}: {_CONTROLS.sub(' ', message)}"[:_MESSAGE_LIMIT],
        status=status,
        code=code,
        detail=detail,
        details=details,
        request_id=request_id,
        method=method,
        url=url,
        retry_after=retry_after,
        ambiguous=not replayable and (_may_be_done(status) or locked),
        retryable=status in RETRYABLE_STATUSES or locked,
        hint=_hint(kind),
    )


def _may_be_done(status: int) -> bool:
    """Say whether a refusal leaves open what became of the request; 501 does not."""
    return status == 408 or (status >= 500 and status != 501)


def _without_key(text: bytes, key: str | None) -> bytes:
    if key is None or len(key) < _SHORTEST_KEY:
        return text
    return text.replace(key.encode(), b"***")


def _read_fault(body: bytes) -> tuple[Any, str | None, str, Any]:
    """Return detail, code, message and details."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        text = _excerpt(body)
        return text, None, text or "no explanation", None
    if not isinstance(decoded, dict):
        return decoded, None, str(decoded), None
    error = decoded.get("error")
    if error is None and "code" in decoded:  # Connect has code and message at the top
        error = decoded
    elif not isinstance(error, dict):
        error = {"message": error, "code": error if _is_code(error) else None}
    detail = decoded.get("detail", error.get("message"))
    code = error.get("code")
    message = error.get("message") or _in_words(detail) or _in_words(decoded.get("message"))
    known = code if isinstance(code, str) else None
    return detail, known, str(message or _excerpt(body)), error.get("details")


def _is_code(value: Any) -> bool:
    """Say whether a lone ``error`` is a code such as ``sandbox_terminated``, not words."""
    return (
        isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", value) is not None
    )


def _in_words(detail: Any) -> str:
    """One line per refused field: ``name: what is wrong``."""
    if not isinstance(detail, list):
        return "" if detail is None else str(detail)
    lines = []
    for entry in detail:
        if isinstance(entry, dict):
            place = ".".join(str(part) for part in entry.get("loc", ()) if part != "body")
            lines.append(
                f"{place}: {entry.get('msg', '')}" if place else str(entry.get("msg", entry))
            )
        else:
            lines.append(str(entry))
    return "; ".join(lines)


def _hint(kind: type[APIError]) -> str | None:
    if kind is UnauthorizedError:
        return "check PRIME_API_KEY or the key of the current context"
    if kind is PaymentRequiredError:
        return "add credit to the account or team, or choose another team"
    if kind is NotImplementedByPlatformError:
        return "choose a platform that has it, such as the hosted one: PRIME_CONTEXT=production"
    return None


def _excerpt(body: bytes) -> str:
    return body[:_DETAIL_LIMIT].decode("utf-8", "replace").strip()
