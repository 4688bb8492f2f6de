"""What the gateway says no with: bodies that Connect clients and REST clients both read."""

from __future__ import annotations

from typing import Any

import msgspec

from prime_async.connect import Code
from prime_async.server.failures import RequestError
from prime_async.server.runtimes.errors import (
    CommandLostError,
    CommandRefusedError,
    RuntimeUnavailableError,
    SandboxEndedError,
    SandboxFileError,
)

__all__ = ["GatewayError", "gone", "refusal", "translated"]

_FILE_STATUS = {
    "not_found": 404,
    "denied": 403,
    "no_space": 507,
    "too_large": 413,
    "io": 500,
}
_BAD_FILE = 400  # not 409, which the official clients take for "locked, try again"
_TRANSFER_CODES = {"offset": (409, "offset_mismatch"), "checksum": (422, "checksum_mismatch")}


class GatewayError(RequestError):
    """An error answer of the gateway: ``code`` and ``message`` at the top, where Connect wants
    them; ``error`` is an object, or a lone word where the official clients look for one.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        word: bool = False,
        more: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(status, code, message)
        self._word = word
        self._more = more or {}

    def body(self) -> bytes:
        error = self.code if self._word else {"code": self.code, "message": self.message}
        return msgspec.json.encode(
            {
                "code": self.code,
                "message": self.message,
                "detail": self.message,
                "error": error,
                **self._more,
            }
        )


def refusal(code: Code, message: str) -> GatewayError:
    """A refusal with a code of the Connect protocol."""
    return GatewayError(code.status, code.value, message)


def gone(sandbox_id: str, why: str | None, *, rpc: bool) -> GatewayError:
    """The refusal of a sandbox that has ended, as the kind of call wants it."""
    message = f"sandbox {sandbox_id} is not running any more" + (f": {why}" if why else "")
    if rpc:
        return refusal(Code.NOT_FOUND, message)
    return GatewayError(410, "sandbox_terminated", message, word=True)


def translated(error: Exception, sandbox_id: str, *, rpc: bool) -> RequestError | None:
    """The refusal for what a runtime raised; None for what is no refusal."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, SandboxEndedError):
        return gone(sandbox_id, error.reason.message, rpc=rpc)
    if isinstance(error, CommandRefusedError):
        message = f"{error.field}: {error.message}"
        if rpc:
            return refusal(Code.INVALID_ARGUMENT, message)
        return GatewayError(422, "command_refused", message, more={"field": error.field})
    if isinstance(error, SandboxFileError):
        default = _FILE_STATUS.get(error.code, _BAD_FILE), f"file_{error.code}"
        status, code = _TRANSFER_CODES.get(error.code, default)
        return GatewayError(status, code, error.message)
    if isinstance(error, CommandLostError | RuntimeUnavailableError):
        return GatewayError(503, "unavailable", error.message)
    return None
