"""``local logs``: the end of the platform's log, and what is added to it."""

from __future__ import annotations

import asyncclick

from prime_async_cli import streams
from prime_async_cli.command import command
from prime_async_cli.failures import CommandError
from prime_async_cli.options import Number, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.tailing import added, last_lines
from prime_async_cli.text import harmless

__all__ = ["logs"]


@command("logs")
@asyncclick.option(
    "-n",
    "--tail",
    type=Number(0, 1_000_000),
    default=100,
    show_default=True,
    help="How many of the last lines.",
)
@asyncclick.option("-f", "--follow", is_flag=True, help="Go on as lines are added, until Ctrl-C.")
@output_option
@pass_session
def logs(session: Session, tail: int, follow: bool) -> None:
    """Show what the platform says; it need not run.

    JSON: {"log", "lines"}; not with --follow.
    """
    from prime_async.local import LocalPaths

    if follow and session.output.json:
        raise asyncclick.UsageError("--follow writes lines as they come, not one JSON document")
    path = LocalPaths.find().log
    if not path.exists():
        raise CommandError(
            f"there is no log yet: {path}", hint="`prime-async local start` starts the platform"
        )
    lines, position = last_lines(path, tail)
    if session.output.json:
        session.output.document({"log": str(path), "lines": lines})
        return
    for line in lines:
        session.output.text(harmless(line))
    if follow:
        for line in added(path, position):
            session.output.text(harmless(line))
            if streams.reader_has_gone():
                return
