"""`eval push`: checked before anything is created, delivered, and told truthfully."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prime_async.config import ConfigStore
from tests.cli.harness import COMMAND, Ran, run_command
from tests.cli.runs import make_run, real_run, rows_of
from tests.cli.terminal import Terminal
from tests.stub import Answer, Request, Stub

Inside = Callable[..., Ran]
TOO_LARGE = {"id": 1, "reward": 1.0, "completion": "x" * (25 * 2**20)}


def samples_of(inside: Inside, evaluation_id: str) -> list[dict[str, Any]]:
    ran = inside("eval", "samples", evaluation_id, "--all")
    assert ran.code == 0, ran
    return [json.loads(line) for line in ran.out.splitlines()]


@pytest.mark.usefixtures("platform")
class TestPush:
    """Against the embedded platform."""

    def test_a_real_run_arrives_whole(self, inside: Inside, tmp_path: Path) -> None:
        """Metadata become the evaluation, avg_ values its metrics, rows its samples."""
        run = real_run(tmp_path / "run")
        ran = inside("eval", "push", str(run), "-o", "json")
        assert (ran.code, ran.err) == (0, "")
        answer = json.loads(ran.out)
        assert answer["status"] == "complete"
        assert answer["receipt"]["samples_pushed"] == 2
        stored = json.loads(inside("eval", "get", answer["evaluation_id"], "-o", "json").out)
        assert stored["name"] == "gsm8k-gpt-4o-mini"
        assert stored["status"] == "COMPLETED"
        assert stored["metrics"] == {"reward": 1.0, "format_reward": 1.0, "correctness": 1.0}
        assert stored["is_public"] is False
        assert samples_of(inside, answer["evaluation_id"]) == rows_of(run)

    def test_the_account_is_printed(self, inside: Inside, tmp_path: Path) -> None:
        """In text mode, on standard output; a pipe sees no bar and no escape sequence."""
        ran = inside("eval", "push", str(real_run(tmp_path / "run")), "--name", "mine")
        assert (ran.code, ran.err) == (0, "")
        assert "2 samples stored" in ran.out
        assert "\x1b" not in ran.out

    def test_a_file_in_the_folder_means_the_folder(self, inside: Inside, tmp_path: Path) -> None:
        """Either file may be named."""
        run = real_run(tmp_path / "run")
        for name in ("metadata.json", "results.jsonl"):
            assert inside("eval", "push", str(run / name)).code == 0

    def test_a_bare_file_needs_to_be_told_what_it_is(self, inside: Inside, tmp_path: Path) -> None:
        """`--env` is missing: said before anything is created; then it works."""
        file = tmp_path / "mine.jsonl"
        file.write_text('{"example_id": 1, "reward": 0.5}\n', "utf-8")
        refused = inside("eval", "push", str(file))
        assert refused.code == 2
        assert "--env NAME" in refused.err
        ran = inside(
            "eval", "push", str(file), "--env", "e", "--model", "m",
            "--metrics", '{"score": 0.5}', "-o", "json",
        )  # fmt: skip
        answer = json.loads(ran.out)
        stored = json.loads(inside("eval", "get", answer["evaluation_id"], "-o", "json").out)
        assert (stored["name"], stored["model_name"]) == ("e-m", "m")
        assert stored["metrics"] == {"score": 0.5}
        assert samples_of(inside, answer["evaluation_id"]) == [{"example_id": 1, "reward": 0.5}]

    def test_to_an_evaluation_that_exists(self, inside: Inside, tmp_path: Path) -> None:
        """`--eval-id` appends; an unknown one is refused before anything is sent."""
        run = real_run(tmp_path / "run")
        created = inside("eval", "create", "--name", "n", "--env", "gsm8k", "-o", "json")
        evaluation_id = json.loads(created.out)["evaluation_id"]
        assert inside("eval", "push", str(run), "--eval-id", evaluation_id).code == 0
        assert samples_of(inside, evaluation_id) == rows_of(run)
        missing = inside("eval", "push", str(run), "--eval-id", "nosuch")
        assert missing.code == 1
        assert "nosuch" in missing.err
        both = inside("eval", "push", str(run), "--eval-id", evaluation_id, "--public")
        assert both.code == 2

    def test_FR39_a_run_that_was_resumed(self, inside: Inside, tmp_path: Path) -> None:
        """Pushed again into the same evaluation only what is new is added; then nothing is."""
        run = make_run(tmp_path / "run", [{"id": n} for n in range(6)])
        evaluation_id = json.loads(inside("eval", "push", str(run), "-o", "json").out)[
            "evaluation_id"
        ]
        with (run / "results.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(f'{{"id": {n}}}\n' for n in range(6, 10))
        before = inside("eval", "get", evaluation_id, "-o", "json").out
        for unchanged in (False, True):
            ran = inside("eval", "push", str(run), "--eval-id", evaluation_id)
            assert (ran.code, ran.err) == (0, "")
            assert "10 samples stored" in ran.out
            assert samples_of(inside, evaluation_id) == rows_of(run)
            after = inside("eval", "get", evaluation_id, "-o", "json").out
            assert (after == before) is unchanged
            before = after

    def test_a_sample_that_changed_is_named(self, inside: Inside, tmp_path: Path) -> None:
        """What is stored under its place stays, the exit code is 1; a name of its own adds all."""
        run = make_run(tmp_path / "run", [{"id": 0}, {"id": 1}])
        pushed = inside("eval", "push", str(run), "-o", "json")
        into = ("--eval-id", json.loads(pushed.out)["evaluation_id"])
        (run / "results.jsonl").write_text('{"id": 0}\n{"id": 9}\n', "utf-8")
        ran = inside("eval", "push", str(run), *into)
        assert ran.code == 1
        assert "1 of 2 samples were refused" in ran.err
        assert "sample 1: " in ran.err
        apart = inside("eval", "push", str(run), *into, "--push-id", "second")
        assert apart.code == 0
        assert "warning" in apart.err
        assert [each["id"] for each in samples_of(inside, into[1])] == [0, 1, 0, 9]

    def test_no_argument_pushes_what_lies_here(
        self, inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The current folder, or every outputs/evals/*/*; one failure does not stop the others."""
        here = tmp_path / "here"
        for name in ("a", "b"):
            real_run(here / "outputs" / "evals" / "gsm8k--m" / name)
        broken = make_run(here / "outputs" / "evals" / "gsm8k--m" / "c", ["{not json"])
        monkeypatch.chdir(here)
        ran = inside("eval", "push", "-o", "json")
        assert ran.code == 1
        results = json.loads(ran.out)["results"]
        assert [each["status"] for each in results] == ["complete", "complete", "failed"]
        assert results[2]["evaluation_id"] is None
        assert "results.jsonl:1:2" in results[2]["error"]["message"]
        assert json.loads(ran.err.splitlines()[-1])["error"]["failed"] == [
            str(broken.relative_to(here))
        ]
        assert inside("eval", "push", "--name", "x").code == 2
        monkeypatch.chdir(here / "outputs" / "evals" / "gsm8k--m" / "a")
        assert inside("eval", "push").code == 0
        monkeypatch.chdir(tmp_path_of(here))
        nothing = inside("eval", "push")
        assert nothing.code == 2
        assert "no results here" in nothing.err

    def test_broken_lines_stop_it_before_anything_is_created(
        self, inside: Inside, tmp_path: Path
    ) -> None:
        """File, line and column of each; no evaluation is left behind."""
        run = make_run(
            tmp_path / "run", ['{"id": 1}', "[1, 2]", '{"id": ', "\x00"], env="untouched"
        )
        ran = inside("eval", "push", str(run))
        assert ran.code == 1
        assert "results.jsonl:2:1" in ran.err
        assert "results.jsonl:3:" in ran.err
        assert "nothing was sent" in ran.err
        listed = json.loads(inside("eval", "list", "--env", "untouched", "-o", "json").out)
        assert listed["total"] == 0

    def test_samples_too_large_stop_it_unless_something_is_said(
        self, inside: Inside, tmp_path: Path
    ) -> None:
        """Found by the length of the line; `--skip` counts them, `--trim` shortens them."""
        run = make_run(tmp_path / "run", [{"id": 0, "reward": 0.0}, TOO_LARGE], env="large")
        ran = inside("eval", "push", str(run), "-o", "json")
        assert (ran.code, ran.out) == (1, "")
        error = json.loads(ran.err)["error"]
        assert error["oversized"][0]["line"] == 2
        assert "--trim FIELD" in error["hint"]
        assert json.loads(inside("eval", "list", "--env", "large", "-o", "json").out)["total"] == 0

        skipped = inside("eval", "push", str(run), "--skip", "-o", "json")
        assert skipped.code == 1
        answer = json.loads(skipped.out)
        assert answer["receipt"]["samples_pushed"] == 1
        assert answer["receipt"]["refused"][0]["index"] == 1
        assert answer["finalized"] is True

        trimmed = inside("eval", "push", str(run), "--trim", "completion", "-o", "json")
        assert trimmed.code == 0, trimmed
        evaluation_id = json.loads(trimmed.out)["evaluation_id"]
        assert [set(sample) for sample in samples_of(inside, evaluation_id)] == [
            {"example_id", "id", "reward"}
        ] * 2

    def test_values_that_are_no_json_numbers_are_counted(
        self, inside: Inside, tmp_path: Path
    ) -> None:
        """NaN as the standard library writes it becomes null, and a warning says so."""
        run = make_run(tmp_path / "run", ['{"id": 0, "reward": NaN}'])
        ran = inside("eval", "push", str(run))
        assert ran.code == 0
        assert "reward was NaN" in ran.err

    def test_resume_without_a_trace_of_an_earlier_push(
        self, inside: Inside, tmp_path: Path
    ) -> None:
        """Nothing is known on this disk: said so; a broken token too."""
        run = real_run(tmp_path / "run")
        for arguments in ((str(run), "--resume"), ("--resume", str(run))):
            ran = inside("eval", "push", *arguments)
            assert ran.code == 2
            assert "no interrupted push" in ran.err
        assert "not a resume token" in inside("eval", "push", str(run), "--resume", "pr1.x").err

    def test_a_bar_on_a_terminal_only(self, tmp_path: Path) -> None:
        """It is drawn on standard error and gone at the end; piped standard output has none."""
        run = real_run(tmp_path / "run")
        with Terminal(("eval", "push", str(run)), stdout=subprocess.PIPE) as terminal:
            assert terminal.end() == 0, terminal.text
            assert b"pushing " in terminal.screen
            assert terminal.process.stdout is not None
            assert b"\x1b" not in terminal.process.stdout.read()


