"""``prime-async runs``: lists, one run, its metrics drawn, several compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from prime_sync.runs import init
from tests.cli.harness import CANARY, Ran, run_command
from tests.cli.terminal import Terminal
from tests.platform import ThreadedPlatform
from tests.stub import Answer, Stub
from tests.traces.records import fresh_run, trace

Inside = Callable[..., Ran]


@dataclass(frozen=True)
class Runs:
    """The ids of an evaluation, of two training runs, and of a run nobody opened."""

    evaluation: str
    training: str
    other: str
    alone: str


@pytest.fixture(scope="module")
def made(shared_platform: ThreadedPlatform, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs of both kinds on the platform, with traces, metrics and distributions."""
    where = {"api_key": CANARY, "base_url": shared_platform.url}
    folder = tmp_path_factory.mktemp("spool")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("PRIME_TRACES_URL", shared_platform.url)
        patch.setenv("PRIME_API_KEY", CANARY)
        with init(model="m-1", environments=["math"], name="nightly", **where) as evaluation:
            evaluation.log_trace(trace(f"{evaluation.id}-a"))
            evaluation.log_metrics({"accuracy": 0.25})
            evaluation.update_summary({"final": 0.75})
        trained = []
        for slope in (1.0, 2.0):
            with init(kind="train", model="m-2", environments=["math"], **where) as training:
                for step in range(8):
                    row = {"loss": slope * (8 - step), "inner": {"lr": 0.1}, "note": "text"}
                    training.log_metrics(row, step=step)
                training.log_distributions({"advantage": [0, 0, 0, 1, 9]}, step=7)
            trained.append(training.id)
        from prime_sync.traces import TracesClient

        alone = fresh_run()
        with TracesClient(**where) as client:
            client.upload_records([trace(f"{alone}-a", run=alone)])
    return Runs(evaluation.id, *trained, alone)


@pytest.fixture(autouse=True)
def _own_home(home: Path, platform: str) -> None:
    """Commands talk to the shared platform."""


def test_a_list_has_runs_of_every_origin_once(made: Runs, inside: Inside) -> None:
    """With traces and without, with a record and without; the state as the platform says it."""
    ran = inside("runs", "list", "-n", "100", "-o", "json")
    runs = json.loads(ran.out)["runs"]
    by_id = {each["run_id"]: each for each in runs}
    assert len(by_id) == len(runs)
    kinds = [by_id[each]["type"] for each in (made.evaluation, made.training, made.alone)]
    assert kinds == ["eval", "train", "unknown"]
    assert by_id[made.evaluation]["traces"]["trace_count"] == 1
    assert by_id[made.training]["traces"] is None
    assert by_id[made.alone]["record"] is None
    shown = inside("runs", "list", "-n", "100").out
    assert "COMPLETED" in shown
    only = json.loads(inside("runs", "list", "--run-type", "train", "-o", "json").out)["runs"]
    assert {made.training, made.other} <= {each["run_id"] for each in only}
    assert made.evaluation not in {each["run_id"] for each in only}


def test_pages_of_the_list(made: Runs, inside: Inside) -> None:
    """Each run with traces once, over all pages."""
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        more = ("--cursor", cursor) if cursor else ()
        page = json.loads(inside("runs", "list", "-n", "1", *more, "-o", "json").out)
        found += [each["run_id"] for each in page["runs"] if each["traces"]]
        cursor = page["next_cursor"]
    assert len(found) == len(set(found))
    assert {made.evaluation, made.alone} <= set(found)


def test_one_run(made: Runs, inside: Inside) -> None:
    """What the platform keeps and what the traces tell; one that nobody knows is an error."""
    shown = inside("runs", "get", made.evaluation).out
    fields = {
        name: value.strip() for name, _, value in (x.partition(":") for x in shown.split("\n"))
    }
    assert (fields["type"], fields["name"], fields["status"]) == ("eval", "nightly", "COMPLETED")
    assert (fields["traces"], fields["average reward"]) == ("1", "0.5")
    assert fields["summary.final"] == "0.75"
    document = json.loads(inside("runs", "get", made.training, "-o", "json").out)
    assert (document["record"]["latestStep"], document["traces"]) == (7, None)
    ran = inside("runs", "get", "nobody", "-o", "json")
    assert (ran.code, ran.out, "runs list" in json.loads(ran.err)["error"]["hint"]) == (1, "", True)


def test_metrics_are_drawn(made: Runs, inside: Inside) -> None:
    """A falling line, a flat one, a histogram; text is no metric."""
    ran = inside("runs", "metrics", made.training)
    lines = [each.split() for each in ran.out.splitlines()]
    assert lines[0] == ["METRIC", "ROWS", "FIRST", "LAST", "MIN", "MAX", "TREND"]
    assert lines[1] == ["inner.lr", "8", "0.1", "0.1", "0.1", "0.1", "▅▅▅▅▅▅▅▅"]
    assert lines[2] == ["loss", "8", "8", "1", "1", "8", "█▇▆▅▄▃▂▁"]
    assert lines[4][0] == "DISTRIBUTION"
    assert lines[5][:6] == ["advantage", "7", "5", "0", "2", "9"]
    assert lines[5][6:] == ["█", "▃", "▃"]
    assert len(lines) == 6


