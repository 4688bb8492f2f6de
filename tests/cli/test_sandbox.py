"""``prime-async sandbox``: what passes through, what comes back, what is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from prime_sync import Sandbox, SandboxClient
from tests.cli.harness import COMMAND, Ran, run_command

ANYTHING = bytes(range(256)) * 40


def exec_bytes(box: Sandbox, *words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command in the sandbox with input; give the exact bytes it wrote."""
    command = [COMMAND, "sandbox", "exec", box.id, "--", *words]
    return subprocess.run(command, input=data, capture_output=True, timeout=60, check=False)


def started(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [COMMAND, "sandbox", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def answer_of(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["sh", "-c", 'echo "a  b" | wc -c'], "5"),
        (["echo 'a  b'"], "a  b"),
        (["echo", "a  b", "", "$HOME", "*", "it's", "-n"], "a  b  $HOME * it's -n"),
        (["printf", "%s|", "a\nb", "é", '"'], 'a\nb|é|"|'),
        (["--", "true"], None),
    ],
)
def test_FR21_words_arrive_as_they_were_typed(
    box: Sandbox, through: Callable[..., Ran], words: list[str], output: str | None
) -> None:
    """Several words are passed on word by word, one alone is a line for the shell."""
    ran = through("sandbox", "exec", box.id, "--", *words)
    assert ran.out.strip() == (output or "")
    assert ran.code == (0 if output else 127), ran


def test_the_exit_code_is_the_commands(box: Sandbox, through: Callable[..., Ran]) -> None:
    """Its own, and 128 and the number of the signal that ended it."""
    assert through("sandbox", "exec", box.id, "--", "sh", "-c", "exit 7").code == 7
    assert through("sandbox", "exec", box.id, "kill -9 $$").code == 137
    assert exec_bytes(box, "sh", "-c", "exit 9", data=b"x").returncode == 9


def test_output_passes_through_as_it_is(box: Sandbox) -> None:
    """Both streams apart; nothing taken for markup, nothing wrapped, nothing decoded."""
    line = '[red]{"a": "' + "x" * 300 + '"}[/x]\x1b[0m\\xff'
    wide = run_command("sandbox", "exec", box.id, "--", "printf", "%s", line, env={"COLUMNS": "40"})
    assert (wide.out, wide.err, wide.code) == (line, "", 0)
    apart = exec_bytes(box, "sh", "-c", r"printf '\377\0out'; printf '\376err' >&2")
    assert (apart.stdout, apart.stderr) == (b"\xff\0out", b"\xfeerr")


def test_input_passes_through(box: Sandbox, tmp_path: Path) -> None:
    """Every byte of a pipe and of a file, and its end; `--no-stdin` leaves it alone."""
    piped = exec_bytes(box, "cat", data=ANYTHING * 100)
    assert piped.returncode == 0
    assert piped.stdout == ANYTHING * 100
    file = tmp_path / "input"
    file.write_bytes(ANYTHING)
    with file.open("rb") as source:
        assert run_command("sandbox", "exec", box.id, "wc -c", stdin=source).out == "10240\n"
    one = f"{COMMAND} sandbox exec {box.id} --no-stdin -- echo $n"
    script = f"printf '1\\n2\\n' | while read n; do {one}; done"
    loop = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert loop.stdout == "1\n2\n"


def test_output_comes_at_once(box: Sandbox) -> None:
    """A line is here while the command still runs and waits for our answer."""
    with started("exec", box.id, "--", "sh", "-c", "echo who; read name; echo hi $name") as process:
        assert answer_of(process) == b"who\n"
        out, _ = process.communicate(b"me\n", timeout=30)
    assert (out, process.returncode) == (b"hi me\n", 0)


def test_a_reader_that_goes_ends_the_command(box: Sandbox) -> None:
    """As in a pipeline here: 128 and SIGPIPE, and nothing goes on running there."""
    with started("exec", box.id, "--no-stdin", "--", "yes", "gone-reader") as process:
        assert answer_of(process) == b"gone-reader\n"
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(30) == 141
    assert still_running(box, "gone-reader") == ""


@pytest.mark.parametrize("more", [["--no-stdin"], []], ids=["alone", "with input"])
def test_an_interrupt_ends_the_command_there(box: Sandbox, more: list[str]) -> None:
    """Ctrl-C: 130 here, and there nothing is left of what it started."""
    text = "echo up; sleep 4242 & sleep 4242"
    with started("exec", box.id, *more, "--", text) as process:
        assert answer_of(process) == b"up\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert still_running(box, "sleep 4242") == ""


def still_running(box: Sandbox, text: str) -> str:
    found = f"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o '{text[0]}[{text[1]}]{text[2:]}'"
    with SandboxClient() as client:
        return client.execute_command(box.id, found).stdout