def tmp_path_of(folder: Path) -> Path:
    empty = folder.parent / "empty"
    empty.mkdir(exist_ok=True)
    return empty


class Scripted:
    """A platform that knows sample ranges and takes a given number of posts before it is down."""

    def __init__(self, stub: Stub, *, takes: int) -> None:
        self.stored: list[int] = []
        self.takes = takes
        features = {"X-Prime-Features": "idempotency, sample-ranges"}
        evaluation = {"evaluation_id": "ev1", "name": "n", "status": "RUNNING"}
        done = {**evaluation, "status": "COMPLETED"}
        known = Answer(json={"data": {"id": "env1"}, "id": "env1"}, headers=features)
        stub.route("POST", "/api/v1/environmentshub/resolve", known)
        stub.route("POST", "/api/v1/evaluations/", Answer(json=evaluation, headers=features))
        stub.route("POST", "/api/v1/evaluations/ev1/samples", self.take)
        stub.route("GET", "/api/v1/evaluations/ev1/pushes/.*", self.ranges)
        stub.route("POST", "/api/v1/evaluations/ev1/finalize", Answer(json=done, headers=features))
        self.features = features

    def take(self, request: Request) -> Answer:
        if len(self.stored) >= self.takes:
            return Answer(403, json={"detail": "the account is closed"}, headers=self.features)
        start, _, stop = request.headers["X-Prime-Range"].partition("-")
        indexes = range(int(start), int(stop))
        self.stored += indexes
        answer = {"stored": len(indexes), "duplicates": 0, "refused": [], "total_samples": 0}
        return Answer(json=answer, headers=self.features)

    def ranges(self, request: Request) -> Answer:
        ranges = [[index, index + 1] for index in sorted(self.stored)]
        return Answer(json={"push_id": "p", "ranges": ranges, "stored": len(self.stored)})


