"""One form for everything that goes wrong: what, where, why, what next.

For people, on standard error::

    error: evaluation 'abc' was not found
      where: GET http://127.0.0.1:8710/api/v1/evaluations/abc (404, request 01J…)
      why:   …
      next:  `prime-async eval list` shows the ids

With ``--output json`` the last line of standard error is one object: ``{"error": {"type",
"message", "exit_code", …}}``.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from asyncclick import ClickException, Context
from asyncclick import UsageError as ClickUsageError
from asyncclick.exceptions import NoArgsIsHelpError

from prime_async_cli import streams
from prime_async_cli.output import Output
from prime_async_cli.text import harmless, paint

if TYPE_CHECKING:
    from prime_async_cli.session import Session

__all__ = ["CommandError", "Failure", "explain", "report"]

FAILED = 1
USAGE = 2

_LONGEST = 2000
"""Characters of one part of an error; what is longer is somebody's data, not an explanation."""


class CommandError(Exception):
    """A command could not do its work, for a reason that is not an error of the core.

    Args:
        message: what happened.
        hint: what to do next.
        code: the exit code.
        details: more fields for the JSON form.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, code: int = FAILED, **details: Any
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.details = details


@dataclass(slots=True)
class Failure:
    """What is said about an error.

    Attributes:
        kind: class name, for programs.
        message: what happened, to what.
        where: the request, the place in a file, or the command.
        why: the cause in the words of whoever noticed it.
        hint: what to do next.
        code: exit code.
        details: further fields of the JSON form.
    """

    kind: str
    message: str
    where: str | None = None
    why: str | None = None
    hint: str | None = None
    code: int = FAILED
    details: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the object of the JSON form; what is unknown is left out."""
        fields = {
            "type": self.kind,
            "message": self.message,
            "where": self.where,
            "why": self.why,
            "hint": self.hint,
            **self.details,
            "exit_code": self.code,
        }
        return {"error": {name: value for name, value in fields.items() if value is not None}}


def explain(error: BaseException) -> Failure:
    """Say what is known about an error."""
    if isinstance(error, ClickException):
        return _explain_usage(error)
    if isinstance(error, CommandError):
        return Failure(
            "CommandError", error.message, hint=error.hint, code=error.code, details=error.details
        )
    if _was_interrupted(error):
        return Failure("Interrupted", "interrupted", code=130)
    if isinstance(error, streams.OutputError):
        return Failure("OutputError", f"standard output cannot be written: {error}")
    if "prime_async.errors" in sys.modules:  # an error of the core cannot exist without it
        from prime_async_cli.core_failures import explain_core

        explained = explain_core(error)
        if explained is not None:
            return explained
    if isinstance(error, OSError) and error.filename is not None:
        return Failure(
            type(error).__name__,
            f"{error.filename}: {error.strerror or 'cannot be used'}",
            details={"path": str(error.filename)},
        )
    return _explain_unexpected(error)


def _was_interrupted(error: BaseException) -> bool:
    """Ctrl-C; while a module is loaded, an error that it brought about may take its place."""
    if isinstance(error, KeyboardInterrupt):
        return True
    is_ours = isinstance(error, ClickException | CommandError | OSError | streams.OutputError)
    cause = None if is_ours else error.__cause__ or error.__context__
    return cause is not None and _was_interrupted(cause)


def _explain_usage(error: ClickException) -> Failure:
    context: Context | None = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "prime-async"
    message = re.sub(r"\s*\n\s*", " ", error.format_message())  # choices come one to a line
    if not isinstance(error, ClickUsageError):
        return Failure("UsageError", message, code=USAGE)
    return Failure(
        "UsageError",
        message,
        where=path,
        hint=f"`{path} --help` shows what it takes",
        code=USAGE,
    )


def _explain_unexpected(error: BaseException) -> Failure:
    place = traceback.extract_tb(error.__traceback__)
    last = place[-1] if place else None
    return Failure(
        "InternalError",
        f"unexpected {type(error).__name__}: {error}".rstrip(": "),
        where=f"{os.path.basename(last.filename)}:{last.lineno}" if last else None,  # noqa: PTH119
        hint="this is a fault of prime-async; PRIME_DEBUG=1 shows where it happened",
    )


def report(error: BaseException, session: Session) -> int:
    """Write the error to standard error and return the exit code."""
    if isinstance(error, NoArgsIsHelpError):
        streams.write(error.message + "\n", error=True)
        return USAGE
    failure = explain(error)
    failure.hint = session.next_step or failure.hint
    if session.about:
        failure.message = f"{session.about}: {failure.message}"
    failure.details = {**session.facts, **failure.details}
    if os.environ.get("PRIME_DEBUG"):
        lines = "".join(traceback.format_exception(error))
        streams.write(redact(harmless(lines, lines=True), session.secrets), error=True)
    output = session.output
    text = _json(failure) if output.json else _text(failure, output)
    streams.write(redact(text, session.secrets), error=True)
    return failure.code


def _json(failure: Failure) -> str:
    from prime_async_cli.documents import line

    return line(failure.as_json())


def _text(failure: Failure, output: Output) -> str:
    colour = not output.plain and streams.can_colour(sys.stderr)
    lines = [f"{paint('error:', 'red', colour)} {_indented(failure.message)}"]
    for label, value in (("where", failure.where), ("why", failure.why), ("next", failure.hint)):
        if value:
            lines.append(f"  {label + ':':<6} {_indented(value)}")
    return "\n".join(lines) + "\n"


def _indented(text: str) -> str:
    text = text.strip()
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"
    return harmless(shown, lines=True).replace("\n", "\n         ")


def redact(text: str, secrets: set[str]) -> str:
    """Return ``text`` without the keys this process knows."""
    for secret in {*secrets, os.environ.get("PRIME_API_KEY", "")}:
        if len(secret) >= 6:
            text = text.replace(secret, "***")
    return text
