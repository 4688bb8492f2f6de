"""Lays generated text out in its final form: 100 columns, the same on every Python version."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["WIDTH", "Call", "docstring", "import_block", "line", "lines_of", "signature"]

WIDTH = 100
_STEP = "    "


@dataclass(frozen=True)
class Call:
    """A call whose arguments may be calls."""

    function: str
    arguments: Sequence[str | Call]

    def flat(self) -> str:
        """Write it on one line."""
        texts = (item if isinstance(item, str) else item.flat() for item in self.arguments)
        return f"{self.function}({', '.join(texts)})"


def line(text: str, depth: int) -> str:
    """Indent one line."""
    return f"{_STEP * depth}{text}" if text else ""


def lines_of(what: str | Call, depth: int, before: str = "", after: str = "") -> list[str]:
    """Write an expression on one line if it fits, else a call with one argument per line."""
    flat = line(f"{before}{what if isinstance(what, str) else what.flat()}{after}", depth)
    if isinstance(what, str) or len(flat) <= WIDTH or not what.arguments:
        return [flat]
    lines = [line(f"{before}{what.function}(", depth)]
    for argument in what.arguments:
        lines += lines_of(argument, depth + 1, after=",")
    return [*lines, line(f"){after}", depth)]


def signature(
    name: str, parameters: Sequence[str], returns: str, depth: int, after: str = ":"
) -> list[str]:
    """Write the line, or lines, of a ``def``."""
    return lines_of(Call(f"def {name}", parameters), depth, after=f" -> {returns}{after}")


def docstring(text: str | None, depth: int) -> list[str]:
    """Write a docstring whose lines after the first already stand where they belong."""
    if text is None:
        return []
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    first, *rest = f'"""{escaped}"""'.split("\n")
    return [line(first, depth), *(each.rstrip() for each in rest)]


def import_block(names: Iterable[tuple[str, str | None]]) -> list[str]:
    """Write imports of ``(module, name)`` pairs, sorted in sections; without a name, the module."""
    sections: dict[int, dict[tuple[bool, str], set[str]]] = {}
    for module, name in names:
        section = sections.setdefault(_section(module), {})
        section.setdefault((name is not None, module), set()).update({name} if name else ())
    lines: list[str] = []
    for _, section in sorted(sections.items()):
        lines += [""] if lines else []
        for (named, module), wanted in sorted(section.items()):  # plain imports first
            lines += _import_lines(module, wanted) if named else [f"import {module}"]
    return lines


def _import_lines(module: str, names: Iterable[str]) -> list[str]:
    texts = sorted(names, key=_by_type)
    flat = f"from {module} import {', '.join(texts)}"
    if len(flat) <= WIDTH:
        return [flat]
    return [f"from {module} import (", *(line(f"{text},", 1) for text in texts), ")"]


def _section(module: str) -> int:
    root = module.split(".")[0]
    if root == "__future__":
        return 0
    if root in sys.stdlib_module_names:
        return 1
    return 3 if root in ("prime_async", "prime_sync") else 2


def _by_type(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest; capitals count as small letters within each."""
    kind = 0 if name.isupper() else 1 if name[:1].isupper() else 2
    return kind, name.lower()