@pytest.fixture
def big_run(tmp_path: Path) -> Path:
    """Six samples that do not fit into one batch."""
    return make_run(tmp_path / "run", [{"id": n, "text": "x" * 900_000} for n in range(6)])


@pytest.mark.parametrize("how", ["token", "journal"])
def test_what_is_not_delivered_can_be_resumed(
    stub: Stub, inside: Inside, big_run: Path, how: str
) -> None:
    """Exit 1 with the account so far and the very command that goes on; then only the rest goes."""
    scripted = Scripted(stub, takes=2)
    ran = inside("eval", "push", str(big_run), "-o", "json")
    assert ran.code == 1
    answer = json.loads(ran.out)
    assert (answer["status"], answer["finalized"]) == ("failed", False)
    assert 0 < answer["receipt"]["samples_pushed"] < 6
    error = json.loads(ran.err.splitlines()[-1])["error"]
    assert error["evaluation_id"] == "ev1"
    assert "--resume pr1." in error["hint"]

    before = len(scripted.stored)
    scripted.takes = 100
    token = [answer["receipt"]["resume_token"]] if how == "token" else []
    again = inside("eval", "push", str(big_run), "--resume", *token, "-o", "json")
    assert again.code == 0, again
    assert sorted(scripted.stored) == [0, 1, 2, 3, 4, 5]
    assert before < 6
    assert json.loads(again.out)["finalized"] is True


