"""Classes of other packages, imported when one of ours is first made.

A bridge that must be a subclass of a foreign class is written without it; its ``__new__`` makes the
class that is both. So importing a bridge costs nothing and needs nothing.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, TypeVar

from prime_async.runs.errors import ConfigurationError

__all__ = ["imported", "joined"]

T = TypeVar("T")


def imported(module: str, extra: str) -> Any:
    """Import a module of another package.

    Raises:
        ConfigurationError: it is not installed; names the extra that brings it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"this bridge needs {module.partition('.')[0]}, which cannot be imported: {error}",
            hint=f"pip install 'prime-async[{extra}]'",
        ) from error


def joined(ours: type[T], base: type) -> type[T]:
    """Return the class that is ours and the foreign one; ours as it is, if it is both already."""
    if issubclass(ours, base):
        return ours
    key: Any = ours
    made: type[T] = _joined(key, base)
    return made


@functools.cache
def _joined(ours: type, base: type) -> Any:
    same = {
        "__module__": ours.__module__,
        "__qualname__": ours.__qualname__,
        "__doc__": ours.__doc__,
    }
    return type(ours.__name__, (ours, base), same)
