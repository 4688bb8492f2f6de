"""Pipes, closed streams, encodings, full disks: output never fails in an ugly way."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import COMMAND, run_command

ODD = "naïve ★ 日本語 [red]x[/x] \x1b[31m"


@pytest.fixture
def odd_context(home: Path) -> Path:
    """A context whose content needs more than ASCII and holds markup and escapes."""
    folder = home / ".prime" / "environments"
    folder.mkdir(parents=True)
    file = folder / "odd.json"
    file.write_text(json.dumps({"api_key": "k" * 20, "team_id": ODD}), "utf-8")
    return file


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "cp1252"},
        {"PYTHONIOENCODING": "utf-8"},
    ],
    ids=lambda env: " ".join(f"{name}={value}" for name, value in env.items()),
)
@pytest.mark.parametrize("mode", ["table", "json"])
def test_FR47_any_encoding_will_do(odd_context: Path, env: dict[str, str], mode: str) -> None:
    """The same exit code in every encoding, no traceback, JSON that is JSON."""
    ran = run_command("config", "envs", "-o", mode, env=env)
    assert (ran.code, ran.err) == (0, ""), ran
    if mode == "json":
        (row,) = [each for each in json.loads(ran.out)["contexts"] if each["name"] == "odd"]
        assert row["team_id"] == ODD
    else:
        assert "[red]x[/x]" in ran.out


def test_text_from_outside_is_shown_as_typed(odd_context: Path) -> None:
    """Markup is no markup, and escape sequences do nothing."""
    ran = run_command("config", "envs")
    assert r"[red]x[/x] \e[31m" in ran.out
    assert "\x1b" not in ran.everything


@pytest.mark.parametrize(
    ("redirections", "code"),
    [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0), ("<&-", 0), (">&- 2>&- <&-", 0)],
)
def test_FR47_closed_streams(redirections: str, code: int) -> None:
    """A closed stream swallows what is written; the exit code stays."""
    for arguments, expected in (("config view", code), ("--help", code), ("nonsense", 2)):
        done = subprocess.run(
            ["sh", "-c", f"{COMMAND} {arguments} {redirections}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == expected
        assert "Traceback" not in done.stdout + done.stderr


def test_a_reader_that_leaves_is_no_failure() -> None:
    """`| head -1` under pipefail: quiet, exit 0."""
    script = f"set -o pipefail; {COMMAND} config view | head -1; {COMMAND} --help | head -1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_was_never_there() -> None:
    """The pipe is closed before the first byte."""
    script = f"{COMMAND} config view | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", ["config view", "--help", "--version", "config view -o json"])
def test_a_full_disk_is_a_failure(arguments: str) -> None:
    """What could not be written is not passed off as written."""
    done = subprocess.run(
        ["sh", "-c", f"{COMMAND} {arguments} > /dev/full"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_argument_that_is_not_utf8_is_refused_without_a_traceback() -> None:
    """Bytes the shell hands over as they are: shown escaped."""
    done = subprocess.run([COMMAND, b"ev\xff\xfeal"], capture_output=True, check=False)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"udcff" in done.stderr


def test_closed_streams_of_the_interpreter_itself() -> None:
    """Where Python finds no streams at all (pythonw, some services)."""
    code = "import sys; sys.stdout = sys.stderr = sys.stdin = None; sys.argv = ['x', '--help']; "
    code += "from prime_async_cli.__main__ import main; sys.exit(main())"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
