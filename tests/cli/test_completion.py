"""Completion: the scripts, and what they get, in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.harness import COMMAND, run_command

PATH = f"{Path(COMMAND).parent}{os.pathsep}{os.environ['PATH']}"


def complete(line: str) -> list[str]:
    """What bash offers for a line, as after TAB at its end."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    script = (
        'eval "$(prime-async completion bash)"; '
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
        '_prime_async_completion prime-async; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**os.environ, "PATH": PATH},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("prime-async co", ["completion", "config"]),
        ("prime-async eval l", ["list", "logs"]),
        ("prime-async eval list --li", ["--limit"]),
        ("prime-async eval list -o ", ["table", "json"]),
        ("prime-async completion ", ["bash", "zsh", "fish"]),
        ("prime-async --context ", ["production", "local", "work"]),
        ("prime-async config use w", ["work"]),
        ("prime-async nonsense ", []),
        ("prime-async eval nonsense --", []),
    ],
)
def test_bash_offers(line: str, offered: list[str], home: Path) -> None:
    """Commands, options, choices and names of contexts; nonsense is no accident."""
    folder = home / ".prime" / "environments"
    folder.mkdir(parents=True)
    (folder / "work.json").write_text("{}", "utf-8")
    found = complete(line)
    assert [each for each in offered if each not in found] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_names_our_command(shell: str) -> None:
    """The script alone is on standard output."""
    ran = run_command("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert "prime-async" in ran.out
    assert "_PRIME_ASYNC_COMPLETE" in ran.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_broken_configuration_does_not_show_while_typing(shell: str, home: Path) -> None:
    """TAB stays quiet whatever the files hold."""
    (home / ".prime").mkdir()
    (home / ".prime" / "config.json").write_text("{", "utf-8")
    env = {
        "_PRIME_ASYNC_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "prime-async --context ",
        "COMP_CWORD": "" if shell == "fish" else "2",
    }
    ran = run_command(env=env)
    assert (ran.code, ran.err) == (0, "")
    assert "production" in ran.out


def test_an_unknown_shell_in_the_variable() -> None:
    """No traceback for a variable that says nonsense."""
    ran = run_command(env={"_PRIME_ASYNC_COMPLETE": "tcsh_complete"})
    assert ran.code == 1
    assert "Traceback" not in ran.err
