"""Help, version, completion and file-only commands start fast: they import next to nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from tests.cli.harness import COMMAND, run_command

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


def test_version_does_not_even_load_the_command_tree() -> None:
    """`--version` alone ends before asyncclick."""
    assert not modules_loaded_by("--version") & {"asyncclick", "msgspec"}


def test_root_help_loads_no_command_module() -> None:
    """The one-line helps come from the tables, not from the commands."""
    loaded = modules_loaded_by("--help")
    assert {name for name in loaded if name.startswith("prime_async_cli.commands")} == set()
    loaded = modules_loaded_by("eval", "--help")
    assert "prime_async_cli.commands.evals" in loaded
    assert "prime_async_cli.commands.evals.read" not in loaded


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
