"""Writes the sync facade from the async core: ``python -m prime_sync._generate [--check]``.

Every public async class and function gets a plain, typed and documented twin, or stands in
``async_only`` with the reason why not. ``--check`` writes nothing and fails when a file differs
from what would be written, is missing, or does not belong.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prime_sync._generate_docs import Docs
from prime_sync._generate_layout import docstring, import_block, line
from prime_sync._generate_module import Facade, ModuleWriter
from prime_sync._generate_source import RefusalError, Source, Sources

__all__ = ["PLAN", "Plan", "Unit", "faults", "generate", "main"]


@dataclass(frozen=True)
class Unit:
    """One generated module.

    Attributes:
        target: its name.
        sources: modules whose public async classes and functions get a twin in it.
        package: package of the core whose other public names it hands on.
    """

    target: str
    sources: tuple[str, ...]
    package: str | None = None


@dataclass(frozen=True)
class Plan:
    """What is generated from what.

    Attributes:
        package: the async package; ``target`` is the sync one.
        units: the modules.
        async_only: public names without a sync form, each with the reason.
        extras: names the sync package exports besides, and their modules.
        phrases: prose of docstrings that is not true of the sync side, and what is.
    """

    package: str
    target: str
    units: tuple[Unit, ...]
    async_only: Mapping[str, str] = field(default_factory=dict)
    extras: Mapping[str, str] = field(default_factory=dict)
    phrases: Mapping[str, str] = field(default_factory=dict)


PLAN = Plan(
    package="prime_async",
    target="prime_sync",
    units=(
        Unit("prime_sync.api", ("prime_async.api",)),
        Unit("prime_sync.resources", ("prime_async.resources",)),
        Unit("prime_sync.evals_reading", ("prime_async.evals.reading",)),
        Unit("prime_sync.evals_hosted", ("prime_async.evals.hosted",)),
        Unit("prime_sync.evals", ("prime_async.evals.client",), "prime_async.evals"),
        Unit("prime_sync.images", ("prime_async.images.client",), "prime_async.images"),
        Unit(
            "prime_sync.sandboxes",
            (
                "prime_async.sandboxes.control",
                "prime_async.sandboxes.command_stream",
                "prime_async.sandboxes.processes",
                "prime_async.sandboxes.execution",
                "prime_async.sandboxes.storage",
                "prime_async.sandboxes.jobs.client",
                "prime_async.sandboxes.checkpoints",
                "prime_async.sandboxes.networks",
                "prime_async.sandboxes.access",
                "prime_async.sandboxes.volumes",
                "prime_async.sandboxes.client",
            ),
            "prime_async.sandboxes",
        ),
        Unit(
            "prime_sync.traces",
            (
                "prime_async.traces.api",
                "prime_async.traces.connection",
                "prime_async.traces.reading",
                "prime_async.traces.grouping",
                "prime_async.traces.bulk",
                "prime_async.traces.client",
            ),
            "prime_async.traces",
        ),
        Unit(
            "prime_sync.runs",
            (
                "prime_async.runs.run",
                "prime_async.runs.opening",
                "prime_async.runs.replay",
                "prime_async.runs.reading",
            ),
            "prime_async.runs",
        ),
        Unit("prime_sync.bridges", ("prime_async.bridges.rollouts",), "prime_async.bridges"),
    ),
    async_only={
        "AsyncRun.alog_episodes": "waiting for room is for loops that must not be stalled",
        "AsyncRun.alog_metrics": "waiting for room is for loops that must not be stalled",
        "AsyncRun.alog_samples": "waiting for room is for loops that must not be stalled",
        "AsyncRun.alog_traces": "waiting for room is for loops that must not be stalled",
        "AsyncRunMonitor": "is awaited by the trainers that call it; RunMonitor is for the others",
        "aiter_batches": "iter_batches is the same for plain code",
        "compress_batch": "makes what only a sink's own loop sends",
        "AsyncAPIClient.connect": "hands out the transport, all of whose methods are asynchronous",
        "AsyncTracesAPIClient.connect": "hands out the transport, as AsyncAPIClient.connect does",
    },
    extras={"CloseableIterator": "prime_sync._iterators"},
    phrases={
        "It belongs to the event loop that uses it; connections open": (
            "Any number of threads may use it; connections open"
        ),
        "with ``async with``, or with the loop": "with ``with``, or at exit",
    },
)


def generate(root: Path, plan: Plan) -> dict[Path, str]:
    """Return the text of every generated file, by its path below ``root``.

    Raises:
        RefusalError: something public cannot be expressed; the message names every place.
    """
    run = _Run(root, plan)
    texts = {_path(unit.target): run.module(unit) for unit in plan.units}
    texts[Path(plan.target, "__init__.py")] = run.package()
    run.finish()
    return texts


class _Run:
    """One run of the generator."""

    def __init__(self, root: Path, plan: Plan) -> None:
        self._plan = plan
        self._sources = Sources(root)
        self._root = self._sources.load(plan.package)
        self._wrapped = {
            unit.target: {
                (module, name)
                for module in unit.sources
                for name in self._sources.load(module).exports()
                if self._needs_twin(self._sources.load(module), name)
                and name not in plan.async_only
            }
            for unit in plan.units
        }
        twins = {name: _sync_name(name) for pairs in self._wrapped.values() for _, name in pairs}
        classes = {name: sync for name, sync in twins.items() if name != sync}
        self._homes = {
            _sync_name(name): target for target, pairs in self._wrapped.items() for _, name in pairs
        }
        self._packages = {unit.target: unit.package for unit in plan.units}
        self._docs = Docs((plan.package, plan.target), classes, plan.phrases)
        homes = {sync: self._homes[sync] for sync in classes.values()}
        self._facade = Facade(self._sources, self._docs, classes, homes, plan.async_only)
        for pairs in self._wrapped.values():
            for module, name in pairs:
                self._facade.bases.update(_bases(self._sources.load(module).defined[name]))

    def module(self, unit: Unit) -> str:
        """Return the text of one module."""
        body: list[str] = []
        always: set[tuple[str, str | None]] = {("__future__", "annotations")}
        typing: set[tuple[str, str | None]] = set()
        docs = [ast.get_docstring(self._sources.load(module).tree) for module in unit.sources]
        for module in unit.sources:
            writer = ModuleWriter(self._facade, self._sources.load(module), unit.target)
            body += writer.write(
                {name for home, name in self._wrapped[unit.target] if home == module}
            )
            for names, found in zip((always, typing), writer.imports(), strict=True):
                names |= found
        handed_on = self._handed_on(unit)
        own = {_sync_name(name) for _, name in self._wrapped[unit.target]}
        lines = [_header(unit.sources), *docstring(self._docs.adapted(docs[0]), 0)]
        lines += ["", *_imports(always | handed_on, typing - always)]
        lines += ["", *_all(own | {name for _, name in handed_on if name})]
        return "\n".join([*lines, *body, ""])

    def package(self) -> str:
        """Return the text of the package's ``__init__``."""
        exports = dict(self._plan.extras)
        for name, module in self._root.lazy_exports().items():
            source = self._sources.load(module)
            if self._facade.skips(name):
                continue
            exports[_sync_name(name)] = self._home(source, name) or module
        return "\n".join(_lazy_package(self._plan, exports))

    def finish(self) -> None:
        """Fail for all that was found wrong.

        Raises:
            RefusalError: as said.
        """
        faults = list(self._facade.refusals)
        place = _path(f"{self._plan.target}._generate").as_posix()
        unused = sorted(set(self._plan.async_only) - self._facade.used)
        faults += [f"{place}:1: async_only names {name}, which does not exist" for name in unused]
        faults += [f"{place}:1: no docstring says {phrase!r}" for phrase in self._docs.unused]
        if faults:
            raise RefusalError("\n".join(faults))

    def _handed_on(self, unit: Unit) -> set[tuple[str, str | None]]:
        if unit.package is None:
            return set()
        names: set[tuple[str, str | None]] = set()
        for name, module in self._sources.load(unit.package).lazy_exports().items():
            if self._facade.skips(name):
                continue
            home = self._home(self._sources.load(module), name)
            if home is None:
                names.add((module, name))
            elif self._packages[home] not in (None, unit.package):
                names.add((home, _sync_name(name)))
        return names

    def _home(self, source: Source, name: str) -> str | None:
        """Return the generated module that holds the twin of a public name; None for data."""
        target = self._homes.get(_sync_name(name))
        if target is not None or not self._needs_twin(source, name):
            return target
        node = source.defined[name]
        fault = f"{name} is public and asynchronous, but neither wrapped nor in async_only"
        self._facade.refusals.append(str(source.refuse(node, fault)))
        return None

    def _needs_twin(self, source: Source, name: str) -> bool:
        node = source.defined.get(name)
        if isinstance(node, ast.AsyncFunctionDef) or name.startswith("Async"):
            if node is None:
                raise source.refuse(source.tree, f"exports {name} and does not define it")
            return True
        if isinstance(node, ast.ClassDef) and any(_public_async(part) for part in node.body):
            raise source.refuse(node, f"{name} has async methods and is not called Async{name}")
        return False


