"""``sandbox exec`` and ``sandbox run``: a command in a sandbox as if it ran here."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncclick
from asyncclick import Context

from prime_async_cli.command import Command
from prime_async_cli.commands.sandbox.wishes import make_options, make_request, variables
from prime_async_cli.failures import CommandError
from prime_async_cli.options import Identifier, argument, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.value_types import Seconds, Variable

if TYPE_CHECKING:
    from prime_async.sandboxes import AsyncSandboxClient
    from prime_async_cli.commands.sandbox.through import Job

__all__ = ["exec_", "run"]

_KEPT = 64 * 2**20
_LIKE_AN_ID = re.compile(r"c[a-z0-9]{20,}")
_LONGEST = 31_536_000


class _Runner(Command):
    """A command whose last arguments are another program's command line."""

    async def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        try:
            return await super().parse_args(ctx, args)
        except asyncclick.NoSuchOption as error:
            if "--" in args:
                raise
            raise asyncclick.UsageError(
                f"{error.format_message()} Put `--` before the command that is to run.", ctx
            ) from error


@dataclass(frozen=True, slots=True)
class _How:
    """The options that ``exec`` and ``run`` share."""

    words: tuple[str, ...]
    tty: bool
    no_stdin: bool
    workdir: str | None
    user: str | None
    timeout: float | None

    @property
    def text(self) -> str:
        """For the shell: one word is a line for it, several are passed on word by word."""
        import shlex

        return self.words[0] if len(self.words) == 1 else shlex.join(self.words)


def _run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    option = asyncclick.option
    decorators = [
        option("-t", "--tty", is_flag=True, help="On a terminal: keys, colours and size pass."),
        option("--no-stdin", is_flag=True, help="Leave standard input alone, as in loops."),
        option(
            "-w",
            "--workdir",
            "--working-dir",
            "workdir",
            metavar="DIR",
            help="Where in the sandbox; its own by default.",
        ),
        option("-u", "--user", metavar="NAME", help="Whom to run it as."),
        option(
            "--timeout",
            type=Seconds(0, _LONGEST, min_open=True),
            metavar="SECONDS",
            help="Ends the command after so long; no limit by default.",
        ),
    ]
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


_words = argument(
    "words",
    nargs=-1,
    required=True,
    metavar="-- COMMAND...",
    help="The command; one word alone is a line for the shell.",
)


@asyncclick.command(
    "exec",
    cls=_Runner,
    examples="""
    prime-async sandbox exec ID -- python -c 'print("hello")'
    prime-async sandbox exec ID 'cd /app && ls | wc -l'
    tar c src | prime-async sandbox exec ID -- tar x -C /app
    prime-async sandbox exec ID -t -- bash
    """,
)
@argument("sandbox_id", type=Identifier(), metavar="ID", help="The id of the sandbox.")
@_words
@_run_options
@asyncclick.option(
    "-e",
    "--env",
    "environment",
    type=Variable(),
    multiple=True,
    metavar="NAME[=VALUE]",
    help="A variable for it; NAME alone takes the value it has here.",
)
@output_option
@pass_session
async def exec_(
    session: Session,
    /,
    sandbox_id: str,
    environment: tuple[tuple[str, str], ...],
    **how: Any,
) -> int:
    """Run a command in a sandbox.

    Its output passes through as it is written, standard input unless it is a terminal. The exit
    code is the command's (128 and the number of a signal that ended it). Ctrl-C ends the command.
    JSON: {"sandbox_id", "exit_code", "stdout", "stderr", "truncated", "elapsed"}.
    """
    session.secrets.update(value for _, value in environment)
    wanted = _checked(session, **how)
    async with session.sandboxes() as client:
        return await _execute(session, client, _job(sandbox_id, wanted, environment), wanted)


