"""Promises K1 to K3: what the repository holds, what it is built on, where behaviour lives."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ("prime_async", "prime_sync", "cli/prime_async_cli", "tui")


def test_K1_top_level() -> None:
    """The seven names of the promise are there."""
    assert (ROOT / "pyproject.toml").is_file()
    for name in ("prime_async", "prime_sync", "cli", "tui", "tests", "benchmarks"):
        assert (ROOT / name).is_dir(), name


IMPORTERS = {
    "aiohttp": {
        "prime_async.server",
        "prime_async.server.routes",
        "prime_async.server.sandboxes",
        "prime_async.server.traces",
        "prime_async.transport",
    },
    "anyio": {
        "prime_async",
        "prime_async.bridges",
        "prime_async.evals",
        "prime_async.images",
        "prime_async.local",
        "prime_async.runs",
        "prime_async.sandboxes",
        "prime_async.sandboxes.jobs",
        "prime_async.server",
        "prime_async.server.otlp",
        "prime_async.server.routes",
        "prime_async.server.runs",
        "prime_async.server.runtimes",
        "prime_async.server.sandboxes",
        "prime_async.server.store",
        "prime_async.server.traces",
        "prime_async.traces",
        "prime_async.transport",
        "prime_async_cli",
        "prime_async_cli.commands",
        "prime_async_cli.commands.evals",
        "prime_async_cli.commands.local",
        "prime_async_cli.commands.sandbox",
        "prime_async_cli.commands.traces",
    },
    "asyncclick": {
        "prime_async_cli",
        "prime_async_cli.commands",
        "prime_async_cli.commands.config",
        "prime_async_cli.commands.evals",
        "prime_async_cli.commands.job",
        "prime_async_cli.commands.local",
        "prime_async_cli.commands.runs",
        "prime_async_cli.commands.sandbox",
        "prime_async_cli.commands.traces",
    },
    "msgspec": {
        "prime_async",
        "prime_async.connect",
        "prime_async.evals",
        "prime_async.images",
        "prime_async.runs",
        "prime_async.sandboxes",
        "prime_async.sandboxes.jobs",
        "prime_async.server",
        "prime_async.server.otlp",
        "prime_async.server.routes",
        "prime_async.server.runs",
        "prime_async.server.runtimes",
        "prime_async.server.sandboxes",
        "prime_async.server.store",
        "prime_async.server.traces",
        "prime_async.spool",
        "prime_async.traces",
        "prime_async.traces.genai",
        "prime_async.transport",
        "prime_async_cli.commands.job",
    },
    "tomli": {"prime_async.server.sandboxes"},  # the choices in sandboxes.toml
    "urwid": set(),  # the console is not there yet
}
"""Which packages of ours import each of the six that the product is built on."""


def _package_of(module: str) -> str:
    return module.rpartition(".")[0] or module


def _modules(folders: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    for folder in folders:
        base = ROOT / folder
        for path in sorted(base.rglob("*.py")):
            parts = path.relative_to(base.parent).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__"), path


@functools.cache
def _imported(path: Path) -> frozenset[str]:
    """Name the packages a file imports, anywhere in it, by its source."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return frozenset(found)


def _importers(package: str, folders: tuple[str, ...] = SHIPPED) -> set[str]:
    return {name for name, path in _modules(folders) if package in _imported(path)}


@pytest.mark.parametrize("package", IMPORTERS)
def test_K2_who_imports_what(package: str) -> None:
    """Exactly these packages, by their sources; a failure lists the modules."""
    modules = _importers(package)
    packages = {_package_of(module) for module in modules}
    assert packages == IMPORTERS[package], sorted(modules)


def test_K2_what_the_tests_stand_on(request: pytest.FixtureRequest) -> None:
    """pytest-asyncio runs every async test, aioresponses is imported in one place."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert settings["tool"]["pytest"]["ini_options"]["asyncio_mode"] == "auto"
    assert request.config.pluginmanager.hasplugin("asyncio")
    assert "tests.aioresponses_shim" in _importers("aioresponses", ("tests",))


def test_K2_all_eight_are_declared() -> None:
    """Each of the eight is a dependency: six of the product, two of its tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {line.partition(">")[0].partition("=")[0] for line in project["dependencies"]}
    assert {"aiohttp", "anyio", "asyncclick", "msgspec", "tomli", "urwid"} <= needed
    development = " ".join(project["optional-dependencies"]["dev"])
    assert "aioresponses" in development
    assert "pytest-asyncio" in development


GENERATED = ("# Generated by `python -m prime_sync._generate`",)


def _generated() -> list[Path]:
    return [
        path
        for _, path in _modules(("prime_sync",))
        if path.read_text("utf-8").startswith(GENERATED)
    ]


def test_K3_the_sync_facade_is_what_the_generator_writes() -> None:
    """The checked-in modules are those the generator makes of the async sources now."""
    done = subprocess.run(
        [sys.executable, "-m", "prime_sync._generate", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_K3_nothing_behaves_on_its_own() -> None:
    """Generated modules import our own packages and typing only: no HTTP, no loop, no encoding."""
    assert len(_generated()) >= 3
    allowed = {
        "__future__",
        "collections",
        "contextlib",
        "os",
        "pathlib",
        "prime_async",
        "prime_sync",
    }
    for path in _generated():
        assert _imported(path) <= allowed | {"types", "typing"}, path


def test_K3_every_method_is_written_out_with_types_and_words() -> None:
    """No attribute magic: each public method is source, has its annotations and a docstring."""
    for path in _generated():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            assert "__getattr__" not in {method.name for method in methods}
            for method in methods:
                if not method.name.startswith("_"):
                    assert method.returns is not None, method.name
                    assert ast.get_docstring(method), method.name
                assert not any(isinstance(part, ast.Await) for part in ast.walk(method))


_ONE_LOOP = """
import threading
import prime_sync
assert threading.active_count() == 1, "importing starts nothing"
clients = [prime_sync.EvalsClient("key", base_url="http://127.0.0.1:9") for _ in range(3)]
assert threading.active_count() == 1, "a client starts nothing"

def call():
    for client in clients:
        try:
            client.get_evaluation("x", timeout=0.2)
        except (prime_sync.TransportError,):
            pass

callers = [threading.Thread(target=call) for _ in range(3)]
for caller in callers:
    caller.start()
for caller in callers:
    caller.join()
names = [thread.name for thread in threading.enumerate() if "prime" in thread.name.lower()]
print(len(names))
"""


def test_K3_one_managed_loop_serves_all_clients() -> None:
    """However many clients and calling threads: one loop thread, started by the first call."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _ONE_LOOP],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("1", "")
