"""The root of the tree, and what goes wrong on this side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "ConfigError",
    "LocalPlatformError",
    "PrimeError",
    "SpoolError",
    "UsageError",
    "ValueEncodingError",
    "WrongLoopError",
]


class PrimeError(Exception):
    """Root of the tree.

    Attributes:
        hint: one sentence on what to do next, or None.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt by calling their class with their args, and most classes here want
        # more than that: an error that cannot be read breaks the pool whose worker raised it.
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(
    kind: type[PrimeError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> PrimeError:
    # What is found first where a class is a RuntimeError too does not make an OSError.
    new = OSError.__new__ if issubclass(kind, OSError) else kind.__new__
    error: PrimeError = new(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class ConfigError(PrimeError):
    """A configuration file or setting cannot be used.

    Attributes:
        path: the file at fault, or None when the fault is in an environment variable or argument.
        line, column: 1-based place in the file where it is known.
    """

    def __init__(
        self,
        message: str,
        *,
        path: Path | None = None,
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.line = line
        self.column = column


class UsageError(PrimeError, ValueError):
    """An argument is wrong; raised before any request or other side effect.

    Attributes:
        field: name of the argument, or None.
    """

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        PrimeError.__init__(self, message, hint=hint)
        self.field = field


class ValueEncodingError(UsageError, TypeError):
    """A value has no entry in the value table (docs/values.md), or refers to itself.

    Attributes:
        path: where the value sits, such as ``samples[7].info.logits``.
        value_type: name of its type.
    """

    def __init__(
        self, message: str, *, path: str, value_type: str, hint: str | None = None
    ) -> None:
        super().__init__(message, field=path, hint=hint)
        self.path = path
        self.value_type = value_type


class WrongLoopError(PrimeError, RuntimeError):
    """A client belongs to one event loop and was used from another that is alive as well."""


class SpoolError(PrimeError, OSError):
    """The local spool cannot be read, written or locked.

    Attributes:
        path: the segment or folder at fault.
    """

    def __init__(self, message: str, *, path: Path, hint: str | None = None) -> None:
        PrimeError.__init__(self, message, hint=hint)
        self.path = path


class LocalPlatformError(PrimeError):
    """The embedded platform cannot be started, stopped or reached."""
