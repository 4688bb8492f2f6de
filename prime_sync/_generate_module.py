"""Writes one module of the sync facade: classes, functions, and the imports they need."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from prime_sync._generate_docs import Docs
from prime_sync._generate_layout import docstring, line
from prime_sync._generate_members import Function, Members, decorators
from prime_sync._generate_source import Imported, RefusalError, Source, Sources
from prime_sync._generate_types import Types

__all__ = ["Facade", "ModuleWriter"]

_KNOWN = {"asynccontextmanager", "classmethod", "overload", "property", "setter", "staticmethod"}
_FORWARDED = {"__bool__", "__contains__", "__getitem__", "__len__", "__str__"}
_HANDED_OVER = "_handed_over"
"""Method of an async class that is called on the thread that gets the twin, whose it is then."""

_TRANSLATED = {"__aenter__", "__aexit__", "__aiter__"}
_REFUSED = {
    "__anext__": "one hop per item; give the class an __aiter__ that returns an AsyncIterator",
    "__await__": "an object to be awaited has no sync form; give the class a method",
}


@dataclass
class Facade:
    """What all modules of one run share.

    Attributes:
        twins: async class to sync class.
        homes: sync class to the module that will hold it.
        async_only: public names without a sync form, with the reason; ``Class.method`` too.
        bases: async classes that others derive from.
        used: those of ``async_only`` that were met.
        refusals: what could not be expressed.
    """

    sources: Sources
    docs: Docs
    twins: Mapping[str, str]
    homes: Mapping[str, str]
    async_only: Mapping[str, str]
    bases: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    refusals: list[str] = field(default_factory=list)

    def skips(self, name: str) -> bool:
        """Say whether a name is listed as async only."""
        self.used.update({name} & set(self.async_only))
        return name in self.async_only

    def attempt(self, write: Callable[[], list[str]]) -> list[str]:
        """Write, or note the refusal and go on, so that one run names every fault."""
        try:
            return write()
        except RefusalError as refusal:
            self.refusals.append(str(refusal))
            return []


class ModuleWriter:
    """Writes the sync twin of one source module."""

    def __init__(self, facade: Facade, source: Source, target: str) -> None:
        self._facade = facade
        self._source = source
        self._target = target
        self._types = Types(facade.sources, source, facade.twins)
        self._members = Members(source, self._types, facade.docs)

    def write(self, names: set[str]) -> list[str]:
        """Write the twins of these definitions, in the order of the source."""
        lines: list[str] = []
        for name, nodes in _grouped(self._source.tree.body).items():
            if name not in names:
                continue
            if isinstance(nodes[0], ast.ClassDef):
                lines += ["", "", *self._class(nodes[0])]
            else:
                self._members.needed.add(Imported(self._source.module, None, runtime=True))
                write = partial(self._functions, nodes, self._source.module, 0)
                lines += ["", "", *self._facade.attempt(write)]
        return lines

    def imports(self) -> tuple[set[tuple[str, str | None]], set[tuple[str, str | None]]]:
        """Return what the written text imports: always, and for type checkers only."""
        needed = {(place.module, place.name): place.runtime for place in self._members.needed}
        for runtime, used in ((False, self._types.annotated), (True, self._types.evaluated)):
            for name, node in used.items():
                place = self._place(name, node)
                if place is not None:
                    key = (place.module, place.name)
                    needed[key] = needed.get(key, False) or runtime or place.runtime
        always = {key for key, runtime in needed.items() if runtime}
        return always, set(needed) - always

    def _place(self, name: str, node: ast.AST) -> Imported | None:
        home = self._facade.homes.get(name)
        if home is not None:
            return None if home == self._target else Imported(home, name, runtime=False)
        if name.startswith("_"):
            raise self._source.refuse(node, f"{name} is private, in a public signature")
        return self._source.origin(name, node)

    def _class(self, node: ast.ClassDef) -> list[str]:
        sync = self._facade.twins[node.name]
        self._members.needed.add(Imported(self._source.module, node.name, runtime=True))
        bases = [self._types.twin(base) for base in node.bases]
        if None in bases or node.keywords or node.decorator_list:
            message = f"{node.name}: bases need twins, and keywords and decorators have none"
            self._facade.refusals.append(str(self._source.refuse(node, message)))
        self._types.evaluated.update(zip(filter(None, bases), node.bases, strict=False))
        doc = self._facade.docs.adapted(ast.get_docstring(node, clean=False))
        inherited = f"({', '.join(filter(None, bases))})" if bases else ""
        lines = [f"class {sync}{inherited}:", *docstring(doc, 1), "", *self._twin(node)]
        groups = _grouped(node.body)
        if "__init__" not in groups and not bases:
            lines += ["", line("def __init__(self) -> None:", 1)]
            lines.append(line(f"self._async = {self._made_by(node, 'self')}()", 2))
        for name, nodes in groups.items():
            member = self._facade.attempt(partial(self._member, node, name, nodes))
            lines += ["", *member] if member else []
        return lines if bases else [*lines, "", *self._from_async(node)]

    def _twin(self, node: ast.ClassDef) -> list[str]:
        """Declare the async twin, and its class where a base makes the twins of others."""
        lines = [line(f"_async: {node.name}", 1)]
        if node.bases:
            lines.append(line(f"_twin = {node.name}", 1))
        elif node.name in self._facade.bases:
            self._members.needed.add(Imported("typing", "ClassVar", runtime=False))
            lines.append(line(f"_twin: ClassVar[type[{node.name}]] = {node.name}", 1))
        return lines

    def _made_by(self, node: ast.ClassDef, me: str) -> str:
        """Write what makes the async object: its class, or that of the derived class."""
        family = node.bases or node.name in self._facade.bases
        return f"{me}._twin" if family else node.name

    def _from_async(self, node: ast.ClassDef) -> list[str]:
        self._members.needed.add(Imported("typing", "Self", runtime=False))
        told = any(isinstance(one, Function) and one.name == _HANDED_OVER for one in node.body)
        return [
            line("@classmethod", 1),
            line(f"def _from_async(cls, twin: {node.name}) -> Self:", 1),
            line("made = cls.__new__(cls)", 2),
            line("made._async = twin", 2),
            *([line(f"twin.{_HANDED_OVER}()", 2)] if told else []),
            line("return made", 2),
        ]

    def _member(self, owner: ast.ClassDef, name: str, nodes: list[ast.stmt]) -> list[str]:
        node = nodes[0]
        if name == "__init__" and isinstance(node, Function):
            made_by = self._made_by(owner, "self")
            return [*self._members.constructor(node, made_by), *self._attributes(owner, node)]
        if name == "__repr__":
            shown = 'return repr(self._async).removeprefix("Async")'
            return [line("def __repr__(self) -> str:", 1), line(shown, 2)]
        if name in _REFUSED:
            raise self._source.refuse(node, _REFUSED[name])
        known = name in _TRANSLATED | _FORWARDED
        if (name.startswith("_") and not known) or self._facade.skips(f"{owner.name}.{name}"):
            return self._private(name, node)
        if isinstance(node, ast.AnnAssign):
            return self._attribute(owner, name, node)
        if not isinstance(node, Function):
            raise self._source.refuse(node, f"{name} is public and has no type")
        return self._functions(nodes, "self._async", 1, owner)

    def _private(self, name: str, node: ast.stmt) -> list[str]:
        if name.startswith("__") and isinstance(node, Function) and name != "__del__":
            raise self._source.refuse(node, f"{name} has no sync form")
        return []

    def _functions(
        self, nodes: list[ast.stmt], on: str, depth: int, owner: ast.ClassDef | None = None
    ) -> list[str]:
        """Write a function with its overloads, or a property with its setter."""
        functions = [node for node in nodes if isinstance(node, Function)]
        overloads = [node for node in functions if "overload" in decorators(node)]
        if overloads:
            self._members.check_overloads(overloads)
        blocks: list[list[str]] = []
        for node in functions:
            names = decorators(node)
            if names - _KNOWN:
                unknown = ", ".join(sorted(names - _KNOWN))
                raise self._source.refuse(node, f"{node.name}: decorator {unknown} is not known")
            if "overload" in names:
                blocks.append(self._members.overload(node, depth))
            elif "property" in names:
                blocks.append(self._members.property(node))
            elif "setter" in names:
                blocks.append(self._members.write_property(node))
            else:
                of_class = names & {"classmethod", "staticmethod"}
                if owner is not None and of_class:
                    on = self._made_by(owner, "cls") if "classmethod" in names else owner.name
                text = self._members.function(node, on, depth)
                blocks.append([*(line(f"@{name}", depth) for name in of_class), *text])
        return [text for block in blocks for text in ["", *block]][1:]

    def _attribute(self, owner: ast.ClassDef, name: str, node: ast.AnnAssign) -> list[str]:
        constant = self._types.argument_of(node.annotation, "ClassVar")
        if constant is None:
            return self._members.attribute(name, node.annotation)
        text = self._types.annotation(node.annotation)
        return [line(f"{name}: {text} = {owner.name}.{name}", 1)]

    def _attributes(self, owner: ast.ClassDef, node: Function) -> list[str]:
        """Write properties for the public attributes that ``__init__`` sets."""
        lines: list[str] = []
        known = _grouped(owner.body)
        for part in ast.walk(node):
            for name in _public_attributes(part):
                if name in known or self._facade.skips(f"{owner.name}.{name}"):
                    continue
                if not isinstance(part, ast.AnnAssign):
                    raise self._source.refuse(part, f"{name} is public and has no type")
                lines += ["", *self._members.attribute(name, part.annotation)]
        return lines


def _public_attributes(node: ast.AST) -> list[str]:
    """Return the public attributes of ``self`` that a statement sets."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        for target in node.targets:
            targets += target.elts if isinstance(target, ast.Tuple) else [target]
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [
        target.attr
        for target in targets
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
        and not target.attr.startswith("_")
    ]


def _grouped(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """Return the definitions of a body by name: overloads, getter and setter come together."""
    groups: dict[str, list[ast.stmt]] = {}
    for node in body:
        if isinstance(node, ast.ClassDef | Function):
            groups.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    groups.setdefault(target.id, []).append(node)
    return groups
