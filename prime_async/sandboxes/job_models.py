"""Wire models of the batch status of background jobs. Client and embedded platform use them."""

from __future__ import annotations

from msgspec import field

from prime_async.models import Record

__all__ = [
    "BackgroundJobLookupError",
    "BackgroundJobStatusSnapshot",
    "BatchBackgroundJobStatusResponse",
]


class BackgroundJobStatusSnapshot(Record):
    """Whether a job has ended, and with which exit code (None while it runs).

    Attributes:
        error_code, error: set by the client on one of many jobs of which nothing can be told: the
            code of :class:`BackgroundJobLookupError`, and why.
    """

    sandbox_id: str
    job_id: str
    completed: bool = False
    exit_code: int | None = None
    error_code: str | None = None
    error: str | None = None


class BackgroundJobLookupError(Record):
    """Why the status of one job cannot be told.

    Attributes:
        code: ``NOT_FOUND``, ``FORBIDDEN``, ``MANAGED``, ``NOT_VM``, ``NOT_RUNNING`` or
            ``RUNTIME_ERROR``; other text may appear.
    """

    sandbox_id: str
    job_id: str
    code: str = "NOT_FOUND"
    message: str = ""


class BatchBackgroundJobStatusResponse(Record):
    """The statuses of many jobs: those that are known, and an error for each other one."""

    statuses: list[BackgroundJobStatusSnapshot] = field(default_factory=list)
    errors: list[BackgroundJobLookupError] = field(default_factory=list)
