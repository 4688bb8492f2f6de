"""Handles of jobs, checked before anything is sent: ours, the official client's, and none else."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from prime_async.errors import UsageError
from prime_async.sandboxes.jobs.models import BackgroundJob
from prime_async.transport import path_segment

__all__ = ["JobKey", "check_handle", "check_handles", "check_job_id", "key_of", "new_job_id"]

JobKey: TypeAlias = tuple[str, str]
"""Sandbox id and job id."""

_JOB_ID = re.compile(r"[0-9a-f]{8}")
_PARTS = ("job_id", "sandbox_id", "stdout_log_file", "stderr_log_file", "exit_file")


def new_job_id() -> str:
    """Make an id that nobody has."""
    return uuid.uuid4().hex[:8]


def key_of(job: BackgroundJob) -> JobKey:
    """Return what identifies a job."""
    return job.sandbox_id, job.job_id


def check_job_id(job_id: str) -> str:
    """Check an id that the caller chose.

    Raises:
        UsageError: it is not eight hexadecimal digits.
    """
    if not isinstance(job_id, str) or not _JOB_ID.fullmatch(job_id):
        raise UsageError(
            f"job_id is {job_id!r}; it must be eight hexadecimal digits", field="job_id"
        )
    return job_id


def check_handle(
    job: object, sandbox_id: str | None = None, *, field: str = "job"
) -> BackgroundJob:
    """Take a handle of ours, of the official client or of JSON.

    Args:
        job: the handle.
        sandbox_id: the sandbox it must be of, or None.
        field: what the caller knows it as.

    Raises:
        UsageError: it is no handle, has been changed, or is one of another sandbox.
    """
    parts = _parts(job, field)
    name = f"{field} {parts['job_id']!r}"
    if not isinstance(parts["job_id"], str) or not _JOB_ID.fullmatch(parts["job_id"]):
        raise UsageError(
            f"{name} is not the handle of a background job: its job_id is not eight hexadecimal "
            "digits",
            field=field,
        )
    path_segment(parts["sandbox_id"], f"{field}.sandbox_id")
    made = BackgroundJob.of(parts["sandbox_id"], parts["job_id"])
    changed = next((part for part in _PARTS if parts[part] != getattr(made, part)), None)
    if changed is not None:
        raise UsageError(
            f"{name} has the {changed} {parts[changed]!r}, not {getattr(made, changed)!r}",
            field=field,
            hint="pass the handle as start_background_job returned it",
        )
    if sandbox_id is not None and sandbox_id != made.sandbox_id:
        path_segment(sandbox_id, "sandbox_id")
        raise UsageError(
            f"{name} is of sandbox {made.sandbox_id}, not of {sandbox_id}", field="sandbox_id"
        )
    return made


def check_handles(jobs: Iterable[object], *, most: int | None = None) -> list[BackgroundJob]:
    """Check the handles of many jobs.

    Raises:
        UsageError: none, too many, one twice, or one that is none; it names which.
    """
    if isinstance(jobs, str | bytes | Mapping) or not isinstance(jobs, Iterable):
        raise UsageError(f"jobs is a {type(jobs).__name__}, not a list of handles", field="jobs")
    given = list(jobs)
    if not given:
        raise UsageError("jobs is empty", field="jobs")
    if most is not None and len(given) > most:
        raise UsageError(
            f"jobs has {len(given)} handles; {most} are allowed in one request",
            field="jobs",
            hint="wait_background_jobs and as_completed take any number",
        )
    made = [check_handle(job, field=f"jobs[{index}]") for index, job in enumerate(given)]
    first: dict[JobKey, int] = {}
    for index, job in enumerate(made):
        earlier = first.setdefault(key_of(job), index)
        if earlier != index:
            raise UsageError(
                f"jobs[{index}] is jobs[{earlier}] again: {job.job_id!r} of sandbox "
                f"{job.sandbox_id}",
                field="jobs",
            )
    return made


def _parts(job: object, field: str) -> dict[str, Any]:
    if isinstance(job, Mapping) and not isinstance(job, BackgroundJob):
        parts = {part: job.get(part) for part in _PARTS}
    else:
        parts = {part: getattr(job, part, None) for part in _PARTS}
    if None in parts.values():
        raise UsageError(
            f"{field} is a {type(job).__name__}, not the handle of a background job",
            field=field,
            hint="pass what start_background_job returned",
        )
    return parts
