"""``prime-async completion``: the script that makes a shell complete our commands."""

from __future__ import annotations

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.options import argument
from prime_async_cli.session import Session, pass_session

__all__ = ["completion"]


@command(
    "completion",
    examples="""
    eval "$(prime-async completion bash)"             # in ~/.bashrc
    eval "$(prime-async completion zsh)"              # in ~/.zshrc
    prime-async completion fish > ~/.config/fish/completions/prime-async.fish
    """,
)
@argument(
    "shell",
    type=asyncclick.Choice(["bash", "zsh", "fish"]),
    metavar="SHELL",
    help="bash, zsh or fish.",
)
@pass_session
def completion(session: Session, shell: str) -> None:
    """Print the completion script of a shell.

    Commands, options, fixed choices and the names of contexts are completed.
    """
    from asyncclick.shell_completion import get_completion_class

    from prime_async_cli.app import COMPLETION_VARIABLE, PROGRAM, root

    scripts = get_completion_class(shell)
    assert scripts is not None
    maker = scripts(root, {}, PROGRAM, COMPLETION_VARIABLE)
    session.output.text((maker.source_template % maker.source_vars()).rstrip("\n"))
