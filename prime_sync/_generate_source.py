"""Reads modules of the async core for the generator: syntax tree, imports, aliases, places."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Imported", "RefusalError", "Source", "Sources"]


class RefusalError(Exception):
    """Something public that has no sync form; the text begins with file and line."""


@dataclass(frozen=True)
class Imported:
    """How a module gets a name: ``from module import name`` or, without a name, ``import module``.

    ``runtime`` is False for what is imported under ``TYPE_CHECKING``.
    """

    module: str
    name: str | None
    runtime: bool


@dataclass
class Source:
    """One parsed module."""

    path: Path
    module: str
    text: str
    tree: ast.Module
    imports: dict[str, Imported] = field(default_factory=dict)
    defined: dict[str, ast.stmt] = field(default_factory=dict)

    def refuse(self, node: ast.AST, message: str) -> RefusalError:
        """Make the error that names the place of ``node``."""
        return RefusalError(f"{self.path.as_posix()}:{getattr(node, 'lineno', 1)}: {message}")

    def origin(self, name: str, node: ast.AST) -> Imported | None:
        """Say where another module would import ``name`` from; None for a builtin."""
        if name in self.imports:
            return self.imports[name]
        if name in self.defined:
            return Imported(self.module, name, runtime=True)
        if hasattr(builtins, name):
            return None
        raise self.refuse(node, f"cannot tell where {name} comes from")

    def exports(self) -> list[str]:
        """Return ``__all__``."""
        value = getattr(self.defined.get("__all__"), "value", None)
        if not isinstance(value, ast.List):
            raise self.refuse(self.tree, "has no __all__ list")
        return [str(item.value) for item in value.elts if isinstance(item, ast.Constant)]

    def lazy_exports(self) -> dict[str, str]:
        """Return the table of a package's ``lazy_exports()``: public name to module."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_exports":
                table: dict[str, str] = ast.literal_eval(node.args[1])
                return table
        raise self.refuse(self.tree, "has no lazy_exports() table")

    def segment(self, node: ast.AST) -> str:
        """Return the text of a node, as written."""
        return ast.get_source_segment(self.text, node) or ""


class Sources:
    """All modules below a root folder, parsed when first asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, Source] = {}

    def load(self, module: str) -> Source:
        """Return a module by its dotted name.

        Raises:
            RefusalError: there is no such file.
        """
        if module not in self._known:
            self._known[module] = self._parse(module)
        return self._known[module]

    def definition(self, source: Source, name: str) -> tuple[Source, ast.stmt] | None:
        """Follow a name through imports of our own packages to its definition."""
        while name not in source.defined:
            imported = source.imports.get(name)
            if imported is None or imported.name is None or not self._find(imported.module):
                return None
            source, name = self.load(imported.module), imported.name
        return source, source.defined[name]

    def alias(self, source: Source, name: str) -> tuple[Source, ast.expr] | None:
        """Return what a type alias of our own stands for."""
        found = self.definition(source, name)
        if found is None:
            return None
        home, node = found
        value = getattr(node, "value", None)
        return (home, value) if isinstance(value, ast.expr) else None

    def _find(self, module: str) -> Path | None:
        stem = Path(*module.split("."))
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if (self._root / path).is_file():
                return path
        return None

    def _parse(self, module: str) -> Source:
        path = self._find(module)
        if path is None:
            raise RefusalError(f"{module.replace('.', '/')}:1: there is no such module")
        text = (self._root / path).read_text(encoding="utf-8")
        source = Source(path, module, text, ast.parse(text))
        _read_statements(source, source.tree.body, runtime=True)
        return source


def _read_statements(source: Source, body: list[ast.stmt], *, runtime: bool) -> None:
    for node in body:
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.asname is None:
                    root = name.name.split(".")[0]
                    source.imports[root] = Imported(root, None, runtime)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for name in node.names:
                place = Imported(node.module, name.name, runtime)
                source.imports[name.asname or name.name] = place
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            _read_statements(source, node.body, runtime=False)
        else:
            for target in _targets(node):
                source.defined[target] = node


def _targets(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []
