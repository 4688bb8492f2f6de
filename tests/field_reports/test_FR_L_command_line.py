"""Field reports, group L: pipes, encodings, and how soon the command is there."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.harness import COMMAND, run_command
from tests.official_stub import EVALUATION, OfficialStub
from tests.rules.conftest import point_at
from tests.stub import Answer, Request, stub_in_thread

STAR = "run ★ 日本語 naïve"
LONG = "n" * 200


class Listing(OfficialStub):
    """A platform with as many evaluations as a test wants, all of odd names."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 1
        self.name = STAR
        self.route("GET", "/api/v1/evaluations/", self._list)
        self.route("GET", "/api/v1/evaluations/[^/]+", Answer(json=self._row(0)))
        samples = [{"example_id": 1, "reward": 0.5, "completion": STAR}]
        self.route("GET", ".*/samples", Answer(json={"samples": samples, "total": 1}))

    def _row(self, number: int) -> dict[str, Any]:
        return {
            "evaluation_id": f"evaluation-with-a-long-id-{number:04}",
            "name": self.name,
            "status": "COMPLETED",
            "model_name": self.name,
        }

    def _list(self, request: Request) -> Answer:
        skip, limit = int(request.query["skip"]), int(request.query["limit"])
        rows = [self._row(number) for number in range(self.rows)]
        return Answer(json={"evaluations": rows[skip : skip + limit], "total": self.rows})


@pytest.fixture
def listing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listing]:
    """The platform, with the environment pointing at it."""
    server = Listing()
    with stub_in_thread(server):
        point_at(monkeypatch, server.url)
        yield server


def test_FR45_completion_is_quick() -> None:
    """A TAB, best of five: there before a person notices. In processor time: the wall clock of a
    busy machine measures its other programs.
    """
    words = "prime-async eval "
    env = {"COMP_WORDS": words, "COMP_CWORD": "2", "_PRIME_ASYNC_COMPLETE": "bash_complete"}

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(COMMAND, env={**os.environ, **env}, capture_output=True, check=False)
        assert b"push" in done.stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    assert min(seconds() for _ in range(5)) < 0.25


def test_FR46_a_pipe_gets_one_whole_line_per_row(listing: Listing) -> None:
    """Names of 200 characters through a pipe at COLUMNS=40: nothing is cut, nothing is wrapped."""
    listing.rows, listing.name = 20, LONG
    done = subprocess.run(
        f"{COMMAND} eval list -n 20 | cat",
        shell=True,
        env={**os.environ, "COLUMNS": "40"},
        capture_output=True,
        text=True,
        check=True,
    )
    _, *rows = done.stdout.splitlines()
    assert [row.split()[0] for row in rows] == [
        f"evaluation-with-a-long-id-{number:04}" for number in range(20)
    ]
    assert all(row.count(LONG) == 2 for row in rows)


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_FR46_json_is_json(listing: Listing, rows: int) -> None:
    """``--output json 2>/dev/null | python -m json.tool``, with warnings on standard error."""
    listing.rows = rows
    script = f"{COMMAND} eval list -n 500 --output json 2>/dev/null | {sys.executable} -m json.tool"
    done = subprocess.run(
        script,
        shell=True,
        env={**os.environ, "PRIME_DEBUG": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(json.loads(done.stdout)["evaluations"]) == rows


ENCODINGS: list[dict[str, str | None]] = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "cp1252"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


@pytest.mark.parametrize("env", ENCODINGS, ids=lambda env: "-".join(map(str, env.values())))
@pytest.mark.parametrize(
    "words",
    [("eval", "list"), ("eval", "get", EVALUATION), ("eval", "samples", EVALUATION, "--all")],
    ids=lambda words: words[1],
)
def test_FR47_names_the_encoding_does_not_have(
    listing: Listing, words: tuple[str, ...], env: dict[str, str | None]
) -> None:
    """A star in a name: written some other way, with the same exit code and no traceback."""
    ran = run_command(*words, env=env)
    assert (ran.code, ran.err) == (0, ""), ran
    assert "run" in ran.out
    assert "★" not in ran.out


def test_FR47_a_closed_standard_output(listing: Listing) -> None:
    """``>&-``: the request is made, nothing is printed, and nobody complains."""
    done = subprocess.run(
        f"{COMMAND} eval list >&-", shell=True, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(listing.requests) == 1
