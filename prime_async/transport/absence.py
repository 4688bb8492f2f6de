"""A platform that does not answer while somebody waits: said once, and once that it is back."""

from __future__ import annotations

import logging

from prime_async.errors import APIError, TransportError

__all__ = ["Absence", "is_unanswered"]


class Absence:
    """Notes what became of request after request of one wait.

    Args:
        logger: who is told, with a warning.
        what: what goes on meanwhile, as in "waiting for jobs goes on".
    """

    def __init__(self, logger: logging.Logger, what: str) -> None:
        self._logger = logger
        self._what = what
        self._told = False

    def failed(self, error: object) -> None:
        """A request got no answer, and will be made again."""
        if not self._told:
            self._told = True
            self._logger.warning("the platform does not answer: %s; %s goes on", error, self._what)

    def answered(self) -> None:
        """A request got an answer."""
        if self._told:
            self._told = False
            self._logger.warning("the platform answers again; %s goes on", self._what)


def is_unanswered(error: Exception) -> bool:
    """Whether an error says nothing of what was asked for: the same request may do later."""
    if isinstance(error, TransportError):
        return True
    return isinstance(error, APIError) and (error.retryable or (error.status or 0) >= 500)
