"""``local env``: shell lines that point any client at the embedded platform."""

from __future__ import annotations

import shlex
import sys

import asyncclick

from prime_async_cli import streams
from prime_async_cli.command import command
from prime_async_cli.options import output_option
from prime_async_cli.session import Session, pass_session

__all__ = ["env"]


@command(
    "env",
    examples="""
    eval "$(prime-async local env)"
    prime-async local env --shell fish | source
    """,
)
@asyncclick.option(
    "--shell",
    type=asyncclick.Choice(["sh", "fish"]),
    default="sh",
    show_default=True,
    help="The language of the lines; sh is for bash and zsh as well.",
)
@output_option
@pass_session
async def env(session: Session, shell: str) -> None:
    """Print the variables that point any client at it, the official ones too.

    The platform is started when it does not run. The lines hold its key, which is good on this
    machine only.
    """
    from prime_async import local

    address = await local.ensure_running()
    for note in address.notes:
        session.output.warn(note)
    variables = address.environment()
    if session.output.json:
        session.output.document(variables)
        return
    for name, value in variables.items():
        session.output.text(_line(shell, name, value))
    if streams.is_terminal(sys.stdout):
        session.output.note('# to use them: eval "$(prime-async local env)"')


def _line(shell: str, name: str, value: str) -> str:
    if shell == "fish":
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"set -gx {name} '{escaped}'"
    return f"export {name}={shlex.quote(value)}"
