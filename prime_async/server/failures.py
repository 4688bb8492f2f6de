"""The one way a handler says no, and the body every error answer has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

__all__ = [
    "ErrorAnswer",
    "ErrorInfo",
    "RequestError",
    "ValidationAnswer",
    "ValidationEntry",
    "invalid",
]


class ErrorInfo(msgspec.Struct, frozen=True):
    """``code`` is for programs, ``message`` for people; ``details`` say where, if known."""

    code: str
    message: str
    details: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET


class ErrorAnswer(msgspec.Struct, frozen=True):
    """Body of an error answer; the official clients look for the message in ``detail``."""

    detail: str
    error: ErrorInfo


class ValidationEntry(msgspec.Struct, frozen=True):
    """One refused field: where it is, what is wrong, and the kind of fault."""

    loc: Sequence[str | int]
    msg: str
    type: str


class ValidationAnswer(msgspec.Struct, frozen=True):
    """Body of a 422 answer."""

    detail: Sequence[ValidationEntry]
    error: ErrorInfo


class RequestError(Exception):
    """A request that is answered with an error.

    Attributes:
        status, code, message: the answer; the message must not hold secrets or paths of this
            machine.
        entries: the refused fields of a 422.
        headers: extra headers of the answer.
        details: more for programs, beside the code.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        entries: Sequence[ValidationEntry] = (),
        headers: Mapping[str, str] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.entries = tuple(entries)
        self.headers = dict(headers or {})
        self.details = details

    def body(self) -> bytes:
        """Encode the JSON body of the answer."""
        details = msgspec.UNSET if self.details is None else self.details
        info = ErrorInfo(self.code, self.message, details)
        answer: Any = ErrorAnswer(self.message, info)
        if self.entries:
            answer = ValidationAnswer(self.entries, info)
        return msgspec.json.encode(answer)


def invalid(loc: Sequence[str | int], msg: str, kind: str = "value_error") -> RequestError:
    """A 422 for one field."""
    where = ".".join(str(part) for part in loc)
    entry = ValidationEntry(tuple(loc), msg, kind)
    return RequestError(422, "validation_error", f"{where}: {msg}", entries=[entry])
