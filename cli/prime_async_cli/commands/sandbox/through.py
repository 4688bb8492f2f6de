"""A command in a sandbox, its streams connected with those of this process."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from prime_async_cli.rawio import Outlet, read_input
from prime_async_cli.rawterminal import raw_terminal, sizes, terminal_size
from prime_async_cli.streams import is_terminal

if TYPE_CHECKING:
    from prime_async.sandboxes import AsyncProcessStream, AsyncSandboxClient, AsyncSandboxProcess

__all__ = ["Job", "Take", "exit_code", "has_input", "on_terminal", "with_input", "without_input"]

Take = Callable[[int, bytes], Awaitable[None]]
"""Takes bytes for standard output (1) or standard error (2)."""

_READER_GONE = 128 + 13


@dataclass(frozen=True, slots=True)
class Job:
    """What to run where.

    Attributes:
        text: for the shell.
        seconds: how long it may take; infinity is no limit.
    """

    sandbox_id: str
    text: str
    working_dir: str | None
    env: Mapping[str, str] | None
    user: str | None
    seconds: float


def exit_code(code: int) -> int:
    """Return the code for this process: of one that a signal ended, 128 and its number."""
    return code if code >= 0 else 128 - code


def has_input() -> bool:
    """Tell whether standard input leads to data: neither a person nor nothing."""
    if sys.stdin is None or is_terminal(sys.stdin):
        return False
    try:
        mode = os.fstat(0)
    except OSError:
        return False
    nothing = stat.S_ISCHR(mode.st_mode) and mode.st_rdev == Path(os.devnull).stat().st_rdev
    return not nothing


async def without_input(client: AsyncSandboxClient, job: Job, take: Take) -> int:
    """Run it, hand on what it writes in the order it comes, and return its exit code."""
    streaming = client.stream_command(
        job.sandbox_id,
        job.text,
        job.working_dir,
        job.env,
        job.seconds,
        job.user,
        max_output_bytes=0,
    )
    try:
        async with streaming as stream:
            async with aclosing(stream.outputs()) as outputs:
                async for name, data in outputs:
                    await take(2 if name == "stderr" else 1, data)
            return exit_code(stream.result.exit_code)
    except BrokenPipeError:
        return _READER_GONE


async def with_input(client: AsyncSandboxClient, job: Job, take: Take) -> int:
    """Run it with our standard input; otherwise as :func:`without_input`."""
    process = await client.open_process(
        job.sandbox_id, job.text, job.working_dir, job.env, job.user
    )
    try:
        async with process:
            return await _in_time(job, lambda: _connected(process, take, _feed))
    except BrokenPipeError:
        return _READER_GONE


async def on_terminal(client: AsyncSandboxClient, job: Job) -> int:
    """Run it on a terminal of the sandbox that is ours: keys, colours and size pass through."""
    env = {"TERM": os.environ.get("TERM") or "xterm", **(job.env or {})}
    process = await client.open_process(
        job.sandbox_id, job.text, job.working_dir, env, job.user, pty=terminal_size()
    )
    async with process:
        with Outlet() as outlet, raw_terminal():
            return await _in_time(job, lambda: _connected(process, outlet.write, _type, _resize))


async def _in_time(job: Job, work: Callable[[], Awaitable[int]]) -> int:
    from prime_async.errors import CommandTimeoutError

    with anyio.move_on_after(job.seconds):
        return await work()
    raise CommandTimeoutError(job.sandbox_id, job.text, job.seconds)


async def _connected(
    process: AsyncSandboxProcess,
    take: Take,
    *senders: Callable[[AsyncSandboxProcess], Awaitable[None]],
) -> int:
    """Pass everything on until the process ends; the first problem of any part ends all."""
    problems: list[Exception] = []

    async def part(work: Awaitable[None], scope: anyio.CancelScope) -> None:
        try:
            await work
        except Exception as error:  # raised below, alone and not in a group
            problems.append(error)
            scope.cancel()

    async with anyio.create_task_group() as everything:
        scope = everything.cancel_scope
        for sender in senders:
            everything.start_soon(part, sender(process), scope)
        async with anyio.create_task_group() as outputs:
            outputs.start_soon(part, _copy(process.stdout, 1, take), scope)
            outputs.start_soon(part, _copy(process.stderr, 2, take), scope)
        scope.cancel()
    if problems:
        raise problems[0]
    return exit_code(await process.wait())


async def _copy(stream: AsyncProcessStream, descriptor: int, take: Take) -> None:
    async for piece in stream:
        await take(descriptor, piece)


async def _feed(process: AsyncSandboxProcess) -> None:
    """Pass our input on, and its end."""
    try:
        async for piece in read_input():
            await process.write_stdin(piece)
    except BrokenPipeError:  # it has ended, or reads no more: as in any pipeline
        return
    await process.close_stdin()


async def _type(process: AsyncSandboxProcess) -> None:
    """Pass keys on; the end of the terminal ends the program, as a hang-up would."""
    try:
        async for keys in read_input():
            await process.write_stdin(keys)
    except BrokenPipeError:
        return
    await process.terminate()


async def _resize(process: AsyncSandboxProcess) -> None:
    async for columns, rows in sizes():
        await process.resize(columns, rows)
