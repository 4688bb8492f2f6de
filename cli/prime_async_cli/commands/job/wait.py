"""``job wait`` and ``job follow``: their exit code is that of the job."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.commands.job.handles import handle_argument, handles_argument, handles_of
from prime_async_cli.commands.job.status import show
from prime_async_cli.options import Number, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.value_types import Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prime_async.sandboxes import AsyncSandboxClient, BackgroundJob, BackgroundJobStatus

__all__ = ["follow", "wait"]

_LONGEST = 31_536_000
_LAST_OFFSET = 2**62
_READER_GONE = 128 + 13

_timeout = asyncclick.option(
    "--timeout",
    type=Seconds(0, _LONGEST, min_open=True),
    metavar="SECONDS",
    help="Waits so long at most; the jobs go on. No limit by default.",
)


@command(
    "wait",
    examples="""
    prime-async job wait SANDBOX/JOB
    prime-async job wait --timeout 3600 < job.json
    """,
)
@handles_argument()
@_timeout
@asyncclick.option("--no-output", is_flag=True, help="Read nothing of what they wrote.")
@output_option
@pass_session
async def wait(
    session: Session, jobs: tuple[str, ...], timeout: float | None, no_output: bool
) -> int:
    """Wait until jobs have ended, and show what they wrote.

    What a single job wrote goes to standard output and standard error, its last 10 MiB; of several
    a table is shown. The exit code is the job's, of several that of the first that failed, and 1
    when nothing is known of one. JSON: {"jobs": [...]} with "stdout" and "stderr".
    """
    handles = handles_of(jobs)
    alone = len(handles) == 1
    async with session.sandboxes() as client:
        found = await client.wait_background_jobs(
            handles,
            timeout=math.inf if timeout is None else timeout,
            output=not no_output and (alone or session.output.json),
        )
    if session.output.json or not alone or found[0].error:
        show(session, found)
    elif not no_output:
        await _write(session, found[0])
    return _code_of(found)


@command(
    "follow",
    examples="""
    prime-async job follow SANDBOX/JOB
    prime-async job follow < job.json > train.log
    """,
)
@handle_argument()
@_timeout
@asyncclick.option(
    "--stdout-offset",
    type=Number(0, _LAST_OFFSET),
    default=0,
    metavar="BYTES",
    help="Passes over so much of its standard output.",
)
@asyncclick.option(
    "--stderr-offset",
    type=Number(0, _LAST_OFFSET),
    default=0,
    metavar="BYTES",
    help="Passes over so much of its standard error.",
)
@output_option
@pass_session
async def follow(
    session: Session,
    job: str | None,
    timeout: float | None,
    stdout_offset: int,
    stderr_offset: int,
) -> int:
    """Show what a job writes, until it has ended.

    Every byte passes through as it was written; the exit code is the job's. Ctrl-C leaves the job
    running. JSON: {"sandbox_id", "job_id", "exit_code", "stdout", "stderr", "stdout_end",
    "stderr_end"}, at the end; the ends are where to go on.
    """
    handles = handles_of(() if job is None else (job,))
    if len(handles) != 1:
        raise asyncclick.UsageError("only one job can be followed at a time")
    offsets = {"stdout": stdout_offset, "stderr": stderr_offset}
    async with session.sandboxes() as client:
        return await _follow(session, client, handles[0], timeout or math.inf, offsets)


async def _follow(
    session: Session,
    client: AsyncSandboxClient,
    job: BackgroundJob,
    timeout: float,
    ends: dict[str, int],
) -> int:
    from prime_async.sandboxes.output import DEFAULT_OUTPUT_BYTES, Tail
    from prime_async_cli.rawio import Outlet

    kept = {name: Tail(DEFAULT_OUTPUT_BYTES) for name in ends}
    chunks = client.follow_background_job(
        job, stdout_offset=ends["stdout"], stderr_offset=ends["stderr"], timeout=timeout
    )
    with Outlet() as outlet:
        try:
            async for chunk in chunks:
                ends[chunk.stream] = chunk.end
                if session.output.json:
                    kept[chunk.stream].add(chunk.data)
                else:
                    await outlet.write(2 if chunk.stream == "stderr" else 1, chunk.data)
        except BrokenPipeError:
            return _READER_GONE
    ended = await client.get_background_job_status(job.sandbox_id, job)
    if session.output.json:
        session.output.document(
            {
                "sandbox_id": job.sandbox_id,
                "job_id": job.job_id,
                "exit_code": ended.exit_code,
                **{name: tail.text() for name, tail in kept.items()},
                **{f"{name}_end": end for name, end in ends.items()},
            }
        )
    return _exit_code(ended.exit_code)


async def _write(session: Session, status: BackgroundJobStatus) -> None:
    from prime_async_cli.rawio import Outlet

    with Outlet() as outlet:
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            text = getattr(status, name)
            await outlet.write(descriptor, (text or "").encode("utf-8", "replace"))
            if getattr(status, f"{name}_truncated"):
                session.output.warn(f"{name}: only its last 10 MiB are shown")
            if error := getattr(status, f"{name}_error"):
                session.output.warn(f"{name}: {error}")


def _code_of(found: Sequence[BackgroundJobStatus]) -> int:
    codes = (1 if one.error else _exit_code(one.exit_code) for one in found)
    return next((code for code in codes if code), 0)


def _exit_code(code: int | None) -> int:
    if code is None:
        return 1
    return code if code >= 0 else 128 - code
