"""``job start``."""

from __future__ import annotations

import shlex

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.commands.sandbox.wishes import variables
from prime_async_cli.options import Identifier, argument, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.value_types import Variable

__all__ = ["start"]


@command(
    "start",
    examples="""
    prime-async job start ID -- python train.py --epochs 100
    prime-async job start ID 'cd /app && make test' > job.json
    prime-async job start ID -- sleep 60 | prime-async job wait
    """,
)
@argument("sandbox_id", type=Identifier(), metavar="ID", help="The id of the sandbox.")
@argument(
    "words",
    nargs=-1,
    required=True,
    metavar="-- COMMAND...",
    help="The command; one word alone is a line for the shell.",
)
@asyncclick.option(
    "-w",
    "--workdir",
    "--working-dir",
    "workdir",
    metavar="DIR",
    help="Where in the sandbox; its own by default.",
)
@asyncclick.option("-u", "--user", metavar="NAME", help="Whom to run it as.")
@asyncclick.option(
    "-e",
    "--env",
    "environment",
    type=Variable(),
    multiple=True,
    metavar="NAME[=VALUE]",
    help="A variable for it; NAME alone takes the value it has here.",
)
@asyncclick.option(
    "--job-id",
    metavar="HEX",
    help="Eight hexadecimal digits: started again with the same ones, it runs once.",
)
@output_option
@pass_session
async def start(
    session: Session,
    sandbox_id: str,
    words: tuple[str, ...],
    workdir: str | None,
    user: str | None,
    environment: tuple[tuple[str, str], ...],
    job_id: str | None,
) -> None:
    """Start a command that goes on by itself, and print its handle.

    The handle is one line of JSON; the other job commands read it from standard input, however it
    is laid out.
    """
    session.secrets.update(value for _, value in environment)
    line = words[0] if len(words) == 1 else shlex.join(words)
    async with session.sandboxes() as client:
        job = await client.start_background_job(
            sandbox_id, line, workdir, variables(environment), user, job_id=job_id
        )
    if session.output.json:
        session.output.document(job.to_wire())
        return
    session.output.text(job.to_json())
    session.output.note(f"follow it: prime-async job follow {job.sandbox_id}/{job.job_id}")
