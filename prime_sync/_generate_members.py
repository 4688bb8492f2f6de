"""Writes the sync twin of one function, method or property."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prime_sync._generate_docs import Docs
from prime_sync._generate_layout import Call, docstring, line, lines_of, signature
from prime_sync._generate_source import Imported, Source
from prime_sync._generate_types import Types
from prime_sync._generate_values import Values

__all__ = ["Function", "Members", "decorators"]

Function = ast.FunctionDef | ast.AsyncFunctionDef

_RENAMED = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "aclose": "close",
}
_ITERATORS = ("AsyncGenerator", "AsyncIterable", "AsyncIterator")
_MANAGERS = ("AbstractAsyncContextManager", "AsyncContextManager")
_AWAITABLES = ("Awaitable", "Coroutine")


_BRIDGE = "prime_sync._bridge"


@dataclass(frozen=True)
class _Form:
    """How a function is carried out, and the type that reaches the user."""

    kind: Literal["plain", "call", "iterate", "call then iterate", "scope"]
    result: ast.expr


class Members:
    """The members of one module.

    Attributes:
        needed: what the written text uses besides the names of the signatures.
    """

    def __init__(self, source: Source, types: Types, docs: Docs) -> None:
        self.needed: set[Imported] = set()
        self._source = source
        self._types = types
        self._docs = docs
        self._values = Values(source, types)

    def function(self, node: Function, on: str, depth: int) -> list[str]:
        """Write a function, or a method when it is called ``on`` something.

        Raises:
            RefusalError: it cannot be expressed.
        """
        form = self._form(node)
        parameters, given = self._parameters(node, bound=_bound(node, depth))
        target = Call(f"{on}.{node.name}" if on else node.name, given)
        name = _RENAMED.get(node.name, node.name)
        lines = signature(name, parameters, self._result(form), depth)
        lines += self._doc(node, depth + 1)
        if _calls_back(given):
            self._need(_BRIDGE, "Mailbox")
            lines.append(line("mail = Mailbox()", depth + 1))
        if node.name == "__aenter__":
            self._need(_BRIDGE, "BRIDGE")
            return [*lines, line(f"BRIDGE.call({target.flat()})", 2), line("return self", 2)]
        me = node.args.args[0].arg if _bound(node, depth) else ""
        return [*lines, *self._body(form, target, me, depth + 1)]

    def overload(self, node: Function, depth: int) -> list[str]:
        """Write one ``@overload``."""
        self._need("typing", "overload")
        parameters, _ = self._parameters(node, bound=_bound(node, depth))
        lines = signature(
            node.name, parameters, self._result(self._form(node)), depth, after=": ..."
        )
        return [line("@overload", depth), *lines]

    def check_overloads(self, nodes: list[Function]) -> None:
        """Refuse a set without a general last case: a forwarded bool matches no Literal.

        Raises:
            RefusalError: as said.
        """
        last = nodes[-1].args
        for argument in (*last.posonlyargs, *last.args, *last.kwonlyargs):
            if argument.annotation is not None and "Literal" in ast.dump(argument.annotation):
                raise self._source.refuse(nodes[-1], "the last overload must be the general one")

    def constructor(self, node: Function, twin: str) -> list[str]:
        """Write ``__init__``, which makes the async twin.

        Raises:
            RefusalError: it cannot be expressed.
        """
        parameters, given = self._parameters(node, bound=True)
        if _calls_back(given):
            raise self._source.refuse(node, "a callback of a constructor has no call to run in")
        lines = signature("__init__", parameters, "None", 1)
        made = lines_of(Call(twin, given), 2, before="self._async = ")
        return [*lines, *self._doc(node, 2), *made]

    def property(self, node: Function) -> list[str]:
        """Write the getter of a property.

        Raises:
            RefusalError: it is a coroutine, or has no type.
        """
        if node.returns is None or isinstance(node, ast.AsyncFunctionDef):
            raise self._source.refuse(node, f"{node.name}: a property is plain and has a type")
        return self.attribute(node.name, node.returns, self._doc(node, 2))

    def attribute(self, name: str, annotation: ast.expr, doc: Sequence[str] = ()) -> list[str]:
        """Write the property that stands for an attribute of the async side."""
        lines = signature(name, ["self"], self._types.annotation(annotation), 1)
        lines += doc
        lines += self._values.returned(f"self._async.{name}", annotation, "self", 2)
        return [line("@property", 1), *lines]

    def write_property(self, node: Function) -> list[str]:
        """Write the setter of a property."""
        parameters, given = self._parameters(node, bound=True)
        lines = signature(node.name, parameters, "None", 1)
        body = line(f"self._async.{node.name} = {given[0]}", 2)
        return [line(f"@{node.name}.setter", 1), *lines, body]

    def _doc(self, node: Function, depth: int) -> list[str]:
        return docstring(self._docs.adapted(ast.get_docstring(node, clean=False)), depth)

    def _form(self, node: Function) -> _Form:
        returns = node.returns
        if returns is None:
            raise self._source.refuse(node, f"{node.name} has no return type")
        item = self._types.argument_of(returns, *_ITERATORS)
        if "asynccontextmanager" in decorators(node):
            if item is None:
                raise self._source.refuse(node, f"{node.name} is not typed as an AsyncIterator")
            return _Form("scope", item)
        if item is not None:
            waits = isinstance(node, ast.AsyncFunctionDef) and not _yields(node)
            return _Form("call then iterate" if waits else "iterate", item)
        managed = self._types.argument_of(returns, *_MANAGERS)
        if isinstance(node, ast.FunctionDef):
            if self._types.argument_of(returns, *_AWAITABLES) is not None:
                raise self._source.refuse(node, f"{node.name}: make it an async def")
            return _Form("plain", returns) if managed is None else _Form("scope", managed)
        if managed is not None:
            raise self._source.refuse(node, f"{node.name}: make it a plain def, to be entered")
        return _Form("call", returns)

    def _result(self, form: _Form) -> str:
        """Write the return annotation."""
        text = self._types.annotation(form.result)
        if form.kind in ("iterate", "call then iterate"):
            self._need(_BRIDGE, "CloseableIterator", runtime=False)
            return f"CloseableIterator[{text}]"
        if form.kind == "scope":
            self._need("contextlib", "AbstractContextManager", runtime=False)
            return f"AbstractContextManager[{text}]"
        return text

    def _need(self, module: str, name: str, *, runtime: bool = True) -> None:
        self.needed.add(Imported(module, name, runtime))

    def _body(self, form: _Form, target: Call, me: str, depth: int) -> list[str]:
        posts = _calls_back(target.arguments)
        mail: list[str | Call]
        if form.kind == "plain":
            if posts:
                message = "a callback of a plain function has no call to run in"
                raise self._source.refuse(form.result, message)
            return self._values.returned(target, form.result, me, depth)
        self._need(_BRIDGE, "BRIDGE")
        call = Call("BRIDGE.call", [target, *(["mail"] if posts else [])])
        if form.kind == "call":
            return self._values.returned(call, form.result, me, depth)
        wrap = self._values.wrapper(form.result, me)
        mail = ["mail=mail"] if posts else []
        if form.kind == "scope":
            made = Call("BRIDGE.scope", [target, *([wrap] if wrap else []), *mail])
            return lines_of(made, depth, before="return ")
        if wrap:
            raise self._source.refuse(form.result, "an iterator of async clients")
        stream = target if form.kind == "iterate" else call
        return lines_of(Call("BRIDGE.iterate", [stream, *mail]), depth, before="return ")

    def _parameters(self, node: Function, *, bound: bool) -> tuple[list[str], list[str]]:
        """Return the parameters as declared, and the arguments as handed to the async side."""
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        filled = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
        declared = [positional[0].arg] if bound else []
        given: list[str] = []
        for argument, default in list(zip(positional, filled, strict=True))[bound:]:
            declared.append(self._declared(argument, default))
            given.append(self._values.handed(argument))
        if arguments.posonlyargs:
            declared.insert(len(arguments.posonlyargs), "/")
        if arguments.vararg is not None:
            declared.append(f"*{self._declared(arguments.vararg, None)}")
            given.append(f"*{arguments.vararg.arg}")
        elif arguments.kwonlyargs:
            declared.append("*")
        for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            declared.append(self._declared(argument, value))
            given.append(f"{argument.arg}={self._values.handed(argument)}")
        if arguments.kwarg is not None:
            declared.append(f"**{self._declared(arguments.kwarg, None)}")
            given.append(f"**{arguments.kwarg.arg}")
        return declared, given

    def _declared(self, argument: ast.arg, default: ast.expr | None) -> str:
        if argument.annotation is None:
            raise self._source.refuse(argument, f"parameter {argument.arg} has no type")
        self._types.check_parameter(argument.annotation)
        text = f"{argument.arg}: {self._types.annotation(argument.annotation)}"
        return text if default is None else f"{text} = {self._types.default(default)}"


def decorators(node: Function) -> set[str]:
    """Return the last names of a function's decorators."""
    names = set()
    for decorator in node.decorator_list:
        named = decorator.id if isinstance(decorator, ast.Name) else ast.dump(decorator)
        names.add(decorator.attr if isinstance(decorator, ast.Attribute) else named)
    return names


def _bound(node: Function, depth: int) -> bool:
    """Say whether the first parameter is ``self`` or ``cls``."""
    return depth > 0 and "staticmethod" not in decorators(node)


def _calls_back(given: object) -> bool:
    return "mail.run_callback(" in str(given)


def _yields(node: ast.AsyncFunctionDef) -> bool:
    """Say whether the function itself is a generator, not one inside it."""
    inside: list[ast.AST] = list(node.body)
    while inside:
        part = inside.pop()
        if isinstance(part, ast.Yield):
            return True
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            inside += ast.iter_child_nodes(part)
    return False
