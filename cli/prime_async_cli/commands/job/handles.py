"""Jobs on the command line: as ``SANDBOX/JOB``, as JSON, or either from standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import asyncclick
from asyncclick import Context, Parameter, ParamType

from prime_async_cli.options import Decorator, argument
from prime_async_cli.streams import is_terminal

if TYPE_CHECKING:
    from prime_async.sandboxes import BackgroundJob

__all__ = ["Handle", "handle_argument", "handles_argument", "handles_of"]

_MOST_INPUT = 16 * 2**20
_LONGEST = 300


class Handle(ParamType[str]):
    """A job, as text that :func:`handles_of` reads."""

    name = "job"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> str:
        text = str(value).strip()
        if not text:
            self.fail("a job cannot be empty", param, ctx)
        return text


def handles_argument() -> Decorator:
    """Declare the jobs that a command is about."""
    return argument(
        "jobs",
        nargs=-1,
        type=Handle(),
        metavar="[JOB]...",
        help="SANDBOX/JOB or the JSON of a handle; none reads handles from standard input.",
    )


def handle_argument() -> Decorator:
    """Declare the one job that a command is about."""
    return argument(
        "job",
        required=False,
        type=Handle(),
        metavar="[JOB]",
        help="SANDBOX/JOB or the JSON of a handle; none reads one from standard input.",
    )


def handles_of(texts: Sequence[str]) -> list[BackgroundJob]:
    """Read the handles.

    Raises:
        UsageError: there are none, or one is none.
    """
    if not texts and (sys.stdin is None or is_terminal(sys.stdin)):
        raise asyncclick.UsageError(
            "which jobs? Name them as SANDBOX/JOB, or pipe what `prime-async job start` printed."
        )
    given = texts or _pieces(sys.stdin.read(_MOST_INPUT))
    found = [_handle(text) for text in given]
    if not found:
        raise asyncclick.UsageError("there is no handle of a job on standard input")
    return found


def _pieces(text: str) -> Iterator[str]:
    """Yield JSON objects however they are laid out, alone or in a list, and lines of other text."""
    while text := text.lstrip().removeprefix("[").lstrip(" \t\r\n,]"):
        end = text.find("\n") + 1 or len(text)
        if text.startswith("{"):
            try:
                _, end = json.JSONDecoder().raw_decode(text)
            except ValueError:
                end = len(text)  # whoever reads the handle says what is wrong with it
        yield text[:end].strip()
        text = text[end:]


def _handle(text: str) -> BackgroundJob:
    from prime_async.sandboxes import BackgroundJob
    from prime_async.sandboxes.jobs.handles import check_handle

    try:
        if text.lstrip().startswith("{"):
            return check_handle(BackgroundJob.from_json(text))
        sandbox_id, slash, job_id = text.strip().partition("/")
        if not slash:
            raise ValueError(f"{text[:60]!r} is not a job: SANDBOX/JOB, or the JSON of a handle")
        if not (len(text) <= _LONGEST and text.isprintable()):
            raise ValueError("what was given is not a job: SANDBOX/JOB, or the JSON of a handle")
        return check_handle(BackgroundJob.of(sandbox_id, job_id))
    except ValueError as error:
        raise asyncclick.UsageError(str(error)) from error
