"""``prime-async job``: started, waited for, followed, ended; handles pass through pipes."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from prime_async_cli.app import root
from prime_async_cli.command import Command
from prime_async_cli.tree import walk

from prime_sync import BackgroundJob, Sandbox
from tests.cli.harness import COMMAND, Ran

EXAMPLES = [
    line.strip()
    for node in walk(root)
    if node.words[:1] == ("job",) and isinstance(node.command, Command)
    for line in node.command.examples.splitlines()
    if line.strip()
]


@pytest.fixture
def piped(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """As `through`, with text on standard input."""
    from prime_async_cli.app import main

    def run(text: str, *arguments: str) -> Ran:
        capfd.readouterr()
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        code = main(list(arguments))
        captured = capfd.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


def start(through: Callable[..., Ran], box: Sandbox, *words: str) -> BackgroundJob:
    """Start a job; its handle is what is printed."""
    ran = through("job", "start", box.id, "--", *words)
    assert ran.code == 0, ran
    assert ran.out.count("\n") == 1
    return BackgroundJob.from_json(ran.out)


def test_a_job_from_start_to_end(
    box: Sandbox, through: Callable[..., Ran], piped: Callable[..., Ran]
) -> None:
    """Its streams, its exit code, by either form of handle."""
    job = start(through, box, "sh", "-c", 'echo "a  b"; echo no >&2; exit 7')
    ran = piped(job.to_json(), "job", "wait")
    assert (ran.out, ran.err, ran.code) == ("a  b\n", "no\n", 7)
    short = f"{job.sandbox_id}/{job.job_id}"
    ran = through("job", "wait", short, "--no-output")
    assert (ran.out, ran.code) == ("", 7)
    ran = through("job", "follow", short, "--stdout-offset", "3")
    assert (ran.out, ran.err, ran.code) == ("b\n", "no\n", 7)
    document = json.loads(through("job", "wait", short, "-o", "json").out)
    (told,) = document["jobs"]
    assert (told["stdout"], told["exit_code"], told["error"]) == ("a  b\n", 7, None)
    document = json.loads(through("job", "follow", short, "-o", "json").out)
    assert (document["stdout"], document["stdout_end"], document["exit_code"]) == ("a  b\n", 5, 7)


def test_handles_however_they_are_laid_out(
    box: Sandbox, through: Callable[..., Ran], piped: Callable[..., Ran]
) -> None:
    """What `start -o json` prints, several of them, a list of them, lines of the short form."""
    printed, other = (
        through("job", "start", box.id, word, "-o", "json").out for word in ("true", "false")
    )
    assert printed.count("\n") > 1
    jobs = [BackgroundJob.from_json(text) for text in (printed, other)]
    short = "\n".join(f"  {box.id}/{job.job_id}" for job in jobs)
    for text in (printed + other, f"[{printed},{other}]", f"{short}\n\n"):
        ran = piped(text, "job", "status", "-o", "json")
        told = json.loads(ran.out)["jobs"]
        assert [one["job_id"] for one in told] == [job.job_id for job in jobs], ran
    cut = piped(printed[:-4], "job", "status")
    assert cut.code == 2
    assert "not the handle of a background job" in cut.err


def test_many_jobs_are_a_table_and_a_pipe(
    box: Sandbox, through: Callable[..., Ran], piped: Callable[..., Ran]
) -> None:
    """The exit code is that of the first that failed; one of which nothing is known is told."""
    jobs = [start(through, box, "sh", "-c", f"exit {code}") for code in (0, 3, 4)]
    lines = "".join(f"{job.to_json()}\n" for job in jobs)
    ran = piped(lines, "job", "wait", "--plain")
    assert ran.code == 3
    assert [job.job_id in ran.out for job in jobs] == [True] * 3
    unknown = f"{box.id}/0000dead"
    ran = piped(f"{lines}{unknown}\n", "job", "status", "-o", "json")
    told = json.loads(ran.out)["jobs"]
    states = ["completed", "completed", "completed", "unknown (RUNTIME_ERROR)"]
    assert ([one["state"] for one in told], ran.code) == (states, 1)
    listed = json.loads(through("job", "list", box.id, "-o", "json").out)["jobs"]
    assert {job.job_id for job in jobs} <= {one["job_id"] for one in listed}
    assert "exit 4" in through("job", "ls", box.id, "--plain").out


def test_ending_and_being_late(box: Sandbox, through: Callable[..., Ran]) -> None:
    """A wait that is too short leaves the job running; cancelling ends it."""
    job = start(through, box, "sleep", "60")
    name = f"{job.sandbox_id}/{job.job_id}"
    ran = through("job", "wait", name, "--timeout", "0.5")
    assert ran.code == 1
    assert "1 of 1 background jobs have not ended" in ran.err
    assert json.loads(through("job", "status", name, "-o", "json").out)["jobs"][0]["state"] == (
        "running"
    )
    ran = through("job", "cancel", name, "-o", "json")
    assert (json.loads(ran.out)["jobs"][0]["exit_code"], ran.code) == (143, 0)
    assert through("job", "cancel", f"{box.id}/0000dead").code == 1


def test_the_same_id_runs_once(box: Sandbox, through: Callable[..., Ran]) -> None:
    """Started again it is the job that there is; secrets of its environment are in no text."""
    words = ["--job-id", "00c0ffee", "--env", "TOKEN=sk-CANARY-9", "--", "sh", "-c"]
    first = through("job", "start", box.id, *words, 'echo "${#TOKEN}"')
    second = through("job", "start", box.id, *words, "echo another")
    assert first.out == second.out
    assert through("job", "wait", f"{box.id}/00c0ffee").out == "11\n"
    assert "CANARY" not in first.out + first.err + second.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["wait", "nothing"], "SANDBOX/JOB"),
        (["wait", "box/xyz"], "eight hexadecimal digits"),
        (["status", '{"job_id": 3}'], "not the handle of a background job"),
        (["follow", "a/00000001", "--stdout-offset", "-1"], "--stdout-offset"),
        (["start", "ID", "--job-id", "x", "--", "true"], "eight hexadecimal digits"),
        (["cancel", "a/00000001", "--grace", "-1"], "--grace"),
    ],
)
@pytest.mark.usefixtures("platform")
def test_wrong_input_is_refused(through: Callable[..., Ran], words: list[str], said: str) -> None:
    """Exit code 2, and what would be right."""
    ran = through("job", *words)
    assert ran.code == 2, ran
    assert said in ran.err


@pytest.mark.usefixtures("platform")
def test_an_empty_pipe_holds_no_job(piped: Callable[..., Ran]) -> None:
    """It is said, and nothing is waited for."""
    for command in ("wait", "status", "cancel", "follow"):
        assert piped("\n", "job", command).code == 2


def test_a_real_pipe(box: Sandbox) -> None:
    """As it is typed: one process hands the job to another."""
    line = f"{COMMAND} job start {box.id} -- seq 3 | {COMMAND} job wait"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "1\n2\n3\n"), done


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_work(
    example: str, box: Sandbox, through: Callable[..., Ran], piped: Callable[..., Ran]
) -> None:
    """Typed with a sandbox and a job of one's own."""
    job = start(through, box, "true")
    names: dict[str, Any] = {"ID": box.id, "SANDBOX/JOB": f"{box.id}/{job.job_id}"}
    words = shlex.split(example.partition(" | ")[0].partition(" > ")[0].partition(" < ")[0])
    arguments = [names.get(word, word) for word in words[1:]]
    ran = piped(job.to_json(), *arguments)
    assert ran.code == 0, ran
