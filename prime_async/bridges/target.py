"""What the bridges ask of a run, which `AsyncRun` and `Run` both are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from prime_async.runs.options import BeforeFinish, RunKind, RunStatus

__all__ = ["AnyRun"]


class AnyRun(Protocol):
    """A run, asynchronous or not: all of this is plain code that never waits."""

    @property
    def id(self) -> str:
        """The platform's id of the run."""

    @property
    def kind(self) -> RunKind:
        """Evaluation or training."""

    def log_trace(self, trace: Any) -> None:
        """Log one trace."""

    def log_samples(self, samples: Iterable[Any]) -> None:
        """Log rows of results."""

    def log_metrics(self, metrics: Mapping[str, Any], *, step: int | None = None) -> None:
        """Log a row of metrics."""

    def log_distributions(
        self, distributions: Mapping[str, Iterable[float]], *, step: int | None = None
    ) -> None:
        """Log the values behind metrics."""

    def update_summary(self, values: Mapping[str, Any]) -> None:
        """Merge final metrics."""

    def begin_finish(
        self,
        summary: Mapping[str, Any] | None = None,
        *,
        status: RunStatus | str = RunStatus.COMPLETED,
        error: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Begin to end the run and return at once."""

    def before_finish(self, callback: BeforeFinish) -> None:
        """Have a function called when the run begins to end."""
