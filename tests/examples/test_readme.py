"""What the README shows runs as it stands, in an empty home."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.traces.records import line, trace

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
COMMANDS = [code for language, code in BLOCKS if "prime-async demo" in code]
TRAIN = ROOT / "cli" / "prime_async_cli" / "demo_sandbox" / "train.py"
RUN = ROOT / "tests" / "data" / "verifiers_run" / "gsm8k--gpt-4o-mini" / "example"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An empty home, with the results, the traces and the training script the README speaks of."""
    home = tmp_path_factory.mktemp("home")
    own = {name: value for name, value in os.environ.items() if not name.startswith("PRIME_")}
    own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
    own |= {"HOME": str(home), "USERPROFILE": str(home)}
    shutil.copytree(RUN, home / "outputs/evals/gsm8k--gpt-4o-mini/3f9c2a1b")
    shutil.copy(TRAIN, home / "train.py")
    for folder in (home, home / "outputs"):
        (folder / "traces.jsonl").write_bytes(line(trace("t1")))
    yield own
    subprocess.run(["prime-async", "local", "stop", "--all", "--yes"], env=own, check=True)


def run(command: list[str], environment: dict[str, str]) -> str:
    """Run it in the home, and return what it says."""
    done = subprocess.run(
        command,
        env=environment,
        cwd=environment["HOME"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("code", PYTHON)
def test_the_python_of_the_readme(code: str, environment: dict[str, str]) -> None:
    """Both faces, warnings being errors."""
    run([sys.executable, "-W", "error", "-c", code], environment)


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_commands_of_the_readme(environment: dict[str, str]) -> None:
    """Typed one after the other, in one shell."""
    (commands,) = COMMANDS
    said = run(["bash", "-e", "-o", "pipefail", "-c", commands], environment)
    assert "2 samples stored" in said
