"""Standard output and standard error, such that writing to them never fails in an ugly way.

What can go wrong: they are closed (``>&-``), the reader has gone (``| head -1``), the encoding
cannot hold the text (``PYTHONIOENCODING=ascii``, cp1252), the disk is full (``> /dev/full``). A
reader that has gone is no failure: the rest of the output is dropped and the command goes on to its
end. A full disk is one.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing itself takes as long to import as the interpreter to start
if TYPE_CHECKING:
    from typing import TextIO

__all__ = [
    "OutputError",
    "can_colour",
    "close_output",
    "is_terminal",
    "prepare",
    "reader_has_gone",
    "screen_width",
    "takes_unicode",
    "write",
]


class OutputError(Exception):
    """Standard output cannot take what was written: the disk behind it is full or broken."""


_abandoned: list[TextIO] = []


def prepare() -> None:
    """Make both streams writable, whatever the shell gave us; unwritable characters are written
    out."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - lives to the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def write(text: str, *, error: bool = False) -> None:
    """Write and flush. A reader that has gone is remembered and ignored.

    Raises:
        OutputError: standard output cannot be written for another reason.
    """
    stream = sys.stderr if error else sys.stdout
    if _is_abandoned(stream):
        return
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        _abandon(stream)
    except OSError as problem:
        _abandon(stream)
        if not error:
            raise OutputError(problem.strerror or str(problem)) from problem


def reader_has_gone() -> bool:
    """Tell whether standard output leads nowhere any more: a stream of rows may stop."""
    return _is_abandoned(sys.stdout)


def close_output() -> None:
    """Flush what is left, so that the interpreter has nothing to complain about at exit.

    Raises:
        OutputError: standard output cannot be written.
    """
    write("")
    write("", error=True)


def _is_abandoned(stream: TextIO) -> bool:
    return any(stream is known for known in _abandoned)


def _abandon(stream: TextIO) -> None:
    """Point the file descriptor at nothing: what is still buffered must not fail again at exit."""
    _abandoned.append(stream)
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a person looks at this stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def can_colour(stream: TextIO | None) -> bool:
    """Tell whether colours are welcome: a terminal that knows them, and nobody said no."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal(stream)


def takes_unicode(stream: TextIO | None) -> bool:
    """Tell whether every character can be written to this stream as it is."""
    encoding = getattr(stream, "encoding", None) or "ascii"
    return encoding.lower().replace("_", "-").startswith("utf")


def screen_width() -> int:
    """Return the columns of the terminal: ``COLUMNS``, else what the terminal says, else 80.

    As ``shutil.get_terminal_size``, whose import alone takes three milliseconds of every
    ``--help``.
    """
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        return os.get_terminal_size(1).columns or 80
    except (OSError, ValueError):
        return 80
