"""Commands, jobs and transfers that did not end in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prime_async.errors.base import PrimeError

if TYPE_CHECKING:
    from prime_async.sandboxes.jobs.models import BackgroundJob, BackgroundJobStatus

__all__ = [
    "BackgroundJobTimeoutError",
    "BackgroundJobsTimeoutError",
    "CommandTimeoutError",
    "DownloadTimeoutError",
    "UploadTimeoutError",
]


class CommandTimeoutError(PrimeError, RuntimeError, TimeoutError):
    """A command in a sandbox did not end in time; it was told to end.

    Attributes:
        sandbox_id, command, timeout: what ran where, and the seconds it had.
        stdout, stderr: what it had written by then.
        elapsed: seconds since it was started.
    """

    def __init__(
        self,
        sandbox_id: str,
        command: str,
        timeout: float,
        *,
        stdout: str = "",
        stderr: str = "",
        elapsed: float | None = None,
        hint: str | None = None,
    ) -> None:
        shown = command if len(command) <= 50 else f"{command[:50]}…"
        PrimeError.__init__(
            self,
            f"command {shown!r} in sandbox {sandbox_id} timed out after {timeout:g} s",
            hint=hint,
        )
        self.sandbox_id = sandbox_id
        self.command = command
        self.timeout = timeout
        self.stdout = stdout
        self.stderr = stderr
        self.elapsed = timeout if elapsed is None else elapsed


class BackgroundJobTimeoutError(CommandTimeoutError):
    """A background job did not end in time.

    Attributes:
        job: its handle.
        killed: whether it was ended; False when it was to go on, or could not be reached.
        stdout, stderr: the end of what it had written by then.
    """

    def __init__(
        self, job: BackgroundJob, command: str, timeout: float, *, killed: bool, **kwargs: Any
    ) -> None:
        super().__init__(job.sandbox_id, command, timeout, **kwargs)
        self.job = job
        self.killed = killed


class BackgroundJobsTimeoutError(PrimeError, RuntimeError, TimeoutError):
    """Some of the background jobs that were waited for have not ended in time; they go on.

    Attributes:
        statuses: what is known of those that have ended, where it was not handed out before.
        pending: the handles of the others.
    """

    def __init__(
        self,
        statuses: list[BackgroundJobStatus],
        pending: list[BackgroundJob],
        total: int,
        timeout: float,
        *,
        hint: str | None = None,
    ) -> None:
        PrimeError.__init__(
            self,
            f"{len(pending)} of {total} background jobs have not ended within {timeout:g} s",
            hint=hint,
        )
        self.statuses = statuses
        self.pending = pending


class _TransferTimeoutError(PrimeError, RuntimeError, TimeoutError):
    _does = "the transfer of"

    def __init__(
        self, sandbox_id: str, file_path: str, timeout: float, *, hint: str | None = None
    ) -> None:
        PrimeError.__init__(
            self,
            f"{self._does} {file_path!r} in sandbox {sandbox_id} timed out after {timeout:g} s",
            hint=hint,
        )
        self.sandbox_id = sandbox_id
        self.file_path = file_path
        self.timeout = timeout


class UploadTimeoutError(_TransferTimeoutError):
    """An upload to a sandbox did not end in time.

    Attributes:
        sandbox_id, file_path, timeout: where to, and the seconds it had.
    """

    _does = "the upload of"


class DownloadTimeoutError(_TransferTimeoutError):
    """A download from a sandbox did not end in time.

    Attributes:
        sandbox_id, file_path, timeout: where from, and the seconds it had.
    """

    _does = "the download of"
