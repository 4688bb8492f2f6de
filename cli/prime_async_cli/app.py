"""The command tree and the run of one command line."""

from __future__ import annotations

import os
from collections.abc import Sequence

import asyncclick

from prime_async_cli.command import Entry, Group
from prime_async_cli.driver import drive
from prime_async_cli.pages import WIDTH
from prime_async_cli.session import Session
from prime_async_cli.streams import screen_width

__all__ = ["PROGRAM", "main", "root", "run"]

PROGRAM = "prime-async"
COMPLETION_VARIABLE = "_PRIME_ASYNC_COMPLETE"

_WORK = "Work"
_HERE = "This machine"
_ACCOUNT = "Account"

ENTRIES = {
    "eval": Entry("evals:group", "Create, push, read and manage evaluations.", _WORK),
    "sandbox": Entry("sandbox:group", "Run commands in sandboxes, move files.", _WORK),
    "job": Entry(
        "job:group", "Run commands in sandboxes that go on when this one has ended.", _WORK
    ),
    "traces": Entry("traces:group", "Upload, read, search, export and delete traces.", _WORK),
    "runs": Entry("runs:group", "Read and compare runs: evaluations and trainings.", _WORK),
    "demo": Entry(
        "demo:demo", "A real evaluation and a training run in a sandbox, on this machine.", _HERE
    ),
    "local": Entry("local:group", "Start, stop and watch the embedded platform.", _HERE),
    "completion": Entry("completion:completion", "Print the completion script of a shell.", _HERE),
    "config": Entry(
        "config:group", "Read and change the configuration and its contexts.", _ACCOUNT
    ),
    "whoami": Entry(
        "whoami:whoami", "Show the account, team and limits of the key in use.", _ACCOUNT
    ),
}

_HELP = """Evaluations, sandboxes, traces, and the platform behind them, from the command line.

New here: `prime-async demo` shows it on this machine; it needs no account.

Agents and scripts: use --output json; everything but the one document goes to standard error. Exit
codes: 0 done, 1 failed, 2 called wrongly, 130 interrupted, 143 ended by SIGTERM; `sandbox exec`
and `run`, `job wait` and `follow` end with the code of their command.
"""


def _print_version(ctx: asyncclick.Context, _: asyncclick.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from prime_async_cli.__main__ import version_line

        ctx.obj.output.text(version_line())
        raise asyncclick.exceptions.Exit(0)


root = Group(
    PROGRAM,
    ENTRIES,
    root=True,
    help=_HELP,
    params=[
        asyncclick.Option(
            ["-v", "--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Print the version and leave.",
        )
    ],
)


async def run(arguments: Sequence[str], session: Session) -> int:
    """Parse and run one command line; errors are raised, not reported.

    Returns:
        The exit code the command chose.
    """
    try:
        width = max(50, min(WIDTH, screen_width() - 2))
        starting = root.make_context(PROGRAM, list(arguments), obj=session, terminal_width=width)
        async with await starting as ctx:
            return int(await root.invoke(ctx) or 0)
    except asyncclick.exceptions.Exit as leave:
        return leave.exit_code


async def _complete(instruction: str) -> int:
    from asyncclick.shell_completion import shell_complete

    return await shell_complete(root, {"obj": Session()}, PROGRAM, COMPLETION_VARIABLE, instruction)


def main(arguments: Sequence[str]) -> int:
    """Run the command line of this process; every error has been reported when this returns."""
    session = Session()
    ours = _before_dashes(arguments)
    session.output.json = _asks_for_json(ours)
    session.output.plain = "--plain" in ours
    instruction = os.environ.get(COMPLETION_VARIABLE)
    try:
        return drive(_complete(instruction) if instruction else run(arguments, session))
    except SystemExit as ended:  # SIGTERM: nobody is left to read a report
        return int(ended.code or 0)
    except (KeyboardInterrupt, Exception) as error:
        from prime_async_cli.failures import report

        return report(error, session)


def _before_dashes(arguments: Sequence[str]) -> list[str]:
    """Return what may be options of ours: behind ``--`` stands a command for somewhere else."""
    words = list(arguments)
    return words[: words.index("--")] if "--" in words else words


def _asks_for_json(words: Sequence[str]) -> bool:
    """Guess the output mode before parsing, for errors of the parsing itself."""
    followed = any(
        word == "json" and words[place] in ("-o", "--output")
        for place, word in enumerate(words[1:])
    )
    return followed or "--output=json" in words or "-ojson" in words
