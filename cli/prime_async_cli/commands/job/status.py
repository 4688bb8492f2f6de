"""``job status``, ``job cancel`` and ``job list``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.commands.job.handles import handles_argument, handles_of
from prime_async_cli.commands.job.rows import JOBS, LISTED, row_of, state_of
from prime_async_cli.options import Identifier, argument, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.value_types import Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prime_async.sandboxes import AsyncSandboxClient, BackgroundJob, BackgroundJobStatusSnapshot

__all__ = ["cancel", "list_jobs", "show", "status"]

_BATCH = 100
_LONGEST_GRACE = 3600


@command(
    "status",
    examples="""
    prime-async job status SANDBOX/JOB
    prime-async job status --output json < jobs.jsonl
    """,
)
@handles_argument()
@output_option
@pass_session
async def status(session: Session, jobs: tuple[str, ...]) -> int:
    """Show whether jobs have ended, and how.

    Exit code 1 when nothing is known of one. JSON: {"jobs": [...]}, each with "state",
    "completed", "exit_code" and "error".
    """
    handles = handles_of(jobs)
    async with session.sandboxes() as client:
        found = await _look(client, handles)
    show(session, found)
    return 1 if any(one.error_code for one in found) else 0


@command(
    "cancel",
    examples="""
    prime-async job cancel SANDBOX/JOB
    prime-async job cancel --grace 30 < job.json
    """,
)
@handles_argument()
@asyncclick.option(
    "--grace",
    type=Seconds(0, _LONGEST_GRACE),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Between SIGTERM and SIGKILL.",
)
@output_option
@pass_session
async def cancel(session: Session, jobs: tuple[str, ...], grace: float) -> int:
    """End jobs, with everything in their process groups; those that have ended are left alone.

    Exit code 1 when one could not be ended. JSON as that of status.
    """
    from prime_async.errors import PrimeError
    from prime_async.sandboxes import BackgroundJobStatusSnapshot

    found: list[BackgroundJobStatusSnapshot] = []
    async with session.sandboxes() as client:
        for job in handles_of(jobs):
            try:
                found.append(await client.cancel_background_job(job, grace))
            except PrimeError as error:
                found.append(
                    BackgroundJobStatusSnapshot(
                        sandbox_id=job.sandbox_id,
                        job_id=job.job_id,
                        error_code=getattr(error, "code", None) or type(error).__name__,
                        error=str(error),
                    )
                )
    show(session, found)
    return 1 if any(one.error_code for one in found) else 0


@command("list", examples="prime-async job list ID")
@argument("sandbox_id", type=Identifier(), metavar="ID", help="The id of the sandbox.")
@output_option
@pass_session
async def list_jobs(session: Session, sandbox_id: str) -> None:
    """List the jobs of a sandbox, the oldest first.

    JSON: {"jobs": [...]}, each a handle with "state", "exit_code", "started_at" and the beginning
    of its "command".
    """
    async with session.sandboxes() as client:
        found = await client.list_background_jobs(sandbox_id)
    rows = [row_of(one) for one in found]
    if session.output.json:
        session.output.document({"jobs": rows})
    elif rows:
        session.output.table(rows, LISTED)
    else:
        session.output.note(f"no jobs in sandbox {sandbox_id}")


def show(session: Session, found: Sequence[Any]) -> None:
    """Print statuses as a document or a table."""
    rows = [{**row_of(one), "state": state_of(one)} for one in found]
    if session.output.json:
        session.output.document({"jobs": rows})
    else:
        session.output.table(rows, JOBS)


async def _look(
    client: AsyncSandboxClient, handles: list[BackgroundJob]
) -> list[BackgroundJobStatusSnapshot]:
    """Look at any number of jobs in any kind of sandbox."""
    from prime_async.errors import BatchStatusUnsupportedError

    found: list[BackgroundJobStatusSnapshot] = []
    for start in range(0, len(handles), _BATCH):
        group = handles[start : start + _BATCH]
        try:
            found += await client.get_background_job_statuses(group)
        except BatchStatusUnsupportedError:
            for job in group:
                found.append(await client.get_background_job_status(job.sandbox_id, job))
    return found
