"""Lazy package exports: a name is imported when it is first asked for (PEP 562)."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing alone would double the start-up time of `prime-async --version`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["lazy_exports"]


def lazy_exports(
    package: str, exports: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make a package's ``__getattr__`` and ``__dir__``.

    Args:
        package: the package's ``__name__``.
        exports: public name to the module that defines it.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807 - becomes the package's own
        module = exports.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:  # noqa: N807
        return sorted({*exports, *vars(sys.modules[package])})

    return __getattr__, __dir__
