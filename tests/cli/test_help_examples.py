"""The examples of the help pages work when they are typed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from prime_async_cli.app import root
from prime_async_cli.command import Command
from prime_async_cli.tree import walk

from prime_sync import CreateSandboxRequest, Sandbox, SandboxClient
from prime_sync.runs import init
from tests.cli.harness import COMMAND, Ran
from tests.cli.runs import make_run, real_run
from tests.stub import Answer, Stub
from tests.traces.records import episode, fresh_run, line, trace

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
    "prime-async sandbox": "needs a sandbox: see test_sandbox.py",
    "prime-async job": "needs a sandbox and a job: see test_job.py",
    "prime-async traces": "needs traces: see below",
    "prime-async runs": "needs runs: see below",
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


TRACE_EXAMPLES = [
    each
    for each in EXAMPLES
    if each.startswith(("prime-async traces", "prime-async runs"))
    and "traces tail" not in each  # goes on: test_traces_going_on.py
    and "--raw" not in each  # writes past Python's streams: test_traces.py
]


@pytest.mark.parametrize("example", TRACE_EXAMPLES)
@pytest.mark.usefixtures("platform")
def test_those_of_traces_and_runs_work(
    example: str, inside: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed in a folder with files to upload, on a platform with a run and its traces."""
    monkeypatch.chdir(tmp_path)
    run, doomed = fresh_run(), fresh_run()
    Path("episodes.jsonl").write_bytes(line(episode(f"{run}-e", trace(f"{run}-in-e"))))
    Path("traces.jsonl").write_bytes(
        b"".join(line(trace(f"{each}-t", run=each)) for each in (run, doomed))
    )
    assert inside("traces", "upload", "traces.jsonl").code == 0
    trained = [train() for _ in range(2)] if "RUN-ID" in example else ["", ""]
    names = {"TRACED": run, "TRACE": f"{run}-t", "DOOMED": f"{doomed}-t", "DOOMED-RUN": doomed}
    names |= {"RUN-ID": trained[0], "OTHER-ID": trained[1]}
    ran = inside(*words_of(example, names))
    assert ran.code == 0, ran


def train() -> str:
    """A training run with what the examples ask for."""
    with init(kind="train", model="m", environments=["math"]) as run:
        for step in (100, 101):
            run.log_metrics({"loss": 1.0, "reward": 0.5}, step=step)
    return run.id


AROUND = (" checkpoint ", " volumes ", " expose ", " network ")
SANDBOX_EXAMPLES = [
    each
    for each in EXAMPLES
    if "prime-async sandbox" in each
    and not any(word in each for word in AROUND)  # test_sandbox_around.py
    and " -t " not in each  # test_sandbox_terminal.py
    and "--follow" not in each  # ends with the sandbox: test_sandbox.py
    and (shutil.which("jq") or "jq" not in each)
]


@pytest.mark.slow
def test_those_of_sandboxes_work(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed one after the other in a shell, with the files they speak of on both sides."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", "hf_canary")
    monkeypatch.setenv("PATH", str(Path(COMMAND).parent), prepend=os.pathsep)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print('training')\n")
    (tmp_path / "train.py").write_text("print('training')\n")
    with SandboxClient() as client:
        script = "mkdir -p /app/results && cp /etc/hostname /app/results/ && touch /app/model.pt"
        assert client.execute_command(box.id, script).exit_code == 0
        doomed = client.create(CreateSandboxRequest(name="doomed", docker_image="ubuntu:24.04"))
    for example in SANDBOX_EXAMPLES:
        name = doomed.id if " delete " in example else box.id
        line = re.sub(r"\bID\b", name, example) + (" --yes" if " delete " in example else "")
        line = line.replace("--yes --yes", "--yes")
        ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        expected = 2 if "'python train.py > log'" in line else 0  # a new sandbox has no train.py
        assert ran.returncode == expected, (line, ran.stdout, ran.stderr)
    assert (tmp_path / "model.pt").exists()
    assert (tmp_path / "results" / "hostname").exists()
    with SandboxClient() as client:
        for left in client.list(exclude_terminated=True).sandboxes:
            if left.id != box.id:
                client.delete(left.id)
