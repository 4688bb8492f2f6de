"""The examples of the help pages work when they are typed."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from prime_async_cli.app import root
from prime_async_cli.command import Command
from prime_async_cli.tree import walk

from tests.cli.harness import Ran
from tests.cli.runs import make_run, real_run
from tests.stub import Answer, Stub

EXAMPLES = [
    line.strip()
    for node in walk(root)
    if isinstance(node.command, Command)
    for line in node.command.examples.splitlines()
    if line.strip()
]
ELSEWHERE = {
    "local env": "starts a platform of its own: see test_local.py",
    "eval logs": "the embedded platform runs no hosted evaluations: see below",
    "--resume": "there is nothing to go on with: see test_push.py",
    "set-api-key": "reads the key from a person or a pipe: see test_config.py",
}
HERE = [each for each in EXAMPLES if not any(what in each for what in ELSEWHERE)]


def words_of(example: str, names: dict[str, str]) -> list[str]:
    """What the shell hands to the command, with names of the user in place of ours."""
    command = re.sub(r'^eval "\$\((.*)\)".*', r"\1", example)
    command = re.split(r" [|>] ", command)[0]
    words = shlex.split(command, comments=True)
    assert words[0] == "prime-async"
    return [names.get(word, word) for word in words[1:]]


@pytest.mark.parametrize("example", HERE)
@pytest.mark.usefixtures("platform")
def test_it_works(
    example: str, inside: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed in a folder with results, on a platform with an evaluation."""
    folder = Path("outputs/evals/gsm8k--gpt-4o-mini/1a2b3c4d")
    monkeypatch.chdir(tmp_path)
    folder.parent.mkdir(parents=True)
    real_run(folder)
    Path("samples.jsonl").write_text('{"example_id": 0, "reward": 1.0}\n', "utf-8")
    large = {"id": 0, "trajectory": "x" * (25 * 2**20)} if "--trim" in example else {"id": 0}
    make_run(tmp_path / "run", [large])
    made = inside("eval", "create", "--name", "n", "--env", "e", "-o", "json")
    names = {"ID": json.loads(made.out)["evaluation_id"], "RUN": str(tmp_path / "run")}
    ran = inside(*words_of(example, names))
    assert ran.code == 0, ran


def test_following_a_log(stub: Stub, inside: Callable[..., Ran]) -> None:
    """`eval logs ID --follow`, with the pause that is the default."""
    stub.route("GET", "/api/v1/evaluations/ev1", Answer(json={"status": "COMPLETED"}))
    stub.route("GET", "/api/v1/hosted-evaluations/ev1/logs", Answer(json={"logs": "a\nb"}))
    (example,) = [each for each in EXAMPLES if "eval logs" in each]
    ran = inside(*words_of(example, {"ID": "ev1"}))
    assert (ran.code, ran.out) == (0, "a\nb\n")