def _bases(node: ast.stmt) -> set[str]:
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    return {base.id for base in bases if isinstance(base, ast.Name)}


def _sync_name(name: str) -> str:
    return name.removeprefix("Async")


def _public_async(node: ast.stmt) -> bool:
    return isinstance(node, ast.AsyncFunctionDef) and not node.name.startswith("_")


def _path(module: str) -> Path:
    return Path(*module.split(".")).with_suffix(".py")


def _header(modules: Sequence[str]) -> str:
    files = [_path(module) for module in modules]
    # More than two would not fit on the line: then the folders that all of them are in.
    names = files if len(files) <= 2 else _outermost({file.parent for file in files})
    paths = " and ".join(name.as_posix() for name in names)
    return f"# Generated by `python -m prime_sync._generate` from {paths}: do not edit."


def _outermost(folders: set[Path]) -> list[Path]:
    return sorted(folder for folder in folders if not folders.intersection(folder.parents))


def _imports(always: set[tuple[str, str | None]], typing: set[tuple[str, str | None]]) -> list[str]:
    if not typing:
        return import_block(always)
    lines = import_block(always | {("typing", "TYPE_CHECKING")})
    return [*lines, "", "if TYPE_CHECKING:", *(line(text, 1) for text in import_block(typing))]


def _all(names: set[str]) -> list[str]:
    return ["__all__ = [", *(line(f'"{name}",', 1) for name in sorted(names)), "]"]