def test_sync_delivers_what_a_push_left(stub: Stub, inside: Inside, big_run: Path) -> None:
    """Listed without the platform, then delivered; exit 1 as long as something is left."""
    assert inside("eval", "sync").err == "nothing is kept on this disk\n"
    assert json.loads(inside("eval", "sync", "--list", "-o", "json").out) == {"pushes": []}
    scripted = Scripted(stub, takes=2)
    assert inside("eval", "push", str(big_run)).code == 1
    (push,) = json.loads(inside("eval", "sync", "--list", "-o", "json").out)["pushes"]
    assert (push["evaluation_id"], push["base_url"]) == ("ev1", stub.url)
    assert push["file"] == str(big_run / "results.jsonl")
    assert "ev1" in inside("eval", "sync", "--list").out

    still = inside("eval", "sync", "-o", "json")
    assert still.code == 1
    assert json.loads(still.out)["results"][0]["problem"]
    assert json.loads(still.err)["error"]["left"] == [push["push_id"]]

    scripted.takes = 100
    ran = inside("eval", "sync")
    assert (ran.code, ran.err) == (0, "close it with: prime-async eval finalize ev1\n")
    assert "delivered" in ran.out
    assert sorted(scripted.stored) == [0, 1, 2, 3, 4, 5]
    assert inside("eval", "sync", "--list").err == "nothing is kept on this disk\n"


def test_a_failed_push_says_what_is_left_in_words(
    stub: Stub, inside: Inside, big_run: Path
) -> None:
    """The text form: what is stored on standard output, what is not on standard error."""
    Scripted(stub, takes=2)
    ran = inside("eval", "push", str(big_run))
    assert ran.code == 1
    assert "not delivered" in ran.err
    assert "the account is closed" in ran.err
    assert "is not complete; go on with `prime-async eval push" in ran.err


