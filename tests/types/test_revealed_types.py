"""Type checkers see the exact types of both faces."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
QUESTIONS = HERE / "both_faces.py"
ANSWERS = HERE / "both_faces.txt"


def test_types_are_these() -> None:
    """Each line of ``both_faces.txt`` is what was asked and what mypy, strict, answers."""
    assert answers() == ANSWERS.read_text(encoding="utf-8")


def test_the_sync_face_answers_what_the_async_face_does() -> None:
    """Less ``await`` and prefix, and iterators for async iterators."""
    lines = [line for line in ANSWERS.read_text(encoding="utf-8").splitlines() if " -> " in line]
    half = len(lines) // 2
    assert len(lines) == 2 * half > 0
    assert [_as_sync(line) for line in lines[:half]] == lines[half:]


def _as_sync(line: str) -> str:
    line = re.sub(r"\bawait |\bAsync(?=[A-Z]\w*Client|Volumes)", "", line)
    line = line.replace("typing.AsyncIterator[", "prime_sync._iterators.CloseableIterator[")
    module = re.compile(r"prime_async\.(evals|api|sandboxes|traces)(\.\w+)?\.(?=\w+Client|Volumes)")
    line = module.sub(lambda match: f"prime_sync.{match[1]}.", line)
    line = line.replace("prime_async.runs.run.AsyncRun", "prime_sync.runs.Run")
    return re.sub(
        r"(?<![\w.\[])prime_async\.(?=\w+Client|(?:bridges|runs)\.\w+\()", "prime_sync.", line
    )


def answers() -> str:
    """Ask mypy; return a line for each question."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(QUESTIONS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    asked = QUESTIONS.read_text(encoding="utf-8").splitlines()
    lines = []
    for number, revealed in re.findall(r':(\d+): note: Revealed type is "(.*)"', done.stdout):
        question = asked[int(number) - 1].strip().removeprefix("reveal_type(").removesuffix(")")
        lines.append(f"{question} -> {revealed}\n")
    return "".join(lines)


if __name__ == "__main__":
    ANSWERS.write_text(answers(), encoding="utf-8")