def _lazy_package(plan: Plan, exports: Mapping[str, str]) -> list[str]:
    pairs = {(module, name) for name, module in exports.items()}
    table = [line(f'"{name}": "{module}",', 2) for name, module in sorted(exports.items())]
    return [
        f"# Generated by `python -m {plan.target}._generate` from {plan.package}: do not edit.",
        f'"""{plan.target}: {plan.package} without async: the same names, no ``await``.',
        "",
        "Everything public is importable from here and loaded on first use; importing the package",
        "starts nothing. One thread, started at the first call, serves all clients.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import TYPE_CHECKING",
        "",
        "from prime_async._lazy import lazy_exports",
        "",
        "if TYPE_CHECKING:",
        *(line(text, 1) for text in import_block(pairs)),
        "",
        *_all(set(exports)),
        "",
        "__getattr__, __dir__ = lazy_exports(",
        "    __name__,",
        "    {",
        *table,
        "    },",
        ")",
        "",
    ]


def faults(root: Path, plan: Plan, texts: Mapping[Path, str]) -> list[str]:
    """Return what differs between the files and the texts, as diffs and lines."""
    found: list[str] = []
    for path, text in texts.items():
        file = root / path
        there = file.read_text(encoding="utf-8") if file.is_file() else ""
        if there != text:
            pair = (there.splitlines(), text.splitlines())
            found += difflib.unified_diff(
                *pair, f"{path} (found)", f"{path} (generated)", lineterm=""
            )
    for file in sorted((root / plan.target).rglob("*.py")):
        path = file.relative_to(root)
        own = file.name.startswith("_") and file.name != "__init__.py"
        if path not in texts and not own:
            found.append(f"{path}: nothing generates this file")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or check them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m prime_sync._generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on differences")
    check = parser.parse_args(arguments).check
    root = Path(__file__).resolve().parent.parent
    try:
        texts = generate(root, PLAN)
    except RefusalError as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 1
    if not check:
        for path, text in texts.items():
            (root / path).write_text(text, encoding="utf-8")
    found = faults(root, PLAN, texts)
    if found:
        sys.stderr.write("\n".join([*found, "run: python -m prime_sync._generate", ""]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