@asyncclick.command(
    "run",
    cls=_Runner,
    examples="""
    prime-async sandbox run python:3.11 -- python -c 'print(1)'
    prime-async sandbox run ubuntu:24.04 -t -- bash
    prime-async sandbox run python:3.11 --memory-gb 4 --keep 'python train.py > log'
    """,
)
@argument("image", metavar="IMAGE", help="What the sandbox is made from.")
@_words
@_run_options
@make_options
@asyncclick.option("--keep", is_flag=True, help="Leave the sandbox alive, and say its id.")
@output_option
@pass_session
async def run(
    session: Session,
    /,
    image: str,
    words: tuple[str, ...],
    tty: bool,
    no_stdin: bool,
    workdir: str | None,
    user: str | None,
    timeout: float | None,
    keep: bool,
    **wishes: Any,
) -> int:
    """Run a command in a sandbox made for it, and delete it.

    Whatever ends this, Ctrl-C and SIGTERM too, the sandbox goes with it; --keep leaves it alive.
    Output, input, exit code and JSON as those of exec.
    """
    wanted = _checked(
        session,
        words=words,
        tty=tty,
        no_stdin=no_stdin,
        workdir=workdir,
        user=user,
        timeout=timeout,
    )
    request = make_request(session, image, **wishes)
    if _LIKE_AN_ID.fullmatch(image):  # what `run` of the official command takes
        session.next_step = f"in a sandbox that is there: `prime-async sandbox exec {image} …`"
    async with session.sandboxes() as client:
        if not keep:
            async with client.sandbox(request) as sandbox:
                session.next_step = None
                return await _execute(session, client, _job(sandbox.id, wanted), wanted)
        sandbox = await client.create(request)
        session.facts = {"sandbox_id": sandbox.id}
        session.next_step = f"the sandbox is kept: `prime-async sandbox get {sandbox.id}`"
        session.output.note(f"sandbox {sandbox.id} is kept")
        await client.wait_for_creation(sandbox.id)
        return await _execute(session, client, _job(sandbox.id, wanted), wanted)


def _checked(session: Session, **how: Any) -> _How:
    """Check what can be checked before anything is made.

    Raises:
        UsageError, CommandError: the options do not go together, or there is no terminal.
    """
    wanted = _How(**how)
    if not wanted.text.strip():
        raise asyncclick.UsageError("the command is empty")
    if wanted.tty and session.output.json:
        raise asyncclick.UsageError("--tty shows a terminal, not one JSON document")
    if wanted.tty:
        from prime_async_cli.rawterminal import check_terminal

        check_terminal()
    return wanted


def _job(sandbox_id: str, wanted: _How, environment: tuple[tuple[str, str], ...] = ()) -> Job:
    from prime_async_cli.commands.sandbox.through import Job

    seconds = math.inf if wanted.timeout is None else wanted.timeout
    return Job(
        sandbox_id, wanted.text, wanted.workdir, variables(environment), wanted.user, seconds
    )


async def _execute(session: Session, client: AsyncSandboxClient, job: Job, wanted: _How) -> int:
    from prime_async_cli.commands.sandbox.through import has_input, on_terminal
    from prime_async_cli.rawio import Outlet

    reads = not wanted.no_stdin and not wanted.tty and has_input()
    if (wanted.tty or reads) and not (await client.get(job.sandbox_id)).vm:
        if wanted.tty:
            raise CommandError(f"sandbox {job.sandbox_id} is a container, which has no terminals")
        session.output.warn("a container takes no input: standard input is left alone")
        reads = False
    if wanted.tty:
        return await on_terminal(client, job)
    if session.output.json:
        return await _as_document(session, client, job, reads)
    with Outlet() as outlet:
        return await _through(client, job, outlet.write, reads)


async def _as_document(session: Session, client: AsyncSandboxClient, job: Job, reads: bool) -> int:
    from prime_async.sandboxes.output import Tail

    kept = {1: Tail(_KEPT), 2: Tail(_KEPT)}

    async def keep(descriptor: int, data: bytes) -> None:
        kept[descriptor].add(data)

    began = time.monotonic()
    code = await _through(client, job, keep, reads)
    session.output.document(
        {
            "sandbox_id": job.sandbox_id,
            "exit_code": code,
            "stdout": kept[1].text(),
            "stderr": kept[2].text(),
            "truncated": kept[1].truncated or kept[2].truncated,
            "elapsed": round(time.monotonic() - began, 3),
        }
    )
    return code


async def _through(client: AsyncSandboxClient, job: Job, take: Any, reads: bool) -> int:
    from prime_async_cli.commands.sandbox.through import with_input, without_input

    return await (with_input if reads else without_input)(client, job, take)
