"""What a platform answers, or fails to answer."""

from __future__ import annotations

from typing import Any

from prime_async.errors.base import PrimeError

__all__ = [
    "APIConnectionError",
    "APIError",
    "APITimeoutError",
    "BadRequestError",
    "ConflictError",
    "ForbiddenError",
    "MethodNotAllowedError",
    "NotFoundError",
    "NotImplementedByPlatformError",
    "PayloadTooLargeError",
    "PaymentRequiredError",
    "ProtocolError",
    "RateLimitError",
    "ServerError",
    "TransportError",
    "UnauthorizedError",
    "ValidationError",
    "error_class_for_status",
]


class APIError(PrimeError):
    """A request to the platform failed.

    Attributes:
        status: HTTP status, or None when no answer arrived (``status_code`` is the same value).
        code: the platform's machine-readable error code, or None.
        detail: the ``detail`` of the answer as sent (text, list or object), at most 4 KiB of text.
        details: what the answer says for programs beside its code, or None.
        request_id: the platform's id of the request, for support.
        method, url: the request; the URL carries no credentials.
        retry_after: seconds the platform asked to wait, or None.
        ambiguous: True when the request may have been carried out although it failed here.
        retryable: True when the same request may well succeed later.
        spent: True when the tries for it are used up, so that whoever asked must not begin anew.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        detail: Any = None,
        details: Any = None,
        request_id: str | None = None,
        method: str | None = None,
        url: str | None = None,
        retry_after: float | None = None,
        ambiguous: bool = False,
        retryable: bool = False,
        hint: str | None = None,
    ) -> None:
        PrimeError.__init__(self, message, hint=hint)
        self.status = status
        self.code = code
        self.detail = detail
        self.details = details
        self.request_id = request_id
        self.method = method
        self.url = url
        self.retry_after = retry_after
        self.ambiguous = ambiguous
        self.retryable = retryable
        self.spent = False

    @property
    def status_code(self) -> int | None:
        """The HTTP status under the name the official clients use."""
        return self.status


class TransportError(APIError):
    """No usable answer arrived: connection, TLS, name resolution or time."""


class APIConnectionError(TransportError):
    """The connection was refused, reset or could not be made."""


class APITimeoutError(TransportError, TimeoutError):
    """A limit ended the call.

    Attributes:
        budget: which limit: ``"connect"``, ``"total"`` or ``"idle"``.
        seconds: its value.
    """

    def __init__(
        self, message: str, *, budget: str = "total", seconds: float = 0.0, **kwargs: Any
    ) -> None:
        APIError.__init__(self, message, **kwargs)
        self.budget = budget
        self.seconds = seconds


class ProtocolError(APIError):
    """The answer arrived but is not what the wire promises (not JSON, wrong shape, cut short)."""


class BadRequestError(APIError):
    """HTTP 400."""


class UnauthorizedError(APIError):
    """HTTP 401, or no API key is configured."""


class PaymentRequiredError(APIError):
    """HTTP 402: the account or team has no credit left."""


class ForbiddenError(APIError):
    """HTTP 403."""


class NotFoundError(APIError):
    """HTTP 404."""


class MethodNotAllowedError(APIError):
    """HTTP 405."""


class ConflictError(APIError):
    """HTTP 409."""


class PayloadTooLargeError(APIError):
    """HTTP 413."""


class ValidationError(APIError):
    """HTTP 422: the platform refused fields of the request.

    Attributes:
        errors: the entries as sent: ``{"loc": [...], "msg": str, "type": str}``.
    """

    @property
    def errors(self) -> list[dict[str, Any]]:
        if not isinstance(self.detail, list):
            return []
        return [entry for entry in self.detail if isinstance(entry, dict)]


class RateLimitError(APIError):
    """HTTP 429."""


class ServerError(APIError):
    """HTTP 5xx."""


class NotImplementedByPlatformError(ServerError):
    """HTTP 501: this platform does not have what was asked for; another one may."""


_BY_STATUS: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    402: PaymentRequiredError,
    403: ForbiddenError,
    404: NotFoundError,
    405: MethodNotAllowedError,
    409: ConflictError,
    413: PayloadTooLargeError,
    422: ValidationError,
    429: RateLimitError,
    501: NotImplementedByPlatformError,
}


def error_class_for_status(status: int) -> type[APIError]:
    """Return the class that stands for an HTTP status."""
    return _BY_STATUS.get(status, ServerError if status >= 500 else APIError)
