"""What was probably meant is named: the file, the folder, the option, the next command."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from prime_async_cli.failures import explain

from prime_sync import CreateSandboxRequest, SandboxClient
from tests.cli.harness import Ran
from tests.cli.runs import make_run
from tests.traces.records import line, trace


def next_of(ran: Ran) -> str:
    return next((each for each in ran.err.splitlines() if each.startswith("  next:")), "")


pytestmark = pytest.mark.usefixtures("platform")


def test_a_folder_above_result_folders(
    inside: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_run(Path("outputs/evals/e--m/1"), [{"id": 0}])
    for above in ("outputs", "outputs/evals", "outputs/evals/e--m", "."):
        ran = inside("eval", "push", above)
        assert (ran.code, str(run) in next_of(ran)) == (2, True)


def test_names_of_files(
    inside: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("samples.jsonl").write_text("{}\n")
    Path("gone.jsonl").symlink_to("nowhere")
    for command in (("eval", "push"), ("traces", "upload"), ("sandbox", "upload", "x1")):
        ran = inside(*command, "sample.jsonl", *(["/app/x"] if "sandbox" in command else []))
        assert ran.code == 2
        assert "id you mean samples.jsonl?" in ran.err
    assert "a link to what does not exist" in inside("eval", "push", "gone.jsonl").err


def test_a_pipe_cannot_be_read_twice(inside: Callable[..., Ran], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    ran = inside("eval", "push", str(tmp_path / "pipe"))
    assert (ran.code, "is not a plain file" in ran.err) == (2, True)


def test_metadata_of_another_type(inside: Callable[..., Ran], tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [{"id": 0}])
    (run / "metadata.json").write_text('{"env_id": 5, "model": "m"}')
    assert "env_id is a JSON number, not a text" in inside("eval", "push", str(run)).err
    (run / "metadata.json").write_text("[]")
    assert "holds a JSON array, not an object" in inside("eval", "push", str(run)).err


def test_nothing_to_push_is_said(inside: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    ran = inside("eval", "push", str(tmp_path / "empty.jsonl"), "--env", "e")
    assert ran.code == 0
    assert "holds no samples" in ran.err


def test_options_are_called_what_they_are(inside: Callable[..., Ran]) -> None:
    both = inside("sandbox", "run", "i", "--network-allow", "a.b", "--network-deny", "c", "x")
    assert both.err.startswith("error: --network-allow and --network-deny exclude each other")
    gpu = inside("sandbox", "create", "--gpu-count", "1")
    assert gpu.err.startswith("error: --gpu-count and --gpu-type go together")


def test_what_does_nothing_is_refused(inside: Callable[..., Ran]) -> None:
    for option in ("--page", "--limit"):
        ran = inside("eval", "samples", "x1", "--all", option, "2")
        assert (ran.code, f"{option} does nothing here" in ran.err) == (2, True)


def test_an_empty_word_is_none(inside: Callable[..., Ran]) -> None:
    assert inside("eval", "create", "--name", "n", "--env", "e", "--tag", "").code == 2
    assert inside("sandbox", "list", "-l", " ").code == 2


def test_a_file_of_traces_is_named(inside: Callable[..., Ran], tmp_path: Path) -> None:
    file = tmp_path / "traces.jsonl"
    file.write_text("{}\n")
    ran = inside("traces", "upload", str(file))
    assert ran.code == 1
    assert ran.err.startswith(f"error: {file}: line 1: ")


def test_a_byte_order_mark_is_no_part_of_a_trace(
    inside: Callable[..., Ran], tmp_path: Path
) -> None:
    file = tmp_path / "traces.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + line(trace("with-a-mark")))
    assert inside("traces", "upload", str(file)).code == 0


def test_the_end_of_a_name_is_a_format(inside: Callable[..., Ran], tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    ran = inside("traces", "export", str(file), "--run-id", "nosuch")
    assert ran.code == 0
    assert "parquet" in ran.out
    assert file.read_bytes()[:4] == b"PAR1"
    empty = inside("traces", "export", str(tmp_path / "rows.jsonl"), "--run-id", "nosuch")
    assert "no trace is like that" in empty.err


def test_an_output_that_cannot_be_written(inside: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = inside("traces", "export", "/proc/rows.jsonl")
    assert ran.code == 1
    assert ran.err.startswith("error: /proc/rows.jsonl: ")


def test_a_team_that_is_not_yours(
    inside: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIME_TEAM_ID", "cnosuch")
    for words in (("eval", "create", "--name", "n", "--env", "e"), ("eval", "list")):
        ran = inside(*words)
        assert ran.code == 1
        assert "no team with this id is yours" in ran.err
        assert "remove-team-id" in next_of(ran)


@pytest.mark.parametrize(
    "words",
    [
        ("set-base-url", "nope"),
        ("set-traces-url", "ftp://x"),
        ("set-api-key", "a b"),
        ("save", "a/b"),
        ("save", "local"),
    ],
)
def test_a_setting_that_cannot_be_used_is_a_wrong_call(
    words: tuple[str, ...], inside: Callable[..., Ran]
) -> None:
    assert inside("config", *words).code == 2


def test_choices_stand_in_one_line(inside: Callable[..., Ran]) -> None:
    first = inside("completion").err.splitlines()[0]
    assert first == "error: Missing argument 'SHELL'. Choose from: bash, zsh, fish"


def test_an_error_that_ctrl_c_brought_about_is_ctrl_c() -> None:
    error = TypeError("expected a message argument")
    error.__context__ = KeyboardInterrupt()
    assert explain(error).code == 130
    assert explain(TypeError("x")).code == 1


def test_ids_between_commas(inside: Callable[..., Ran], sandboxes: str) -> None:
    """As the official command takes them; `-a` is `--all`, `-w` the folder."""
    with SandboxClient() as client:
        made = [
            client.create(CreateSandboxRequest(name="n", docker_image="ubuntu")).id for _ in "ab"
        ]
    ran = inside("sandbox", "delete", ",".join(made), "-y")
    assert (ran.code, ran.out) == (0, "".join(f"deleted {each}\n" for each in made))
    assert inside("sandbox", "delete", "x1,", "-y").code == 2
    assert "no such sandbox is alive" in inside("sandbox", "delete", "-l", "nosuch", "-y").err
