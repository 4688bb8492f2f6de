"""On a terminal: fitted tables, colours where welcome, questions that Ctrl-C ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.harness import run_command
from tests.cli.terminal import Terminal

LONG = "team-" + "x" * 60


@pytest.fixture(autouse=True)
def contexts(home: Path) -> None:
    folder = home / ".prime" / "environments"
    folder.mkdir(parents=True)
    for name in ("work", "spare-context-with-a-long-name"):
        content = {"api_key": "k" * 20, "team_id": LONG, "base_url": "https://api.example.com"}
        (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")


def show(*arguments: str, columns: int = 80, **env: str) -> str:
    with Terminal(arguments, columns=columns, env=env) as terminal:
        assert terminal.end() == 0, terminal.text
        return terminal.text


@pytest.mark.parametrize("columns", [200, 80, 40, 20, 10])
def test_FR46_a_table_fits_and_ids_are_whole(columns: int) -> None:
    """No line is longer than the screen as long as the id column fits; ids are never cut."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", show("config", "envs", columns=columns))
    assert "spare-context-with-a-long-name" in text
    rows = [line for line in text.splitlines() if not line.startswith("no room")]
    assert max(len(row) for row in rows) <= max(columns, 30), rows
    assert ("no room for" in text) == (columns <= 40)


def test_FR46_columns_variable_does_not_cut_what_is_piped() -> None:
    """`COLUMNS=40 ... | cat` is as wide as the data."""
    ran = run_command("config", "envs", env={"COLUMNS": "40"})
    assert LONG in ran.out
    assert len(ran.out.splitlines()) == 5


@pytest.mark.parametrize(
    ("env", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
    ids=str,
)
def test_colours_only_where_welcome(env: dict[str, str], coloured: bool) -> None:
    """NO_COLOR and TERM=dumb are obeyed."""
    assert ("\x1b[" in show("config", "envs", columns=200, **env)) == coloured


def test_plain_on_a_terminal_is_what_a_pipe_gets() -> None:
    """`--plain` works after and before the command."""
    piped = run_command("config", "envs").out
    assert show("config", "envs", "--plain", columns=40) == piped
    assert show("--plain", "config", "envs", columns=40) == piped
    assert show("config", "--plain", "envs", columns=40) == piped


def test_a_question_is_answered_with_no_by_default() -> None:
    """Enter alone deletes nothing; the question is on standard error."""
    with Terminal(("config", "delete", "work"), stdout=subprocess.PIPE) as terminal:
        terminal.wait_for(b"[y/N] ")
        terminal.type(b"\n")
        assert terminal.end() == 0
        assert b"nothing was deleted" in terminal.screen
        assert terminal.process.stdout is not None
        assert terminal.process.stdout.read() == b""
    assert "work" in run_command("config", "envs").out


def test_yes_deletes() -> None:
    """`y` goes ahead."""
    with Terminal(("config", "delete", "work")) as terminal:
        terminal.wait_for(b"[y/N] ")
        terminal.type(b"y\n")
        assert terminal.end() == 0
    assert "work" not in run_command("config", "envs").out


@pytest.mark.parametrize("key", [b"\x03", b"\x04"], ids=["Ctrl-C", "Ctrl-D"])
def test_a_question_can_be_left(key: bytes) -> None:
    """Ctrl-C leaves with 130 and one word, Ctrl-D counts as no."""
    with Terminal(("config", "delete", "work")) as terminal:
        terminal.wait_for(b"[y/N] ")
        terminal.type(key)
        code = terminal.end()
        assert code == (130 if key == b"\x03" else 0)
        assert "Traceback" not in terminal.text
    assert "work" in run_command("config", "envs").out


@pytest.mark.parametrize(
    ("words", "question"),
    [(("config", "delete", "work"), b"[y/N] "), (("config", "set-api-key"), b"(not shown): ")],
    ids=["a question", "a secret"],
)
def test_sigterm_ends_a_question(words: tuple[str, ...], question: bytes) -> None:
    """At once, with 143, and the terminal shows again what is typed."""
    with Terminal(words) as terminal:
        terminal.wait_for(question)
        terminal.signal(signal.SIGTERM)
        assert terminal.end() == 143
        assert "Traceback" not in terminal.text
        assert terminal.echoes


def test_a_key_typed_at_the_prompt_is_not_shown() -> None:
    """The terminal does not echo it, and nothing prints it."""
    with Terminal(("config", "set-api-key")) as terminal:
        terminal.wait_for(b"(not shown): ")
        terminal.type(b"sk-CANARY-123-typed\n")
        assert terminal.end() == 0
        assert b"CANARY" not in terminal.screen


def test_errors_are_red_on_a_terminal_only() -> None:
    """The same words in both cases."""
    with Terminal(("config", "use", "wrk")) as terminal:
        assert terminal.end() == 2
        assert terminal.text.startswith("\x1b[31merror:\x1b[0m Invalid value")
    ran = run_command("config", "use", "wrk")
    assert ran.err.startswith("error: Invalid value")
    assert "Did you mean 'work'?" in ran.err