def test_a_command_has_its_time(box: Sandbox, through: Callable[..., Ran]) -> None:
    """`--timeout` ends it, with or without input, and says so."""
    words = ("sandbox", "exec", box.id, "--timeout", "0.5", "--", "sleep", "77")
    for ran in (through(*words), run_command(*words, input="")):
        assert ran.code == 1
        assert "timed out after 0.5 s" in ran.err


def test_json_holds_what_it_wrote(box: Sandbox, inside: Callable[..., Ran]) -> None:
    """One document; the exit code stays the command's."""
    ran = inside("sandbox", "exec", box.id, "-o", "json", "--", "echo a; echo b >&2; exit 3")
    assert ran.code == 3
    assert ran.err == ""
    told = json.loads(ran.out)
    assert told.pop("elapsed") < 60
    assert told == {
        "sandbox_id": box.id,
        "exit_code": 3,
        "stdout": "a\n",
        "stderr": "b\n",
        "truncated": False,
    }


def test_the_environment_and_folder_of_a_command(
    box: Sandbox, through: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--env` with a value, and from here; `--workdir`."""
    monkeypatch.setenv("FROM_HERE", "there too")
    ran = through(
        *("sandbox", "exec", box.id, "-e", "A=1=2", "--env", "FROM_HERE", "--workdir", "/tmp"),
        *("--", 'echo "$A,$FROM_HERE,$PWD"'),
    )
    assert ran.out == "1=2,there too,/tmp\n"


def test_what_only_looks_like_ours(box: Sandbox, through: Callable[..., Ran]) -> None:
    """Options behind `--` are the command's; before it an unknown one says what to do."""
    ran = through("sandbox", "exec", box.id, "--", "echo", "-o", "json", "--plain", "--help")
    assert ran.out == "-o json --plain --help\n"
    ran = through("sandbox", "exec", box.id, "ls", "-la")
    assert ran.code == 2
    assert "put `--` before" in ran.err.lower()
    assert through("sandbox", "exec", box.id, "-t", "--", "sh").code == 2


def test_run_leaves_nothing(sandboxes: str, through: Callable[..., Ran]) -> None:
    """It makes, waits, executes and deletes, whatever the exit code."""
    words = ["sh", "-c", "pwd; exit 5"]
    ran = through("sandbox", "run", "python:3.11", "--label", "gone", "--", *words)
    assert (ran.code, ran.err) == (5, "")
    assert ran.out == "/app\n"
    assert alive("gone") == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_run_deletes_when_it_is_ended(sandboxes: str, number: signal.Signals, code: int) -> None:
    """Ctrl-C and SIGTERM take the sandbox with them."""
    label = f"ended-{code}"
    words = ["sh", "-c", "echo up; sleep 1000"]
    with started("run", "python:3.11", "--no-stdin", "--label", label, "--", *words) as process:
        assert answer_of(process) == b"up\n"
        assert len(alive(label)) == 1
        process.send_signal(number)
        assert process.wait(30) == code
    assert alive(label) == []


def test_run_can_keep_it(sandboxes: str, through: Callable[..., Ran]) -> None:
    """`--keep` says the id, and `delete` by label ends it."""
    ran = through("sandbox", "run", "ubuntu", "--keep", "--label", "kept", "--", "true")
    assert ran.code == 0
    [sandbox_id] = alive("kept")
    assert sandbox_id in ran.err
    assert through("sandbox", "delete", "--label", "kept").code == 2  # nobody can answer
    gone = through("sandbox", "delete", "--label", "kept", "--yes", "-o", "json")
    assert json.loads(gone.out) == {"deleted": [sandbox_id], "failed": {}}
    assert through("sandbox", "delete", "--label", "kept").code == 0


def alive(label: str) -> list[str]:
    with SandboxClient() as client:
        found = client.list(labels=[label], exclude_terminated=True).sandboxes
        return [sandbox.id for sandbox in found]


def test_create_list_get_delete(sandboxes: str, inside: Callable[..., Ran]) -> None:
    """The life of a sandbox in JSON and in text; no value of its environment anywhere."""
    made = inside(
        *("sandbox", "create", "ubuntu:24.04", "--wait", "-o", "json", "--label", "life"),
        *("--env", "PLAIN=visible-value", "--secret", "TOKEN=secret-value"),
        *("--", "sh", "-c", "echo begun; exec sleep 1000"),
    )
    assert made.code == 0, made
    sandbox = json.loads(made.out)
    assert sandbox["status"] == "RUNNING"
    assert sandbox["environmentVars"] == {"PLAIN": "***"}
    said = [
        inside("sandbox", *words) for words in (["get", sandbox["id"]], ["ls", "--label", "life"])
    ]
    logs = inside("sandbox", "logs", sandbox["id"])
    assert "begun" in logs.out
    listed = inside("sandbox", "list", "--label", "life", "-o", "json")
    assert [row["id"] for row in json.loads(listed.out)["sandboxes"]] == [sandbox["id"]]
    gone = inside("sandbox", "delete", sandbox["id"], "-y")
    assert gone.out == f"deleted {sandbox['id']}\n"
    again = inside("sandbox", "delete", sandbox["id"], "nosuch", "-y")
    assert again.code == 1
    for ran in (made, *said, listed, gone, again):
        assert "value" not in ran.everything
        assert sandbox["id"] in ran.everything


def test_errors_name_what_is_wrong(
    sandboxes: str, box: Sandbox, inside: Callable[..., Ran]
) -> None:
    """Images, fields, files and ids that are none: exit codes and words for a person."""
    image = inside("sandbox", "create", "nosuch/image:1", "--wait")
    assert image.code == 1
    assert "catalogue" in image.err
    assert "`prime-async sandbox delete" in image.err
    taken_for_one = inside("sandbox", "run", box.id, "--", "true")
    assert taken_for_one.code == 1
    assert f"`prime-async sandbox exec {box.id} …`" in taken_for_one.err
    both = inside(
        "sandbox", "run", "ubuntu", "--network-allow", "a.b", "--network-deny", "c.d", "x"
    )
    assert both.code == 2
    assert "--network-allow and --network-deny exclude each other" in both.err
    hidden = inside("sandbox", "create", "--env", "=very-secret")
    assert hidden.code == 2
    assert "very-secret" not in hidden.everything
    missing = inside("sandbox", "download", box.id, "/app/nosuch", ".")
    assert missing.code == 1
    assert "sandbox files" in missing.err
    assert inside("sandbox", "upload", box.id, "nosuch", "/app/x").code == 2
    folder = inside("sandbox", "exec", box.id, "--workdir", "/nosuch", "true")
    assert folder.code == 1
    assert folder.err.startswith(
        "error: working_dir: No such file or directory: '/nosuch'\n  where: POST http"
    )
    nobody = inside("sandbox", "exec", "nosuch", "true")
    assert nobody.code == 1
    assert "sandbox list --all" in nobody.err


def test_files_go_and_come(box: Sandbox, inside: Callable[..., Ran], tmp_path: Path) -> None:
    """A file with an odd name there and back, equal; `files` shows it."""
    here = tmp_path / "a 'b'\nü.bin"
    here.write_bytes(ANYTHING)
    sent = inside("sandbox", "upload", box.id, str(here), "/app/odd/", "--verify", "-o", "json")
    assert sent.code == 0, sent
    assert json.loads(sent.out) == {"path": f"/app/odd/{here.name}", "size": len(ANYTHING)}
    shown = inside("sandbox", "files", box.id, "/app/odd")
    assert "-rw" in shown.out
    assert len(shown.out.splitlines()) == 2
    listed = json.loads(inside("sandbox", "files", box.id, "/app/odd", "-o", "json").out)
    assert [entry["path"] for entry in listed["files"]] == [f"/app/odd/{here.name}"]
    back = tmp_path / "back"
    back.mkdir()
    got = inside("sandbox", "download", box.id, f"/app/odd/{here.name}", str(back), "--verify")
    assert got.code == 0, got
    assert (back / here.name).read_bytes() == ANYTHING


def test_folders_go_and_come(box: Sandbox, inside: Callable[..., Ran], tmp_path: Path) -> None:
    """With what is in them; what cannot travel is named, and is a failure unless accepted."""
    here = tmp_path / "tree"
    (here / "sub").mkdir(parents=True)
    (here / "sub" / "f.txt").write_text("text")
    (here / "inside").symlink_to("sub/f.txt")
    (here / "outside").symlink_to("/etc/passwd")
    sent = inside("sandbox", "upload", box.id, str(here), "/app/tree")
    assert sent.code == 1
    assert "outside: a link with an absolute target" in sent.err
    accepted = inside("sandbox", "upload", box.id, str(here), "/app/tree", "--skip", "-o", "json")
    assert accepted.code == 0
    assert json.loads(accepted.out)["skipped"][0]["path"] == "outside"
    got = inside("sandbox", "download", box.id, "/app/tree", str(tmp_path / "back"))
    assert got.code == 0, got
    assert (tmp_path / "back" / "inside").read_text() == "text"


def test_no_secret_on_a_command_line_of_this_machine(sandboxes: str) -> None:
    """`--secret NAME` takes the value from the environment: no process list shows it."""
    text = "echo up; read x; test $TOKEN = $(printf from-%s-environment the)"
    command = [COMMAND, "sandbox", "run", "ubuntu", "--secret", "TOKEN", "--", text]
    with subprocess.Popen(
        ["env", "TOKEN=from-the-environment", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert answer_of(process) == b"up\n"
        if sys.platform == "linux":
            lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
            assert not [line for line in lines if b"from-the-environment" in line]
        process.communicate(b"\n", timeout=30)
    assert process.returncode == 0
