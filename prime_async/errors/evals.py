"""What goes wrong with evaluations and pushes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prime_async.errors.api import APIError, NotFoundError
from prime_async.errors.base import UsageError

if TYPE_CHECKING:
    from prime_async.evals.files import OversizedLine
    from prime_async.evals.receipts import PushReceipt

__all__ = [
    "EnvironmentNotFoundError",
    "EvalsAPIError",
    "EvaluationNotFoundError",
    "InvalidEvaluationError",
    "InvalidSampleError",
    "OversizedSamplesError",
    "PartialPushError",
]


class EvalsAPIError(APIError):
    """Base of the errors particular to evaluations."""


class EnvironmentNotFoundError(EvalsAPIError, NotFoundError):
    """No environment has this id or owner/name."""


class EvaluationNotFoundError(EvalsAPIError, NotFoundError):
    """No evaluation has this id, or it belongs to another account or team."""


class InvalidEvaluationError(EvalsAPIError, UsageError):
    """The evaluation cannot be created from these arguments."""

    def __init__(self, message: str, *, field: str | None = None, **kwargs: Any) -> None:
        APIError.__init__(self, message, **kwargs)
        self.field = field


class InvalidSampleError(EvalsAPIError, UsageError):
    """A sample is not a JSON object, or a source of samples cannot be read.

    Attributes:
        index: position of the sample in the input, from 0, or None.
    """

    def __init__(
        self, message: str, *, index: int | None = None, field: str | None = None, **kwargs: Any
    ) -> None:
        APIError.__init__(self, message, **kwargs)
        self.index = index
        self.field = field


class OversizedSamplesError(InvalidSampleError):
    """Samples of a file are larger than a request may be; raised before anything is created.

    Attributes:
        oversized: each of them: line from 1, sample index from 0, size in bytes.
    """

    def __init__(
        self, message: str, *, oversized: tuple[OversizedLine, ...], **kwargs: Any
    ) -> None:
        super().__init__(message, **kwargs)
        self.oversized = oversized


class PartialPushError(EvalsAPIError):
    """Some samples were not delivered.

    Attributes:
        receipt: the :class:`~prime_async.evals.PushReceipt`: stored, refused, unknown and
            undelivered ranges, the spool path and the token that resumes the push.
    """

    def __init__(self, message: str, *, receipt: PushReceipt, **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        self.receipt = receipt
