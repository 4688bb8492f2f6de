"""Help, version, completion and file-only commands start fast: they import next to nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from prime_async_cli.app import root
from prime_async_cli.pages import ready_page
from prime_async_cli.tree import Node, walk

from tests.cli.harness import COMMAND, Ran, run_command

HEAVY = {
    "aiohttp",
    "anyio",
    "asyncio",
    "datasets",
    "numpy",
    "pandas",
    "pyarrow",
    "rich",
    "sqlalchemy",
    "sqlite3",
    "torch",
    "urwid",
}

WATCHED = """
import json, sys
sys.argv = ["prime-async", *json.loads(sys.argv[1])]
from prime_async_cli.__main__ import main
main()
sys.stderr.write("\\n@@" + json.dumps(sorted(sys.modules)))
"""


def modules_loaded_by_python() -> set[str]:
    """What the interpreter and this measurement load."""
    code = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return set(json.loads(done.stdout))


def modules_loaded_by(*arguments: str, **env: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, json.dumps(arguments)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    return set(json.loads(done.stderr.rpartition("\n@@")[2]))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("-v", "--plain"),
        (),
        ("eval", "--help"),
        ("eval", "push", "--help"),
        ("traces", "list", "--help"),
        ("runs", "--help"),
        ("eval", "lsit"),
        ("config", "view"),
        ("config", "set-team-id", "t1"),
        ("--context", "local", "config", "envs"),
        ("completion", "bash"),
    ],
    ids=" ".join,
)
def test_FR45_light_commands_load_nothing_heavy(arguments: tuple[str, ...]) -> None:
    """No network library, no event loop, no terminal library, no database."""
    assert not modules_loaded_by(*arguments) & HEAVY


TREE = {"asyncclick", "contextlib", "inspect", "msgspec", "typing"}


@pytest.mark.parametrize(
    "arguments", [("--version",), ("--help",), ("-h",), ("eval", "push", "--help")], ids=" ".join
)
def test_version_and_help_do_not_even_load_the_command_tree(arguments: tuple[str, ...]) -> None:
    """The pages lie ready: what is loaded beside the interpreter are a few files of ours."""
    before = modules_loaded_by_python()
    loaded = modules_loaded_by(*arguments) - before
    assert not loaded & TREE
    assert len(loaded) < 20, loaded


def test_a_narrow_screen_gets_a_page_of_its_own() -> None:
    """Below 80 columns the page is made to measure, without loading the commands of a group."""
    narrow = run_command("eval", "--help", env={"COLUMNS": "60"})
    assert max(map(len, narrow.out.splitlines())) <= 60
    loaded = modules_loaded_by("--help", COLUMNS="60")
    assert {name for name in loaded if name.startswith("prime_async_cli.commands")} == set()
    loaded = modules_loaded_by("eval", "--help", COLUMNS="60")
    assert "prime_async_cli.commands.evals" in loaded
    assert "prime_async_cli.commands.evals.read" not in loaded


@pytest.mark.parametrize(
    "node", list(walk(root)), ids=lambda node: " ".join(node.words) or "(root)"
)
def test_the_ready_made_pages_are_what_the_commands_say(
    node: Node, inside: Callable[..., Ran]
) -> None:
    """help_pages.txt is up to date; `make generate` writes it."""
    assert ready_page(list(node.words)) == inside(*node.words, "--help").out


def test_what_has_no_page_is_left_to_the_tree() -> None:
    """Unknown words, second names and values in between."""
    assert ready_page(["eval", "nosuch"]) is None
    assert ready_page(["eval", "ls"]) is None
    assert ready_page(["eval", "push"]) is not None
    assert run_command("eval", "ls", "--help").out.startswith("Usage: prime-async eval ls")
    assert run_command("eval", "nosuch", "--help").code == 2


def test_completion_loads_nothing_heavy() -> None:
    """A TAB costs what a help page costs."""
    loaded = modules_loaded_by(
        COMP_WORDS="prime-async eval ", COMP_CWORD="2", _PRIME_ASYNC_COMPLETE="bash_complete"
    )
    assert not loaded & HEAVY


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_FR45_best_of_five_is_quick(argument: str) -> None:
    """Best of five below the limit of the field report, on a busy machine too."""
    best = min(_seconds(argument) for _ in range(5))
    assert best < 0.25


def _seconds(argument: str) -> float:
    started = time.perf_counter()
    subprocess.run([COMMAND, argument], capture_output=True, check=True)
    return time.perf_counter() - started


BLOCKED = """
import sys
for name in ("fcntl", "termios", "pwd", "grp", "resource", "curses", "tty", "pty", "readline"):
    sys.modules[name] = None
sys.argv = ["prime-async", *sys.argv[1:]]
from prime_async_cli.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["eval", "push", "--help"]])
def test_FR48_posix_modules_are_not_needed_to_start(arguments: list[str]) -> None:
    """Help and version work where fcntl, termios and the like do not exist."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "prime-async" in done.stdout


def test_version_prints_one_line() -> None:
    """Name and number, on standard output."""
    from prime_async._version import __version__

    ran = run_command("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"prime-async {__version__}\n", "")
    assert run_command("--plain", "-v").out == ran.out
