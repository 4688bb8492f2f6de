"""Handles of background jobs and what is told of them; no I/O here."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from prime_async.models import Record

__all__ = [
    "BackgroundJob",
    "BackgroundJobInfo",
    "BackgroundJobStatus",
    "JobOutputChunk",
]


class BackgroundJob(Record):
    """The handle of a job: all that another process needs to find it again.

    Attributes:
        job_id: eight hexadecimal digits.
        sandbox_id: where it runs.
        stdout_log_file, stderr_log_file: what it writes, as files of the sandbox.
        exit_file: its exit code in decimal, once it has ended.
    """

    job_id: str
    sandbox_id: str
    stdout_log_file: str
    stderr_log_file: str
    exit_file: str

    @classmethod
    def of(cls, sandbox_id: str, job_id: str) -> BackgroundJob:
        """Make the handle of a job by its two ids: the files follow from them."""
        return BackgroundJob(
            job_id=job_id,
            sandbox_id=sandbox_id,
            stdout_log_file=f"/tmp/job_{job_id}.stdout.log",  # noqa: S108 - of the sandbox
            stderr_log_file=f"/tmp/job_{job_id}.stderr.log",  # noqa: S108
            exit_file=f"/tmp/job_{job_id}.exit",  # noqa: S108
        )

    def to_json(self) -> str:
        """Return the handle as JSON, to be stored or piped; the official client reads it too."""
        return msgspec.json.encode(self.to_wire()).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> BackgroundJob:
        """Read a handle that :meth:`to_json`, or the official client, has written.

        Raises:
            ValueError: the text is not the JSON of a handle.
        """
        try:
            wire: Any = msgspec.json.decode(text)
            return BackgroundJob.from_wire(msgspec.convert(wire, dict[str, Any]))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ValueError(f"this is not the handle of a background job: {error}") from error


class BackgroundJobInfo(BackgroundJob):
    """A job as its sandbox lists it; a handle, and what is known of it.

    Attributes:
        state: ``running``, ``completed``, or ``lost`` when it died without an exit code.
        exit_code: once it has completed.
        started_at: seconds since 1970, or None.
        command: its beginning, where the sandbox can tell.
    """

    state: Literal["running", "completed", "lost"] = "running"
    exit_code: int | None = None
    started_at: float | None = None
    command: str | None = None


class BackgroundJobStatus(Record):
    """How a job is, with what it wrote once it has completed.

    Attributes:
        job_id, sandbox_id: which one.
        completed: whether it has ended; then ``exit_code`` is there (128 + N where signal N ended
            its command).
        stdout, stderr: the last 10 MiB of each, what is not UTF-8 replaced by U+FFFD;
            ``download_file(job.sandbox_id, job.stdout_log_file, ...)`` gives all exact bytes.
        stdout_error, stderr_error: why one of them could not be read.
        stdout_truncated, stderr_truncated: whether the beginning is missing.
        error_code, error: why nothing is known of this job, of many that were asked for.
    """

    job_id: str
    completed: bool
    exit_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    stdout_error: str | None = None
    stderr_error: str | None = None
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    sandbox_id: str | None = None
    error_code: str | None = None
    error: str | None = None


class JobOutputChunk(msgspec.Struct, frozen=True):
    """A piece of what a job wrote.

    Attributes:
        stream: where it was written.
        offset: where the piece begins, in bytes from the beginning of the stream.
        data: the exact bytes.
    """

    stream: Literal["stdout", "stderr"]
    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """Where the next piece begins: the offset to go on with."""
        return self.offset + len(self.data)

    @property
    def text(self) -> str:
        """The bytes decoded as UTF-8; a character that is cut through is replaced."""
        return self.data.decode("utf-8", "replace")