def test_the_command_that_goes_on_keeps_what_was_said(
    stub: Stub, inside: Inside, big_run: Path, home: Path
) -> None:
    """Options and context that still count stand in it, quoted for a shell."""
    ConfigStore().save_context("work", {"api_key": "k" * 20, "base_url": stub.url})
    scripted = Scripted(stub, takes=2)
    said = ("--context", "work", "--trim", "a b", "--skip", "--metrics", '{"score": 1}')
    ran = inside("eval", "push", str(big_run), *said, "-o", "json")
    hint = json.loads(ran.err.splitlines()[-1])["error"]["hint"]
    command = hint.partition("`")[2].partition("`")[0]
    scripted.takes = 100
    words = shlex.split(command)
    assert words[:3] == ["prime-async", "--context", "work"]
    assert words[6:11] == ["--trim", "a b", "--skip", "--metrics", '{"score": 1}']
    again = inside(*words[1:], "-o", "json")
    assert again.code == 0, again
    (closing,) = stub.seen("POST", ".*/finalize")
    assert closing.json() == {"metrics": {"score": 1}}


def test_all_is_stored_and_only_the_closing_failed(
    stub: Stub, inside: Inside, big_run: Path
) -> None:
    """Then that is all there is to do."""
    Scripted(stub, takes=100)
    stub.route("POST", "/api/v1/evaluations/ev1/finalize", Answer(500))
    ran = inside("eval", "push", str(big_run))
    assert ran.code == 1
    assert "all samples are stored: close it with `prime-async eval finalize ev1`" in ran.err


def test_a_refusal_of_the_whole_push_says_where_to_go_on(
    stub: Stub, inside: Inside, big_run: Path
) -> None:
    """Nothing is stored and there is no token: the evaluation is named in the command."""
    Scripted(stub, takes=0)
    ran = inside("eval", "push", str(big_run))
    assert ran.code == 1
    assert f"prime-async eval push {big_run} --eval-id ev1`" in ran.err


def test_samples_the_platform_refuses_are_named(stub: Stub, inside: Inside, tmp_path: Path) -> None:
    """Index and reason; exit 1; the evaluation stays open."""
    scripted = Scripted(stub, takes=100)
    refused = {"index": 1, "status": 422, "message": "reward must be a number"}
    stub.route(
        "POST",
        "/api/v1/evaluations/ev1/samples",
        Answer(
            json={"stored": 1, "duplicates": 0, "refused": [refused], "total_samples": 1},
            headers=scripted.features,
        ),
    )
    run = make_run(tmp_path / "run", [{"id": 0}, {"id": 1, "reward": "much"}])
    ran = inside("eval", "push", str(run))
    assert ran.code == 1
    assert "1 of 2 samples were refused" in ran.err
    assert "sample 1: reward must be a number" in ran.err
    assert stub.seen("POST", ".*/finalize") == []


def test_a_push_that_is_interrupted_says_how_to_go_on(tmp_path: Path, big_run: Path) -> None:
    """Ctrl-C on a terminal: 130, one error, the command that resumes, no traceback."""
    from tests.stub import stub_in_thread

    with stub_in_thread() as stub:
        scripted = Scripted(stub, takes=100)
        silent = Answer(json={}, delay=60, headers=scripted.features)
        stub.route("POST", "/api/v1/evaluations/ev1/samples", silent)
        env = {"PRIME_API_KEY": "k" * 20, "PRIME_API_BASE_URL": stub.url}
        with Terminal(("eval", "push", str(big_run)), columns=200, env=env) as terminal:
            terminal.wait_for(b"pushing ")
            terminal.type(b"\x03")
            assert terminal.end() == 130
            assert "interrupted" in terminal.text
            assert "go on with `prime-async eval push" in terminal.text
            assert "Traceback" not in terminal.text
            shown, hidden = terminal.screen.rfind(b"\x1b[?25h"), terminal.screen.rfind(b"\x1b[?25l")
            assert shown >= hidden, "the cursor is back"


@pytest.mark.usefixtures("platform")
def test_standard_output_may_be_closed_without_harm(tmp_path: Path) -> None:
    """The push goes on to its end when nobody reads the account."""
    run = real_run(tmp_path / "run")
    ran = run_command("eval", "push", str(run), "-o", "json")
    assert ran.code == 0
    script = f"{COMMAND} eval push {run} --name unread | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"unread"' in run_command("eval", "list", "-o", "json").out
