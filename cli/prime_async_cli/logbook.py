"""What the core logs while a command runs: warnings become ours, and PRIME_DEBUG shows the rest."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from prime_async_cli import streams
from prime_async_cli.failures import redact
from prime_async_cli.text import harmless

if TYPE_CHECKING:
    from prime_async_cli.session import Session

__all__ = ["attach"]

_NAME = "prime_async"


class _Handler(logging.Handler):
    def __init__(self, session: Session, *, debug: bool) -> None:
        super().__init__(logging.DEBUG if debug else logging.WARNING)
        self._session = session
        self._debug = debug

    def emit(self, record: logging.LogRecord) -> None:
        text = redact(record.getMessage(), self._session.secrets)
        if self._debug:
            line = f"{record.levelname} {record.name} {harmless(text)}\n"
            streams.write(line, error=True)
        else:
            self._session.output.warn(text)


def attach(session: Session) -> None:
    """Send what the core logs to standard error; a second call replaces the first."""
    debug = bool(os.environ.get("PRIME_DEBUG"))
    logger = logging.getLogger(_NAME)
    for handler in [each for each in logger.handlers if isinstance(each, _Handler)]:
        logger.removeHandler(handler)
    logger.addHandler(_Handler(session, debug=debug))
    logger.propagate = False
    if debug:
        logger.setLevel(logging.DEBUG)
