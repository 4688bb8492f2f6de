"""How values cross between the faces: what the async side is given, and what the user gets back."""

from __future__ import annotations

import ast

from prime_sync._generate_layout import Call, line, lines_of
from prime_sync._generate_source import Source
from prime_sync._generate_types import Types

__all__ = ["Values"]


class Values:
    """Writes what unwraps sync clients on their way in and wraps async ones on their way out."""

    def __init__(self, source: Source, types: Types) -> None:
        self._source = source
        self._types = types

    def handed(self, argument: ast.arg) -> str:
        """Write what the async side gets for a parameter.

        Raises:
            RefusalError: a client inside a container, a callback that cannot run off the loop.
        """
        name, annotation = argument.arg, argument.annotation
        assert annotation is not None
        if self._types.callback(annotation):
            return f"mail.run_callback({name})"
        if not self._types.has_twin(annotation):
            return name
        members = self._types.union(annotation)
        twins = [twin for twin in map(self._types.twin, members) if twin is not None]
        if len(twins) != sum(map(self._types.has_twin, members)):
            raise self._source.refuse(argument, f"{name}: an async client inside a container")
        if len(members) == 1:
            return f"{name}._async"
        self._types.evaluated.update(dict.fromkeys(twins, annotation))
        kinds = twins[0] if len(twins) == 1 else f"({', '.join(twins)})"
        return f"{name}._async if isinstance({name}, {kinds}) else {name}"

    def returned(self, made: str | Call, annotation: ast.expr, me: str, depth: int) -> list[str]:
        """Write the end of a function: return what ``made`` gives, wrapped if it is a client.

        ``me`` is what the function calls ``self`` or ``cls``.

        Raises:
            RefusalError: a client where it cannot be wrapped.
        """
        if isinstance(annotation, ast.Constant) and annotation.value is None:
            return lines_of(made, depth)
        items = self._types.argument_of(annotation, "list")
        if items is not None and (wrap := self.wrapper(items, me)):
            lines = lines_of(made, depth, before="items = ")
            return [*lines, line(f"return [{wrap}(item) for item in items]", depth)]
        some = [part for part in self._types.union(annotation) if not _is_none(part)]
        if len(some) == 1 and some[0] is not annotation and (wrap := self.wrapper(some[0], me)):
            lines = lines_of(made, depth, before="made = ")
            return [*lines, line(f"return None if made is None else {wrap}(made)", depth)]
        if wrap := self.wrapper(annotation, me):
            made = Call(wrap, [made])
        return lines_of(made, depth, before="return ")

    def wrapper(self, annotation: ast.expr, me: str) -> str | None:
        """Write what makes the sync client of an async one; None for data.

        Raises:
            RefusalError: a client inside something else.
        """
        if isinstance(annotation, ast.Name) and annotation.id == "Self":
            return f"{me}._from_async"
        twin = self._types.twin(annotation)
        if twin is None:
            if self._types.has_twin(annotation):
                raise self._source.refuse(annotation, "a result that holds async clients")
            return None
        self._types.evaluated.setdefault(twin, annotation)
        return f"{twin}._from_async"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
