"""The daemon's log: private from its creation, bounded, holding what the process prints too."""

from __future__ import annotations

import io
import logging
import logging.handlers
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

__all__ = [
    "KEPT",
    "LARGEST_BYTES",
    "LogFile",
    "configure_logging",
    "open_private",
    "redirect_output",
]

LARGEST_BYTES = 5 << 20
KEPT = 3


class LogFile(logging.handlers.RotatingFileHandler):
    """Rotates at 5 MiB, at the start and later, and keeps three older files (``.1`` is the newest).

    Args:
        path: the log.
        owns_output: standard output and error of the process go to the same file, also after a
            rotation.
    """

    def __init__(self, path: Path, *, owns_output: bool) -> None:
        self._owns_output = owns_output
        super().__init__(path, maxBytes=LARGEST_BYTES, backupCount=KEPT, encoding="utf-8")
        if path.stat().st_size > LARGEST_BYTES:
            self.doRollover()

    def _open(self) -> io.TextIOWrapper:
        stream = os.fdopen(open_private(self.baseFilename), "a", encoding="utf-8")
        if self._owns_output:
            redirect_output(stream.fileno())
        return stream


def open_private(path: str) -> int:
    """Open a file for appending that nobody else can read, and return its descriptor."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def redirect_output(descriptor: int) -> None:
    """Let standard output and error of this process, and of those it starts, go to an open file."""
    for target in (1, 2):
        os.dup2(descriptor, target)


class _Lines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802  # the name logging calls
        moment = datetime.fromtimestamp(record.created, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def configure_logging(path: Path, *, foreground: bool) -> None:
    """Send the platform's events, and warnings of everything else, to the log.

    Args:
        path: the log.
        foreground: write to standard error as well, and leave standard output alone.
    """
    handlers: list[logging.Handler] = [LogFile(path, owns_output=not foreground)]
    if foreground:
        handlers.append(logging.StreamHandler(sys.stderr))
    root = logging.getLogger()
    for handler in handlers:
        handler.setFormatter(_Lines())
        root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("prime_async").setLevel(logging.INFO)
    logging.captureWarnings(True)
