"""What goes wrong in a Connect call: a code, a message, and the HTTP status that belongs to it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

__all__ = ["Code", "Failure", "failure_of_answer"]


class Code(enum.StrEnum):
    """The sixteen codes of the protocol."""

    CANCELED = "canceled"
    UNKNOWN = "unknown"
    INVALID_ARGUMENT = "invalid_argument"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    NOT_FOUND = "not_found"
    ALREADY_EXISTS = "already_exists"
    PERMISSION_DENIED = "permission_denied"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    FAILED_PRECONDITION = "failed_precondition"
    ABORTED = "aborted"
    OUT_OF_RANGE = "out_of_range"
    UNIMPLEMENTED = "unimplemented"
    INTERNAL = "internal"
    UNAVAILABLE = "unavailable"
    DATA_LOSS = "data_loss"
    UNAUTHENTICATED = "unauthenticated"

    @property
    def status(self) -> int:
        """The HTTP status a unary answer, or a stream that never began, carries."""
        return _STATUS[self]


_STATUS = {
    Code.CANCELED: 499,
    Code.UNKNOWN: 500,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.ABORTED: 409,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
    Code.DATA_LOSS: 500,
    Code.UNAUTHENTICATED: 401,
}

_OF_STATUS = {
    400: Code.INTERNAL,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.UNIMPLEMENTED,
    429: Code.UNAVAILABLE,
    502: Code.UNAVAILABLE,
    503: Code.UNAVAILABLE,
    504: Code.UNAVAILABLE,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call failed.

    Attributes:
        code: one of the sixteen.
        message: words for people.
        details: what the other side added, as sent.
    """

    code: Code
    message: str = ""
    details: tuple[Any, ...] = field(default=())

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object of the wire."""
        wire: dict[str, Any] = {"code": self.code.value, "message": self.message}
        if self.details:
            wire["details"] = list(self.details)
        return wire

    def to_json(self) -> bytes:
        """Return the body of a failed answer."""
        return msgspec.json.encode(self.to_object())

    @classmethod
    def from_object(cls, wire: Mapping[str, Any]) -> Failure:
        """Read the JSON object; a code that is not a known text counts as unavailable, as the
        official clients have it.
        """
        try:
            code = Code(wire["code"])
        except (KeyError, ValueError):
            code = Code.UNAVAILABLE
        details = wire.get("details")
        message = wire.get("message")
        return cls(
            code,
            message if isinstance(message, str) else "",
            tuple(details) if isinstance(details, list) else (),
        )


def failure_of_answer(status: int, body: bytes) -> Failure:
    """Read an answer that is not 200: its JSON where that has a code, else the status decides."""
    try:
        wire = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        wire = None
    if isinstance(wire, dict) and "code" in wire:
        return Failure.from_object(wire)
    message = ""
    if isinstance(wire, dict):
        message = str(wire.get("message") or wire.get("error") or wire.get("detail") or "")
    return Failure(_OF_STATUS.get(status, Code.UNKNOWN), message or f"HTTP {status}")