def test_metrics_without_unicode(made: Runs, inside: Inside) -> None:
    """With --plain, and where the output cannot hold blocks, as ASCII."""
    plain = inside("runs", "metrics", made.training, "--plain")
    narrow = run_command("runs", "metrics", made.training, env={"PYTHONIOENCODING": "ascii"})
    assert plain.out.isascii()
    assert plain.out == narrow.out
    assert "#*+=-:._" in plain.out


def test_metrics_fit_a_terminal(made: Runs) -> None:
    """No line is wider than the window; the names stay whole."""
    with Terminal(("runs", "metrics", made.training), columns=60) as terminal:
        assert terminal.end() == 0
    lines = [each for each in terminal.text.splitlines() if "no room" not in each]
    assert max(map(len, lines)) <= 60 + len("\x1b[1m\x1b[0m")
    assert "inner.lr" in terminal.text


def test_chosen_metrics(made: Runs, inside: Inside) -> None:
    """By name and step; a name the run does not have is an error."""
    chosen = ("runs", "metrics", made.training, "--metric", "loss", "--after-step", "5")
    document = json.loads(inside(*chosen, "-o", "json").out)
    assert document == {
        "run_id": made.training,
        "type": "train",
        "metrics": {"loss": {"steps": [6, 7], "values": [2.0, 1.0]}},
        "distributions": [],
    }
    ran = inside("runs", "metrics", made.training, "--metric", "los")
    assert (ran.code, "no metric 'los'" in ran.err) == (1, True)
    other_step = inside("runs", "metrics", made.training, "--step", "3", "-o", "json")
    assert json.loads(other_step.out)["distributions"] == []


def test_metrics_of_an_evaluation_and_of_traces_alone(made: Runs, inside: Inside) -> None:
    """Rows without a step; and a run of which there are only traces."""
    document = json.loads(inside("runs", "metrics", made.evaluation, "-o", "json").out)
    assert document["metrics"]["accuracy"] == {"steps": [None], "values": [0.25]}
    alone = inside("runs", "metrics", made.alone)
    assert (alone.code, alone.out, "has no metrics" in alone.err) == (0, "", True)


def test_runs_side_by_side(made: Runs, inside: Inside) -> None:
    """The last value of each, and the difference to the first run."""
    ran = inside("runs", "compare", made.training, made.other, "--metric", "loss")
    heading, row = (each.split() for each in ran.out.splitlines())
    assert heading == ["METRIC", made.training, made.other, "DIFFERENCE"]
    assert row == ["loss", "1", "2", "+1"]
    best = json.loads(
        inside("runs", "compare", made.training, made.other, "--by", "max", "-o", "json").out
    )
    assert [each["metrics"]["loss"] for each in best["runs"]] == [8.0, 16.0]
    assert best["differences"][0]["metrics"]["loss"] == 8.0
    mixed = json.loads(inside("runs", "compare", made.training, made.evaluation, "-o", "json").out)
    assert mixed["runs"][1]["metrics"]["summary.final"] == 0.75
    assert mixed["differences"][0]["metrics"]["loss"] is None


@pytest.mark.parametrize("ids", [("a",), ("a", "a"), tuple("abcdefghijk")])
def test_what_cannot_be_compared(ids: tuple[str, ...], inside: Inside) -> None:
    """One run, the same twice, or too many: exit 2."""
    assert inside("runs", "compare", *ids).code == 2


def test_a_platform_that_has_less(stub: Stub, inside: Inside) -> None:
    """No training runs to read back and no traces service: evaluations are shown all the same."""
    disabled = {"error": {"code": "service_not_enabled", "message": "not enabled"}}
    found = {
        "evaluations": [{"evaluation_id": "ev1", "name": "n", "status": "COMPLETED"}],
        "total": 1,
    }
    stub.default = Answer(404, json={"detail": "not here"})
    stub.route("GET", "/api/v1/runs", Answer(403, json=disabled))
    stub.route("GET", "/api/v1/runs/ev1", Answer(403, json=disabled))
    stub.route("GET", "/api/v1/evaluations/", Answer(json=found))
    stub.route("GET", "/api/v1/evaluations/ev1", Answer(json=found["evaluations"][0]))
    ran = inside("runs", "list", "-o", "json")
    assert [each["run_id"] for each in json.loads(ran.out)["runs"]] == ["ev1"]
    assert "not enabled" in json.loads(ran.err)["warning"]["message"]
    shown = inside("runs", "get", "ev1")
    assert (shown.code, shown.out.splitlines()[2].split()) == (0, ["name:", "n"])
    assert inside("runs", "metrics", "ev1").code == 0
