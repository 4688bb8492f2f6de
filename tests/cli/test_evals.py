"""`eval` beside push: list, get, samples, create, finalize, update, delete, stop, logs; whoami."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import CANARY, COMMAND, Ran, run_command
from tests.cli.runs import make_run
from tests.cli.terminal import Terminal
from tests.stub import Answer, Request, Stub

Inside = Callable[..., Ran]
ODD_NAME = "[red]x[/red] \x1b[2J “quoted” 日本語 " + "long " * 40


def create(inside: Inside, *arguments: str, env: str = "gsm8k", name: str = "n") -> str:
    ran = inside("eval", "create", "--name", name, "--env", env, *arguments, "-o", "json")
    assert (ran.code, ran.err) == (0, ""), ran
    return str(json.loads(ran.out)["evaluation_id"])


def get(inside: Inside, evaluation_id: str) -> dict[str, Any]:
    ran = inside("eval", "get", evaluation_id, "-o", "json")
    assert (ran.code, ran.err) == (0, ""), ran
    answer: dict[str, Any] = json.loads(ran.out)
    return answer


@pytest.mark.usefixtures("platform")
class TestAgainstThePlatform:
    def test_create_with_everything(self, inside: Inside, tmp_path: Path) -> None:
        """Each option arrives; JSON comes from the command line or from a file."""
        file = tmp_path / "metadata.json"
        file.write_text('{"seed": 1}', "utf-8")
        evaluation_id = create(
            inside, "--model", "m", "--dataset", "d", "--framework", "f", "--task-type", "t",
            "--description", "about", "--tag", "a", "--tag", "b", "--metadata", f"@{file}",
            "--metrics", '{"score": 1}', "--run-id", "r1", "--public", name=ODD_NAME,
        )  # fmt: skip
        stored = get(inside, evaluation_id)
        wanted = {
            "name": ODD_NAME, "model_name": "m", "dataset": "d", "framework": "f",
            "task_type": "t", "description": "about", "tags": ["a", "b"],
            "metadata": {"seed": 1}, "is_public": True, "run_id": "r1",
        }  # fmt: skip
        assert {name: stored[name] for name in wanted} == wanted

    def test_create_needs_something_it_belongs_to(self, inside: Inside) -> None:
        """A usage error before any request."""
        ran = inside("eval", "create", "--name", "n")
        assert ran.code == 2
        assert "environment" in ran.err

    def test_data_is_shown_as_it_is(self, inside: Inside) -> None:
        """Markup, escape sequences and length of a name do nothing to a piped table."""
        evaluation_id = create(inside, name=ODD_NAME, env="odd")
        (heading, row) = inside("eval", "list", "--env", "odd").out.splitlines()
        assert heading.startswith("ID ")
        assert row.startswith(evaluation_id)
        assert r"[red]x[/red] \e[2J “quoted” 日本語" in row
        assert ODD_NAME.rstrip()[-20:] in row

    @pytest.mark.parametrize("mode", ["table", "json"])
    def test_FR46_nothing_found(self, inside: Inside, mode: str) -> None:
        """An empty list is a success; JSON is a document all the same."""
        ran = inside("eval", "list", "--env", "nobody-has-this", "-o", mode)
        assert ran.code == 0
        if mode == "json":
            assert json.loads(ran.out)["evaluations"] == []
            assert ran.err == ""
        else:
            assert (ran.out, ran.err) == ("", "no evaluations\n")

    def test_FR46_many_rows_in_pages(self, inside: Inside) -> None:
        """One line per row, a footer that says how to go on, JSON that says where it is."""
        ids = [create(inside, name=f"n{n}", env="pages") for n in range(5)]
        first = inside("eval", "ls", "--env", "pages", "-n", "2")
        assert len(first.out.splitlines()) == 3
        assert first.err == "1-2 of 5 evaluations; next: --page 2\n"
        found = []
        for page in ("1", "2", "3"):
            ran = inside("eval", "list", "-e", "pages", "-p", page, "--num", "2", "-o", "json")
            answer = json.loads(ran.out)
            assert (answer["total"], answer["page"], answer["limit"]) == (5, int(page), 2)
            found += [each["evaluation_id"] for each in answer["evaluations"]]
        assert found == ids[::-1]
        beyond = inside("eval", "list", "-e", "pages", "-p", "9")
        assert (beyond.code, beyond.out) == (0, "")
        assert "no evaluations on page 9; there are 5" in beyond.err

    def test_finalize_update_and_get(self, inside: Inside) -> None:
        """The life of an evaluation by hand."""
        evaluation_id = create(inside, "--tag", "old")
        assert inside("eval", "update", evaluation_id, "--name", "new", "--model", "m2").code == 0
        stored = get(inside, evaluation_id)
        assert (stored["name"], stored["model_name"], stored["tags"]) == ("new", "m2", ["old"])
        assert inside("eval", "update", evaluation_id, "--no-tags").code == 0
        assert get(inside, evaluation_id)["tags"] == []
        ran = inside("eval", "finalize", evaluation_id, "--metrics", '{"accuracy": 0.9}')
        assert ran.code == 0
        assert get(inside, evaluation_id)["metrics"] == {"accuracy": 0.9}
        text = inside("eval", "get", evaluation_id).out
        assert "metrics:" in text
        assert '{"accuracy":0.9}' in text
        nothing = inside("eval", "update", evaluation_id)
        assert nothing.code == 2
        assert inside("eval", "update", evaluation_id, "--tag", "x", "--no-tags").code == 2

    def test_samples_page_table_and_stream(self, inside: Inside, tmp_path: Path) -> None:
        """Pages, a table, and all of them as JSON Lines in their order."""
        rows = [{"id": n, "reward": n / 10, "info": {"n": "[x]"}} for n in range(250)]
        pushed = inside("eval", "push", str(make_run(tmp_path / "run", rows)), "-o", "json")
        evaluation_id = json.loads(pushed.out)["evaluation_id"]
        page = json.loads(inside("eval", "samples", evaluation_id, "-p", "3", "-o", "json").out)
        assert [sample["id"] for sample in page["samples"]] == list(range(200, 250))
        assert (page["total"], page["page"], page["hasMore"]) == (250, 3, False)
        table = inside("eval", "samples", evaluation_id, "-n", "3", "-p", "2")
        assert table.out.splitlines()[1].split()[:3] == ["3", "3", "0.3"]
        assert table.err == "4-6 of 250 samples; next: --page 3\n"
        lines = inside("eval", "samples", evaluation_id, "--all").out.splitlines()
        assert [json.loads(line) for line in lines] == [{"example_id": r["id"], **r} for r in rows]
        script = f"set -o pipefail; {COMMAND} eval samples {evaluation_id} --all | head -1"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["id"] == 0

    def test_delete(self, inside: Inside) -> None:
        """Needs `--yes` where nobody can answer; what could not be deleted is named."""
        first, second = create(inside), create(inside)
        refused = inside("eval", "delete", first)
        assert refused.code == 2
        assert "--yes" in refused.err
        ran = inside("eval", "delete", first, "nosuch", second, "-y", "-o", "json")
        assert ran.code == 1
        answer = json.loads(ran.out)
        assert answer["deleted"] == [first, second]
        assert list(answer["failed"]) == ["nosuch"]
        assert json.loads(ran.err)["error"]["failed"] == ["nosuch"]
        assert inside("eval", "get", first).code == 1

    def test_deleting_can_be_left_with_ctrl_c(self, inside: Inside) -> None:
        """The question is asked while the loop runs: Ctrl-C must not wait for Enter."""
        evaluation_id = create(inside)
        with Terminal(("eval", "delete", evaluation_id)) as terminal:
            terminal.wait_for(b"[y/N] ")
            terminal.type(b"\x03")
            assert terminal.end() == 130
            assert "Traceback" not in terminal.text
        assert get(inside, evaluation_id)["evaluation_id"] == evaluation_id

    def test_sigterm_ends_a_question_under_the_loop(self, inside: Inside) -> None:
        """The loop is held by the question: 143 all the same, and nothing is deleted."""
        evaluation_id = create(inside)
        with Terminal(("eval", "delete", evaluation_id)) as terminal:
            terminal.wait_for(b"[y/N] ")
            terminal.signal(signal.SIGTERM)
            assert terminal.end() == 143
            assert "Traceback" not in terminal.text
        assert get(inside, evaluation_id)["evaluation_id"] == evaluation_id

    def test_whoami(self, inside: Inside) -> None:
        """Account and place; the key is not shown."""
        ran = inside("whoami")
        assert ran.code == 0
        assert "local@localhost" in ran.out
        answer = json.loads(inside("whoami", "-o", "json").out)
        assert answer["base_url"].startswith("http://127.0.0.1:")
        assert CANARY not in ran.everything

    def test_an_unknown_evaluation(self, inside: Inside) -> None:
        """One form: what, where, what next; in JSON with status and request id."""
        for words in (("get",), ("samples",), ("finalize",), ("stop",), ("logs",)):
            ran = inside("eval", *words, "nosuch")
            assert ran.code == 1, words
            assert "'nosuch'" in ran.err
            assert "next:  `prime-async eval list` shows the ids" in ran.err
        error = json.loads(inside("eval", "get", "nosuch", "-o", "json").err)["error"]
        assert error["type"] == "EvaluationNotFoundError"
        assert (error["status"], error["exit_code"]) == (404, 1)
        assert error["request_id"]
        assert error["where"].startswith("GET http://127.0.0.1:")


def hosted(stub: Stub, logs: list[str], statuses: list[str]) -> None:
    """A hosted evaluation whose log grows from look to look."""

    def next_of(values: list[str]) -> str:
        return values.pop(0) if len(values) > 1 else values[0]

    def evaluation(_: Request) -> Answer:
        return Answer(json={"evaluation_id": "ev1", "status": next_of(statuses)})

    stub.route("GET", "/api/v1/evaluations/ev1", evaluation)
    stub.route(
        "GET",
        "/api/v1/hosted-evaluations/ev1/logs",
        lambda _: Answer(json={"logs": next_of(logs)}),
    )


class TestHosted:
    def test_logs_are_cleaned_and_cut(self, stub: Stub, inside: Inside) -> None:
        """The last lines, colours gone, other control characters written out."""
        hosted(stub, ["one\n\x1b[32mtwo\x1b[0m [info]\nthree \x07\n"], ["RUNNING"])
        ran = inside("eval", "logs", "ev1", "--tail", "2")
        assert (ran.code, ran.out) == (0, "two [info]\nthree \\x07\n")
        answer = json.loads(inside("eval", "logs", "ev1", "-o", "json").out)
        assert answer["status"] == "RUNNING"
        assert inside("eval", "logs", "ev1", "-f", "-o", "json").code == 2

    @pytest.mark.parametrize(("last", "code"), [("COMPLETED", 0), ("FAILED", 1), ("TIMEOUT", 1)])
    def test_following_ends_with_the_evaluation(
        self, stub: Stub, inside: Inside, last: str, code: int
    ) -> None:
        """Each line once, although the log is fetched whole and loses its beginning."""
        hosted(
            stub, ["a\n", "a\nb\n", "b\nc\n", "b\nc\nd\n"], ["RUNNING", "RUNNING", "RUNNING", last]
        )
        ran = inside("eval", "logs", "ev1", "--follow", "--poll-interval", "0.1")
        assert (ran.code, ran.out) == (code, "a\nb\nc\nd\n")
        assert last in ran.err

    def test_stop(self, stub: Stub, inside: Inside) -> None:
        """The platform's own words; JSON with the id."""
        answer = Answer(json={"message": "will stop [soon]"})
        stub.route("PATCH", "/api/v1/hosted-evaluations/ev1/cancel", answer)
        assert inside("eval", "stop", "ev1").out == "will stop [soon]\n"
        said = json.loads(inside("eval", "stop", "ev1", "-o", "json").out)
        assert said == {"evaluation_id": "ev1", "message": "will stop [soon]"}


