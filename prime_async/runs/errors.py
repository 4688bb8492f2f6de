"""Errors of runs. All of them are `PrimeTracesError`, as everything a run raises is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prime_async.errors import PrimeTracesError
from prime_async.traces.errors import APIError, TracesUsageError

if TYPE_CHECKING:
    from prime_async.runs.receipts import FinishReceipt

__all__ = [
    "ConfigurationError",
    "EnvironmentResolutionError",
    "PrimeRunsError",
    "RunFinishedError",
    "UndeliveredError",
]


class PrimeRunsError(PrimeTracesError):
    """Base of the errors particular to runs."""


class ConfigurationError(PrimeRunsError, TracesUsageError):
    """An argument of ``init`` is wrong or missing; raised before any request."""

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        TracesUsageError.__init__(self, message, field=field, hint=hint)


class EnvironmentResolutionError(PrimeRunsError, APIError):
    """An environment of the run does not exist, or cannot be looked up."""

    def __init__(self, message: str, **kwargs: Any) -> None:
        APIError.__init__(self, message, **kwargs)


class RunFinishedError(PrimeRunsError, RuntimeError):
    """The run is finished, or finishing: it takes nothing more."""


class UndeliveredError(PrimeRunsError):
    """With ``on_error="raise"``: records were refused, dropped, spooled or lost.

    Attributes:
        receipt: what became of every record, or None from ``flush``.
    """

    def __init__(
        self, message: str, *, receipt: FinishReceipt | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.receipt = receipt
