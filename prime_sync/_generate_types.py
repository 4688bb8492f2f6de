"""Writes annotations and defaults for the generator, with the sync names in place of the async."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping

from prime_sync._generate_source import RefusalError, Source, Sources

__all__ = ["Types"]

_LOOP_MODULES = ("asyncio", "anyio")


class Types:
    """The expressions of one module's signatures.

    Written here and not by ``ast.unparse``, whose text differs between versions of Python.

    Attributes:
        annotated, evaluated: names used in annotations, and in defaults, so far.
    """

    def __init__(self, sources: Sources, source: Source, twins: Mapping[str, str]) -> None:
        self.annotated: dict[str, ast.expr] = {}
        self.evaluated: dict[str, ast.expr] = {}
        self._sources = sources
        self._source = source
        self._twins = twins

    def annotation(self, node: ast.expr) -> str:
        """Write an annotation, async classes replaced by their sync twins."""
        return self._write(node, self.annotated)

    def default(self, node: ast.expr) -> str:
        """Write the default of a parameter."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in self._twins:
                raise self._refuse(node, "a default cannot be an async client")
        return self._write(node, self.evaluated)

    def twin(self, node: ast.expr) -> str | None:
        """Return the sync class when the annotation is exactly an async class."""
        node = _unquoted(node)
        return self._twins.get(node.id) if isinstance(node, ast.Name) else None

    def has_twin(self, node: ast.expr) -> bool:
        """Say whether an annotation mentions an async class."""
        return any(name in self._twins for name in _names(node))

    def union(self, node: ast.expr) -> list[ast.expr]:
        """Return the members of a union, or the one type."""
        node = _unquoted(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return [*self.union(node.left), *self.union(node.right)]
        return [node]

    def argument_of(self, node: ast.expr, *names: str) -> ast.expr | None:
        """Return ``X`` (the first argument) when the annotation is one of ``names[X]``."""
        node = _unquoted(node)
        if not isinstance(node, ast.Subscript) or _last_name(node.value) not in names:
            return None
        return node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice

    def callback(self, node: ast.expr) -> bool:
        """Say whether a parameter takes a callback.

        Raises:
            RefusalError: a callback that the core would not await could only run on the loop.
        """
        for part in self._resolved(self._source, node):
            if not isinstance(part, ast.Subscript) or _last_name(part.value) != "Callable":
                continue
            shape = part.slice
            result = shape.elts[1] if isinstance(shape, ast.Tuple) else shape
            if not {"Awaitable", "Coroutine"} & set(_names(result)):
                message = "a callback must be allowed to return an awaitable, to run off the loop"
                raise self._refuse(node, message)
            return True
        return False

    def check_parameter(self, node: ast.expr) -> None:
        """Refuse what plain code has no value for.

        Raises:
            RefusalError: an asyncio or anyio object, an async iterable without a plain form.
        """
        names = {name for part in self._resolved(self._source, node) for name in _names(part)}
        for name in sorted(names):
            origin = self._source.imports.get(name)
            if origin is not None and origin.module.split(".")[0] in _LOOP_MODULES:
                raise self._refuse(node, f"{name} of {origin.module} in a public signature")
        if "AsyncIterable" in names and not names & {"Iterable", "Sequence", "list"}:
            raise self._refuse(node, "takes only an async iterable; let it take an iterable too")
        if "AsyncIterator" in names:
            raise self._refuse(node, "takes an async iterator; let it take an iterable")

    def _resolved(self, source: Source, node: ast.expr) -> list[ast.expr]:
        """Return the parts of an annotation, aliases of our own followed."""
        parts: list[ast.expr] = []
        for part in ast.walk(_unquoted(node)):
            if not isinstance(part, ast.expr):
                continue
            parts.append(part)
            if isinstance(part, ast.Name) and part.id not in self._twins:
                found = self._sources.alias(source, part.id)
                if found is not None and found[1] is not node:
                    parts += self._resolved(*found)
        return parts

    def _write(self, node: ast.expr, used: dict[str, ast.expr], *, literal: bool = False) -> str:
        match node:
            case ast.Name():
                used.setdefault(self._twins.get(node.id, node.id), node)
                return self._twins.get(node.id, node.id)
            case ast.Attribute():
                return f"{self._write(node.value, used)}.{node.attr}"
            case ast.Constant():
                return self._constant(node, quoted=literal or used is self.evaluated)
            case ast.Subscript():
                literal = _last_name(node.value) == "Literal"
                inner = self._items(node.slice, used, literal=literal)
                return f"{self._write(node.value, used)}[{inner}]"
            case ast.List():
                return f"[{', '.join(self._write(item, used) for item in node.elts)}]"
            case ast.Tuple():
                items = [self._write(item, used, literal=literal) for item in node.elts]
                return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
            case ast.BinOp(op=ast.BitOr()):
                return f"{self._write(node.left, used)} | {self._write(node.right, used)}"
            case ast.BinOp() | ast.UnaryOp() if used is self.evaluated:
                return self._arithmetic(node)
        raise self._refuse(node, f"cannot write a {type(node).__name__} in a signature")

    def _constant(self, node: ast.Constant, *, quoted: bool) -> str:
        if isinstance(node.value, str):
            # A quoted annotation needs no quotes: the generated modules evaluate none.
            text = json.dumps(node.value, ensure_ascii=False)
            return text if quoted else self.annotation(_unquoted(node))
        if isinstance(node.value, int | float | bytes) and not isinstance(node.value, bool):
            return self._source.segment(node)  # as written: 26_214_400
        return "..." if node.value is ... else str(node.value)

    def _arithmetic(self, node: ast.expr) -> str:
        if node.lineno != node.end_lineno:
            raise self._refuse(node, "a default over several lines")
        self.evaluated.update(
            {part.id: part for part in ast.walk(node) if isinstance(part, ast.Name)}
        )
        return self._source.segment(node)

    def _items(self, node: ast.expr, used: dict[str, ast.expr], *, literal: bool) -> str:
        if isinstance(node, ast.Tuple) and node.elts:
            return ", ".join(self._write(item, used, literal=literal) for item in node.elts)
        return self._write(node, used, literal=literal)

    def _refuse(self, node: ast.AST, message: str) -> RefusalError:
        return self._source.refuse(node, message)


def _unquoted(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            inner = ast.parse(node.value, mode="eval").body
        except SyntaxError:  # no annotation in quotes: a value of a Literal, such as "raise"
            return node
        for part in ast.walk(inner):
            ast.copy_location(part, node)
        return inner
    return node


def _names(node: ast.expr) -> list[str]:
    return [part.id for part in ast.walk(_unquoted(node)) if isinstance(part, ast.Name)]


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
