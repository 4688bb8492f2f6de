"""Ending jobs and listing them, by commands: every platform that runs commands can do that."""

from __future__ import annotations

import base64
import binascii

from prime_async.errors import (
    APIError,
    APITimeoutError,
    CommandTimeoutError,
    PrimeError,
    ProtocolError,
)
from prime_async.sandboxes.commands import CommandOptions
from prime_async.sandboxes.gateway import Gateway
from prime_async.sandboxes.jobs.handles import key_of
from prime_async.sandboxes.jobs.models import BackgroundJob, BackgroundJobInfo
from prime_async.sandboxes.jobs.script import cancel_script, list_script
from prime_async.sandboxes.jobs.seen import Refused, Seen, read_probe
from prime_async.sandboxes.models import CommandResponse
from prime_async.sandboxes.running import execute

__all__ = ["end_job", "list_jobs", "try_to_end"]


async def end_job(gateway: Gateway, job: BackgroundJob, grace: float, seconds: float) -> Seen:
    """End a job and everything in its process group; returns how it is then.

    Args:
        grace: seconds between SIGTERM and SIGKILL.
        seconds: for all of it.

    Raises:
        APIError: it still runs, or nothing is known of it.
        APITimeoutError, SandboxNotRunningError, SandboxNotFoundError: the sandbox was not told.
    """
    script, what = cancel_script(job.job_id, grace), f"ending job {job.job_id}"
    answer = await _run(gateway, job.sandbox_id, script, seconds, what)
    found = read_probe(job.sandbox_id, answer.stdout).get(key_of(job))
    if isinstance(found, Refused):
        raise found.error()
    if found is None:
        raise ProtocolError(f"ending job {job.job_id} said {answer.stderr.strip()[:200]!r}")
    if not found.completed:
        raise APIError(
            f"job {job.job_id} of sandbox {job.sandbox_id} still runs, even after SIGKILL",
            code="job_not_ended",
        )
    return found


async def try_to_end(gateway: Gateway, job: BackgroundJob, grace: float, seconds: float) -> bool:
    """End a job as far as possible; False when it may still run."""
    try:
        await end_job(gateway, job, grace, seconds)
    except PrimeError:
        return False  # why it is to end is told by the error that is about to be raised
    return True


async def list_jobs(gateway: Gateway, sandbox_id: str, seconds: float) -> list[BackgroundJobInfo]:
    """Return the jobs of a sandbox, those that were started first at the beginning.

    Raises:
        APITimeoutError, SandboxNotRunningError, SandboxNotFoundError: it cannot tell.
    """
    answer = await _run(gateway, sandbox_id, list_script(), seconds, "listing jobs")
    found = [_info(sandbox_id, line) for line in answer.stdout.splitlines()]
    return sorted(found, key=lambda info: (info.started_at or 0.0, info.job_id))


async def _run(
    gateway: Gateway, sandbox_id: str, script: str, seconds: float, what: str
) -> CommandResponse:
    """Run a script of ours; when it is late, the error names what it is for, and no script."""
    try:
        return await execute(gateway, sandbox_id, CommandOptions(script, seconds=seconds), None)
    except CommandTimeoutError as error:
        raise APITimeoutError(
            f"{what} in sandbox {sandbox_id} did not end within {seconds:g} s", seconds=seconds
        ) from error


def _info(sandbox_id: str, line: str) -> BackgroundJobInfo:
    try:
        job_id, state, started, command = line.split(" ")
        code = None if state in ("running", "lost") else int(state)
        started_at = None if started == "-" else float(started)
        text = None if command == "-" else base64.b64decode(command).decode("utf-8", "replace")
    except (ValueError, binascii.Error) as error:
        raise ProtocolError(f"a line of the list of jobs is {line[:100]!r}") from error
    return BackgroundJobInfo(
        **BackgroundJob.of(sandbox_id, job_id).to_wire(),
        state="completed" if code is not None else "lost" if state == "lost" else "running",
        exit_code=code,
        started_at=started_at,
        command=text,
    )
