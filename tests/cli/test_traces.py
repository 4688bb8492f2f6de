"""``prime-async traces``: every command but those that go on, against the platform."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import CANARY, Ran, run_command
from tests.cli.terminal import Terminal
from tests.stub import Stub
from tests.traces.records import episode, fresh_run, line, trace

Inside = Callable[..., Ran]

pytestmark = pytest.mark.usefixtures("home")


def write(path: Path, *records: dict[str, Any]) -> Path:
    """Write records as a file to upload."""
    path.write_bytes(b"".join(line(record) for record in records))
    return path


@pytest.fixture
def run_id(platform: str, inside: Inside, tmp_path: Path) -> str:
    """A run of three traces; the middle one failed, and names things to be careful with."""
    run = fresh_run()
    odd = "\x1b[31m[red]\u202e"
    file = write(
        tmp_path / "three.jsonl",
        trace(f"{run}-a", run=run),
        trace(f"{run}-b", run=run, ok=False, task={"data": {"name": odd}}, rewards={}),
        trace(f"{run}-c", run=run, rewards={"right": {"score": 0.9, "weight": 1.0}}),
    )
    assert inside("traces", "upload", str(file), "-c", f"source={run}").code == 0
    return run


def ids(ran: Ran) -> list[str]:
    """The ids of the traces on a page."""
    return [item["trace_id"] for item in json.loads(ran.out)["items"]]


def test_an_upload_says_what_became_of_each_batch(
    platform: str, inside: Inside, tmp_path: Path
) -> None:
    """A line per batch on standard output; a repeat says that it was stored before."""
    file = write(tmp_path / "t.jsonl", trace(fresh_run()))
    first, again = (inside("traces", "upload", str(file)) for _ in range(2))
    assert (first.code, again.code) == (0, 0)
    size = f"{file.stat().st_size:,} bytes"
    assert first.out.split("  ")[1:] == ["committed", "lines 1-1", f"{size}\n"]
    assert again.out.split("  ")[:2] == [first.out.split("  ")[0], "stored before"]
    assert first.err == f"1 batch, {size}\n"


def test_an_upload_as_json(platform: str, inside: Inside, tmp_path: Path) -> None:
    """The receipts as one document, nothing beside it."""
    file = write(tmp_path / "t.jsonl", episode(fresh_run(), trace(fresh_run())))
    ran = inside("traces", "upload", str(file), "--episodes", "--no-compress", "-o", "json")
    document = json.loads(ran.out)
    assert (ran.code, ran.err, document["num_batches"], document["refused"]) == (0, "", 1, [])
    assert [each["status"] for each in document["receipts"]] == ["committed"]
    assert len(document["receipts"][0]["upload_id"]) == 64


def test_an_upload_of_lines_that_are_refused_fails(
    platform: str, inside: Inside, tmp_path: Path
) -> None:
    """The platform names the line at fault; nothing of the batch is stored, and the exit is 1."""
    run = fresh_run()
    file = write(tmp_path / "t.jsonl", trace(f"{run}-a", run=run), {"id": "no timing"})
    ran = inside("traces", "upload", str(file), "-o", "json")
    assert (ran.code, ran.out) == (1, "")
    assert json.loads(ran.err)["error"]["code"] == "invalid_trace"
    assert ids(inside("traces", "list", "--run-id", run, "-o", "json")) == []


def test_a_line_that_is_too_long_is_named_and_the_others_are_stored(
    platform: str, inside: Inside, tmp_path: Path
) -> None:
    """Exit 1 with the place of the line; the account counts the rest as stored."""
    run = fresh_run()
    file = tmp_path / "t.jsonl"
    file.write_bytes(line(trace(f"{run}-a", run=run)) + b"x" * (64 * 2**20 + 1) + b"\n")
    ran = inside("traces", "upload", str(file), "-o", "json")
    assert ran.code == 1
    document = json.loads(ran.out)
    assert [each["line_number"] for each in document["refused"]] == [2]
    assert json.loads(ran.err)["error"]["lines"] == [2]
    assert ids(inside("traces", "list", "--run-id", run, "-o", "json")) == [f"{run}-a"]


def test_an_upload_that_fails_half_way_says_what_is_stored(
    platform: str, inside: Inside, tmp_path: Path
) -> None:
    """Two batches, the second refused: the receipt of the first, and that a repeat is safe."""
    large = {"info": {"text": "x" * (31 * 2**20)}}
    file = write(tmp_path / "t.jsonl", trace(fresh_run(), **large), {"id": "no timing"})
    ran = inside("traces", "upload", str(file), "-o", "json")
    assert ran.code == 1
    assert len(json.loads(ran.out)["receipts"]) == 1
    error = json.loads(ran.err)["error"]
    assert (error["num_batches"], error["hint"]) == (
        1,
        "run it again: what is stored already is stored once",
    )


def test_an_upload_draws_a_bar_for_a_person(platform: str, tmp_path: Path) -> None:
    """The bar goes away again, and the line of the batch stays."""
    file = write(tmp_path / "t.jsonl", trace(fresh_run()))
    with Terminal(("traces", "upload", str(file)), columns=120) as terminal:
        assert terminal.end() == 0
    assert "uploading t.jsonl" in terminal.text
    assert "committed" in terminal.text.rsplit("uploading", 1)[1]


def test_a_list_has_filters(run_id: str, inside: Inside) -> None:
    """Each filter alone finds what it should; newest first, or by reward."""

    def found(*arguments: str) -> list[str]:
        ran = inside("traces", "list", *arguments, "-o", "json")
        assert (ran.code, ran.err) == (0, ""), ran
        return [each.rpartition("-")[2] for each in ids(ran)]

    assert found("--run-id", run_id) == ["c", "b", "a"]
    assert found("-c", f"source={run_id}") == ["c", "b", "a"]
    assert found("--run-id", run_id, "--has-error") == ["b"]
    assert found("--run-id", run_id, "--no-has-error") == ["c", "a"]
    assert found("--run-id", run_id, "--reward-min", "0.6") == ["c"]
    assert found("--run-id", run_id, "--reward-max", "0.6") == ["a"]
    assert found("--run-id", run_id, "--sort", "reward")[0] == "c"
    assert found("--run-id", run_id, "--created-after", "2099-01-01") == []
    assert found("--run-id", run_id, "--task-id", "add", "--model-id", "m-1") == ["c", "a"]


def test_pages_of_a_list(run_id: str, inside: Inside) -> None:
    """By number, by cursor, and past the end."""
    base = ("traces", "list", "--run-id", run_id, "--limit", "2", "-o", "json")
    first, second = inside(*base), inside(*base, "--page", "2")
    cursor = json.loads(first.out)["next_cursor"]
    assert ids(first) == [f"{run_id}-c", f"{run_id}-b"]
    assert ids(second) == ids(inside(*base, "--cursor", cursor)) == [f"{run_id}-a"]
    assert ids(inside(*base, "--page", "9")) == []
    said = inside(*base[:-2]).err
    assert said == f"2 traces; next: --cursor {cursor}\n"


def test_a_list_in_a_pipe_is_whole(run_id: str, inside: Inside) -> None:
    """A line per trace with all columns; what could harm a terminal is written out."""
    ran = inside("traces", "list", "--run-id", run_id)
    heading, *lines = ran.out.splitlines()
    columns = "TRACE ID RUN TASK REWARD ERROR TOKENS DURATION CREATED INGESTED"
    assert heading.split() == columns.split()
    assert len(lines) == 3
    assert "\\e[31m[red]\\u202e" in lines[1]
    assert ["error" in each for each in lines] == [False, True, False]
    assert not {"\x1b", "\u202e"} & set(ran.everything)


def test_a_list_on_a_narrow_terminal(run_id: str) -> None:
    """Ids stay whole, what all have in common is said once, columns go in their order."""
    with Terminal(("traces", "list", "--run-id", run_id), columns=90) as terminal:
        assert terminal.end() == 0
    text = terminal.text
    for each in "abc":
        assert f"{run_id}-{each}" in text
    assert f"run: {run_id}" in text
    heading = text.splitlines()[0]
    assert "INGESTED" not in heading
    assert "RUN" not in heading
    assert "REWARD" in heading
    assert "no room for" in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("list", "--episodes", "--runs"), "--episodes and --runs exclude each other"),
        (("list", "--episodes", "--reward-min", "1"), "--reward-min does not go with --episodes"),
        (("list", "--episodes", "--sort", "reward"), "--sort does not go with --episodes"),
        (("list", "--runs", "--run-id", "r"), "--run-id does not go with --runs"),
        (("list", "--runs", "--no-has-error"), "--has-error does not go with --runs"),
        (("list", "--run-step", "0"), "--run-step does not go with a list of traces"),
        (("list", "--run-type", "eval"), "--run-type does not go with a list of traces"),
        (("list", "--episode-id", "e", "--sort", "reward"), "does not go with --episode-id"),
        (("list", "--page", "1", "--cursor", "x"), "--page and --cursor exclude each other"),
        (("list", "-c", "a=1", "-c", "a=2"), "-c names the same key twice"),
        (("list", "-c", "nothing"), "is not KEY=VALUE"),
        (("list", "--created-after", "yesterday"), "is not a moment in ISO 8601"),
        (("list", "--reward-min", "nan"), "is not a number"),
        (("get", "x", "--runs", "--raw"), "a run has no document"),
        (("get", "x", "--runs", "--episodes"), "exclude each other"),
        (("search", "ab", "--run-id", "r"), "it has 2 characters, not 3 to 256"),
        (("search", "    ", "--run-id", "r"), "it is blank"),
        (("search", "needle"), "Missing option"),
        (("delete", "-y"), "name one target"),
        (("delete", "x", "--run-id", "r", "-y"), "name one target"),
        (("sync", "--list", "--watch"), "--list sends nothing"),
        (("sync", "--interval", "3"), "--interval goes with --watch"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_does_not_go_together_is_refused_before_any_request(
    arguments: tuple[str, ...], complaint: str, stub: Stub, inside: Inside
) -> None:
    """Exit 2, the option named, and nothing was asked of the platform."""
    ran = inside("traces", *arguments)
    assert ran.code == 2, ran
    assert complaint in ran.err
    assert stub.requests == []


def test_one_trace(run_id: str, inside: Inside) -> None:
    """As fields, as the object, and as the exact bytes to both places."""
    name = f"{run_id}-c"
    shown = inside("traces", "get", name)
    assert shown.code == 0
    fields = dict(each.split(":", 1) for each in shown.out.splitlines())
    assert fields["reward"].strip() == "0.9"
    assert fields["tokens"].strip() == "7"
    assert fields["context"].strip() == f"source={run_id}"
    assert fields["metrics.turns"].strip() == "1"
    assert json.loads(inside("traces", "get", name, "-o", "json").out)["trace_id"] == name
    gone = inside("traces", "get", f"{run_id}-nobody", "-o", "json")
    assert (gone.code, gone.out) == (1, "")
    assert "traces list" in json.loads(gone.err)["error"]["hint"]


def test_the_exact_bytes_of_a_trace(run_id: str, inside: Inside, tmp_path: Path) -> None:
    """As they were uploaded, on standard output and in a file."""
    uploaded = (tmp_path / "three.jsonl").read_bytes().splitlines()[2]
    raw = run_command("traces", "get", f"{run_id}-c", "--raw")
    assert raw.out.encode().rstrip(b"\n") == uploaded
    dest = tmp_path / "deep" / "trace.json"
    ran = inside("traces", "get", f"{run_id}-c", "--raw", "--dest", str(dest), "-o", "json")
    assert json.loads(ran.out) == {"dest": str(dest), "bytes_written": dest.stat().st_size}
    assert dest.read_bytes().rstrip(b"\n") == uploaded


def test_episodes(platform: str, inside: Inside, tmp_path: Path) -> None:
    """A list, one with its newest traces oldest first, its document, and its traces alone."""
    name = fresh_run()
    members = [trace(f"{name}-{each}", run=name) for each in "ab"]
    file = write(tmp_path / "e.jsonl", episode(name, *members, run={"id": name}))
    assert inside("traces", "upload", str(file), "--episodes").code == 0
    listed = inside("traces", "list", "--episodes", "--run-id", name, "-o", "json")
    assert [each["episode_id"] for each in json.loads(listed.out)["items"]] == [name]
    shown = inside("traces", "get", "--episodes", name).out
    assert shown.index(f"{name}-a") < shown.index(f"{name}-b")
    assert ids(inside("traces", "list", "--episode-id", name, "-o", "json"))[-1] == f"{name}-a"
    dest = tmp_path / "episode.json"
    assert inside("traces", "get", "--episodes", name, "--dest", str(dest)).code == 0
    assert json.loads(dest.read_bytes())["traces"] == [f"{name}-a", f"{name}-b"]


def test_runs(platform: str, inside: Inside, tmp_path: Path) -> None:
    """A list of runs, and one with its steps."""
    run = fresh_run()
    work = {"id": run, "type": "train", "work": {"type": "train", "step": 3}}
    file = write(tmp_path / "r.jsonl", trace(f"{run}-a") | {"run": work})
    inside("traces", "upload", str(file), "-c", "run_type=train")
    listed = inside("traces", "list", "--runs", "--run-type", "train", "-o", "json")
    assert run in [each["run_id"] for each in json.loads(listed.out)["items"]]
    found = json.loads(inside("traces", "get", "--runs", run, "-o", "json").out)
    assert (found["trace_count"], [each["step"] for each in found["steps"]]) == (1, [3])
    shown = inside("traces", "get", "--runs", run).out
    assert shown.splitlines()[1].split() == ["type:", "train"]
    assert "STEP" in shown


def test_search(run_id: str, inside: Inside) -> None:
    """Every match with its place; the count on standard error."""
    ran = inside("traces", "search", f"of {run_id}", "--run-id", run_id)
    heading, *lines = ran.out.splitlines()
    assert heading.split() == ["TRACE", "ID", "NODE", "ROLE", "MATCH"]
    assert sorted(each.split()[0] for each in lines) == [f"{run_id}-{each}" for each in "abc"]
    assert "3 matches in 3 traces" in ran.err
    page = json.loads(
        inside("traces", "search", "needle", "--run-id", run_id, "-n", "1", "-o", "json").out
    )
    assert len(page["items"]) == 1
    nothing = inside("traces", "search", "NEEDLE", "--run-id", run_id)
    assert (nothing.out, "0 matches" in nothing.err) == ("", True)


def test_search_paints_the_match(platform: str, inside: Inside, tmp_path: Path) -> None:
    """On a terminal the match is in view and painted, however narrow it is."""
    run = fresh_run()
    message = {"role": "user", "content": "x" * 90 + " the thing \x1b[2J " + "y" * 90}
    nodes = [{"parent": None, "message": message, "sampled": False}]
    inside("traces", "upload", str(write(tmp_path / "s.jsonl", trace(run, run=run, nodes=nodes))))
    with Terminal(("traces", "search", "the thing", "--run-id", run), columns=80) as terminal:
        assert terminal.end() == 0
    assert "\x1b[33mthe thing\x1b[0m" in terminal.text
    assert "\x1b[2J" not in terminal.text
    assert max(len(each) for each in terminal.text.splitlines()) < 100


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "raw"])
def test_an_export(kind: str, run_id: str, inside: Inside, tmp_path: Path) -> None:
    """What fits the filters, in each format."""
    dest = tmp_path / f"out.{kind}"
    arguments = ("--run-id", run_id, "--no-has-error", "-o", "json")
    ran = inside("traces", "export", str(dest), "--format", kind, *arguments)
    assert json.loads(ran.out) == {
        "dest": str(dest),
        "format": kind,
        "bytes_written": dest.stat().st_size,
    }
    if kind == "parquet":
        from pyarrow import parquet

        found = parquet.read_table(dest).column("trace_id").to_pylist()
    else:
        rows = [json.loads(each) for each in dest.read_bytes().splitlines()]
        found = [row["id" if kind == "raw" else "trace_id"] for row in rows]
    assert sorted(found) == [f"{run_id}-a", f"{run_id}-c"]


def test_deleting(run_id: str, inside: Inside) -> None:
    """One trace, then the run; what is gone is an error; without an answer nothing happens."""
    one = f"{run_id}-a"
    unanswered = inside("traces", "delete", one)
    assert (unanswered.code, "--yes" in unanswered.err) == (2, True)
    assert inside("traces", "delete", one, "-y").out.startswith("accepted: ")
    assert inside("traces", "delete", one, "-y").code == 1
    ran = inside("traces", "delete", "--run-id", run_id, "-y", "-o", "json")
    assert json.loads(ran.out) == {"trace_id": None, "run_id": run_id, "status": "accepted"}
    assert ids(inside("traces", "list", "--run-id", run_id, "-o", "json")) == []


def test_the_key_is_never_shown(run_id: str, inside: Inside) -> None:
    """In no form of any answer."""
    for arguments in (("list",), ("get", f"{run_id}-a"), ("get", "--runs", run_id)):
        assert CANARY not in inside("traces", *arguments).everything


def test_runs_on_a_narrow_terminal(run_id: str) -> None:
    """Times and users are whole or left out, never cut."""
    with Terminal(("traces", "list", "--runs"), columns=100) as terminal:
        assert terminal.end() == 0
    assert run_id in terminal.text
    assert "..." not in terminal.text
    assert "no room for UPDATED" in terminal.text or "no room for USER" in terminal.text
