"""Somebody who waits for a key, and what may be found for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

__all__ = ["AGAIN", "NO_VALUE", "Answer", "K", "Later", "V", "Waiter"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing could be found out this time: who watches goes on, who asked once gets the error."""

    error: Exception


class _Again:
    """The key belongs into another lane: look at it there, at once."""


AGAIN = _Again()

NO_VALUE = (Later, Exception, _Again, type(None))
"""What an answer is that is no value."""

Answer: TypeAlias = V | Exception | Later | _Again
"""What is found for one key."""


class Waiter(Generic[K, V]):
    """Somebody who waits for a key; made by ``Coalescer.subscribe``.

    Attributes:
        key: what is waited for.
        done: whether there is a result.
    """

    __slots__ = ("_error", "_told", "_value", "done", "key", "least", "until")

    def __init__(
        self,
        key: K,
        until: Callable[[V], bool] | None,
        least: float,
        told: Callable[[Waiter[K, V]], None],
    ) -> None:
        self.key = key
        self.until = until
        self.least = least
        self.done = False
        self._told = told
        self._value: V | None = None
        self._error: Exception | None = None

    def result(self) -> V:
        """Return the value that was found; raises the error in its place."""
        if self._error is not None:
            raise self._error
        assert self._value is not None
        return self._value

    def takes(self, answer: Answer[V]) -> bool:
        """Take an answer if it ends the wait."""
        if isinstance(answer, Later):
            if self.until is not None:
                return False
            self._error = answer.error
        elif isinstance(answer, Exception):
            self._error = answer
        elif isinstance(answer, _Again) or not (self.until is None or self.until(answer)):
            return False
        else:
            self._value = answer
        self.done = True
        self._told(self)
        return True