def test_an_interrupted_request_ends_at_once(stub: Stub) -> None:
    """Ctrl-C while the platform is silent: 130."""
    stub.default = Answer(json={}, delay=60)
    with Terminal(("eval", "list")) as terminal:
        while not stub.requests:
            terminal._read(0.05)
        terminal.type(b"\x03")
        assert terminal.end() == 130
        assert terminal.text.replace("^C", "").strip().endswith("interrupted")
        assert "Traceback" not in terminal.text


def test_sigterm_ends_with_143(stub: Stub) -> None:
    """The command is cancelled, cleans up and leaves."""
    stub.default = Answer(json={}, delay=60)
    process = subprocess.Popen(
        [COMMAND, "eval", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not stub.requests:
        assert process.poll() is None
    process.terminate()
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (143, "")
    assert "Traceback" not in err


def test_a_wide_table_on_a_narrow_terminal_keeps_the_ids(platform: str, inside: Inside) -> None:
    """COLUMNS=40: the id is whole, what has no room is named."""
    evaluation_id = create(inside, env="narrow", name="x" * 200)
    with Terminal(("eval", "list", "--env", "narrow"), columns=40) as terminal:
        assert terminal.end() == 0
    assert evaluation_id in terminal.text
    assert "no room for" in terminal.text
    ran = run_command("eval", "list", "--env", "narrow", env={"COLUMNS": "40"})
    assert "x" * 200 in ran.out
