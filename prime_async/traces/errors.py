"""The family of errors of traces and runs: `PrimeTracesError` and the names users of the official
client catch.

Every class here has two parents: its place in this family, and the error of ``prime_async.errors``
that says the same. So ``except prime_async.NotFoundError`` and ``except
prime_async.traces.NotFoundError`` both work, and ``except PrimeTracesError`` catches everything.

    PrimeTracesError                      .upload .receipts
    ├── TracesConfigError, TracesUsageError, TracesValueError, TracesWrongLoopError,
    │   TracesSpoolError, TracesLocalError    the error of that name in prime_async.errors
    ├── TraceTooLargeError (UsageError)       .line_number .size .limit
    └── APIError                          .status .code .ambiguous … of prime_async.errors.APIError
        ├── UnauthorizedError 401, PaymentRequiredError 402, ForbiddenError 403,
        │   NotFoundError 404, MethodNotAllowedError 405, PayloadTooLargeError 413,
        │   ValidationError 422
        ├── ValidationRejectedError 400       a line, or the whole request, is refused
        ├── LineFormatConflictError 409       the bytes are stored under the other line format
        ├── TraceNotIndexedError 409          nodes and calls of the trace are not indexed yet
        ├── RetryableAPIError                 the platform asks to come back later
        │   ├── RateLimitError 429
        │   └── ServiceBusyError 502, 503, 504
        ├── ServerError                       any other 5xx
        ├── AmbiguousDeleteError              a delete that may have been carried out
        ├── ProtocolError                     an answer that is not what the wire promises
        └── TransportError                    no answer arrived
            ├── APIConnectionError
            └── APITimeoutError (TimeoutError)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prime_async import errors
from prime_async.errors import PrimeError, PrimeTracesError
from prime_async.traces.codes import ErrorCode

__all__ = [
    "APIConnectionError",
    "APIError",
    "APITimeoutError",
    "AmbiguousDeleteError",
    "ForbiddenError",
    "LineFormatConflictError",
    "MethodNotAllowedError",
    "NotFoundError",
    "PayloadTooLargeError",
    "PaymentRequiredError",
    "PrimeTracesError",
    "ProtocolError",
    "RateLimitError",
    "RetryableAPIError",
    "ServerError",
    "ServiceBusyError",
    "TraceNotIndexedError",
    "TraceTooLargeError",
    "TracesConfigError",
    "TracesLocalError",
    "TracesSpoolError",
    "TracesUsageError",
    "TracesValueError",
    "TracesWrongLoopError",
    "TransportError",
    "UnauthorizedError",
    "ValidationError",
    "ValidationRejectedError",
    "adopted",
    "in_family",
]


class TracesConfigError(errors.ConfigError, PrimeTracesError):
    """A configuration file or setting cannot be used; see :class:`prime_async.ConfigError`."""


class TracesUsageError(errors.UsageError, PrimeTracesError):
    """An argument is wrong; raised before any request. ``ValueError`` too."""


class TracesValueError(errors.ValueEncodingError, TracesUsageError):
    """A record cannot be written as JSON; ``.path`` says where, such as ``records[7].info.x``."""


class TracesWrongLoopError(errors.WrongLoopError, PrimeTracesError):
    """A client belongs to one event loop and was used from another that is alive as well."""


class TracesSpoolError(errors.SpoolError, PrimeTracesError):
    """The local spool cannot be read, written or locked; ``.path`` says what."""


class TracesLocalError(errors.LocalPlatformError, PrimeTracesError):
    """The embedded platform cannot be started, stopped or reached."""


class TraceTooLargeError(TracesUsageError):
    """A line is larger than the platform takes; found here, nothing of its batch was sent.

    Attributes:
        line_number: of the line, from 1.
        size: its bytes, without line feeds at its end.
        limit: the bytes a line may have.
    """

    def __init__(self, line_number: int, size: int, limit: int) -> None:
        super().__init__(
            f"line {line_number} has {size:,} bytes, more than the {limit:,} a line may have",
            field=f"line {line_number}",
            hint="a trace or an episode cannot be split over lines",
        )
        self.line_number = line_number
        self.size = size
        self.limit = limit


class APIError(errors.APIError, PrimeTracesError):
    """A request to the traces service failed; attributes as :class:`prime_async.APIError`."""


class UnauthorizedError(APIError, errors.UnauthorizedError):
    """HTTP 401, or no API key is configured."""


class PaymentRequiredError(APIError, errors.PaymentRequiredError):
    """HTTP 402: the account or team has no credit left."""


class ForbiddenError(APIError, errors.ForbiddenError):
    """HTTP 403: the key lacks a scope (code ``forbidden``), or the service is not enabled for the
    account (code ``service_not_enabled``).
    """


class NotFoundError(APIError, errors.NotFoundError):
    """HTTP 404: no such trace, episode or run."""


class MethodNotAllowedError(APIError, errors.MethodNotAllowedError):
    """HTTP 405: the platform does not know this way of asking."""


class ValidationRejectedError(APIError, errors.BadRequestError):
    """HTTP 400: the platform refused the request; of an upload nothing was stored."""

    @property
    def bad_lines(self) -> tuple[int, ...]:
        """The lines of the request that are at fault, from 1, where the platform names them: the
        embedded one does, a hundred at most.
        """
        named = self.details.get("lines") if isinstance(self.details, dict) else None
        lines = [entry.get("line") for entry in named or () if isinstance(entry, dict)]
        return tuple(line for line in lines if isinstance(line, int))


class LineFormatConflictError(APIError, errors.ConflictError):
    """HTTP 409: the same bytes are stored under the other line format."""


class TraceNotIndexedError(APIError, errors.ConflictError):
    """HTTP 409 with code ``trace_not_indexed``: nodes and calls are not there yet; ask later."""


class PayloadTooLargeError(APIError, errors.PayloadTooLargeError):
    """HTTP 413: the request is larger than something on the way takes."""


class ValidationError(APIError, errors.ValidationError):
    """HTTP 422: the platform refused fields of the request; ``.errors`` lists them."""


class RetryableAPIError(APIError):
    """HTTP 429, 502, 503 or 504, after all tries: the same request may succeed later.

    ``.retry_after`` is what the platform asked to wait, in seconds, or None.
    """


class RateLimitError(RetryableAPIError, errors.RateLimitError):
    """HTTP 429."""


class ServerError(APIError, errors.ServerError):
    """HTTP 5xx."""


class ServiceBusyError(RetryableAPIError, ServerError):
    """HTTP 502, 503 or 504."""


class AmbiguousDeleteError(APIError):
    """A delete may have been carried out, and no answer tells.

    Repeating it answers 404 when it was. ``status`` and ``code`` are None when no answer arrived.
    """


class ProtocolError(APIError, errors.ProtocolError):
    """The answer arrived but is not what the wire promises."""


class TransportError(APIError, errors.TransportError):
    """No usable answer arrived: connection, TLS, name resolution or time."""


class APIConnectionError(TransportError, errors.APIConnectionError):
    """The connection was refused, reset or could not be made."""


class APITimeoutError(TransportError, errors.APITimeoutError):
    """A limit ended the call; ``.budget`` and ``.seconds`` say which."""


_BY_STATUS: dict[int, type[APIError]] = {
    429: RateLimitError,
    502: ServiceBusyError,
    503: ServiceBusyError,
    504: ServiceBusyError,
}
"""Statuses whose place in this family says more than that in the other tree."""

_TWINS: tuple[tuple[type[PrimeError], type[PrimeTracesError]], ...] = (
    (errors.ValueEncodingError, TracesValueError),
    (errors.UsageError, TracesUsageError),
    (errors.ConfigError, TracesConfigError),
    (errors.WrongLoopError, TracesWrongLoopError),
    (errors.SpoolError, TracesSpoolError),
    (errors.LocalPlatformError, TracesLocalError),
    (errors.APITimeoutError, APITimeoutError),
    (errors.APIConnectionError, APIConnectionError),
    (errors.TransportError, TransportError),
    (errors.ProtocolError, ProtocolError),
    (errors.UnauthorizedError, UnauthorizedError),
    (errors.PaymentRequiredError, PaymentRequiredError),
    (errors.ForbiddenError, ForbiddenError),
    (errors.NotFoundError, NotFoundError),
    (errors.MethodNotAllowedError, MethodNotAllowedError),
    (errors.BadRequestError, ValidationRejectedError),
    (errors.ConflictError, LineFormatConflictError),
    (errors.PayloadTooLargeError, PayloadTooLargeError),
    (errors.ValidationError, ValidationError),
    (errors.ServerError, ServerError),
    (errors.APIError, APIError),
)
"""Error of the tree -> its twin here; the first that fits counts."""


def adopted(error: PrimeError) -> PrimeTracesError:
    """Return an error as a member of this family: itself, or its twin with the same attributes,
    cause and traceback.
    """
    if isinstance(error, PrimeTracesError):
        return error
    kind = _twin(error)
    twin = kind.__new__(kind)
    twin.args = error.args
    twin.__dict__.update(error.__dict__)
    twin.__cause__ = error.__cause__
    twin.__suppress_context__ = True
    return twin.with_traceback(error.__traceback__)


def _twin(error: PrimeError) -> type[PrimeTracesError]:
    if isinstance(error, errors.ProtocolError | errors.TransportError):
        pass  # their status, if any, is that of an answer that could not be used
    elif isinstance(error, errors.APIError) and error.code == ErrorCode.TRACE_NOT_INDEXED:
        return TraceNotIndexedError
    elif isinstance(error, errors.APIError) and error.status in _BY_STATUS:
        return _BY_STATUS[error.status]
    return next((twin for kind, twin in _TWINS if isinstance(error, kind)), PrimeTracesError)


@contextmanager
def in_family() -> Iterator[None]:
    """Turn every error of this project that leaves the block into a member of this family."""
    try:
        yield
    except PrimeTracesError:
        raise
    except PrimeError as error:
        raise adopted(error) from error.__cause__
