"""Questions to the person at the terminal; without one nothing waits, and the command says so.

Questions go to standard error, so that standard output stays clean. Ctrl-C and SIGTERM end them at
once: a running loop alone would only note the signal and wait for Enter.
"""

from __future__ import annotations

import sys

from prime_async_cli import streams
from prime_async_cli.failures import USAGE, CommandError

__all__ = ["confirm", "read_secret"]

_LONGEST_SECRET = 64 * 1024


def confirm(question: str, *, yes: bool) -> bool:
    """Ask before something that cannot be undone; no is the default.

    Args:
        question: what is about to happen, without a question mark.
        yes: the person has said so on the command line.

    Raises:
        CommandError: nobody can answer.
    """
    if yes:
        return True
    if not streams.is_terminal(sys.stdin):
        raise CommandError(
            f"{question}: this needs --yes, because nobody can answer here", code=USAGE
        )
    from prime_async.signals import armed

    with armed(blocking=True):
        streams.write(f"{question}? [y/N] ", error=True)
        answer = sys.stdin.readline()
    if not answer:
        streams.write("\n", error=True)
    return answer.strip().lower() in ("y", "yes")


def read_secret(label: str) -> str:
    """Read a secret without showing it: from the terminal, else the first line of standard input.

    Raises:
        CommandError: there is none.
    """
    from prime_async.signals import armed

    with armed(blocking=True):
        secret = _from_terminal(label) if streams.is_terminal(sys.stdin) else _from_stdin()
    if not secret.strip():
        raise CommandError(
            f"no {label} was given", hint="type it at the prompt, or pipe it in", code=USAGE
        )
    return secret.strip()


def _from_terminal(label: str) -> str:
    import getpass

    try:
        return getpass.getpass(f"{label} (not shown): ", stream=sys.stderr)
    except EOFError:
        streams.write("\n", error=True)
        return ""


def _from_stdin() -> str:
    return sys.stdin.readline(_LONGEST_SECRET) if sys.stdin is not None else ""
