"""The official command, ``prime traces``, against the embedded platform: tables and JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.native_episodes import episode_record, trace_record
from tests.platform import KEY, ThreadedPlatform

# The command comes with the extra for benchmarks; each call of it takes a second or two.
pytestmark = pytest.mark.slow

PRIME = Path(sys.executable).with_name("prime")
RUN = {"id": "run-1", "type": "train", "work": {"type": "train", "step": 3}}


class Command:
    """Runs the command; every call is a process of its own."""

    def __init__(self, platform: ThreadedPlatform, home: Path) -> None:
        self._environment = {
            "COLUMNS": "220",
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "PRIME_API_BASE_URL": platform.url,
            "PRIME_API_KEY": KEY,
            "PRIME_DISABLE_VERSION_CHECK": "1",
            "PRIME_TRACES_URL": platform.url,
            "TERM": "dumb",
        }

    def __call__(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [str(PRIME), "traces", *words],
            capture_output=True,
            text=True,
            env=self._environment,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr if code else done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json"))


@pytest.fixture
def prime(tmp_path: Path, home: Path) -> Iterator[Command]:
    """The command with a platform of its own, and an empty home."""
    assert PRIME.exists(), "the extra 'bench' is not installed"
    with ThreadedPlatform(tmp_path) as platform:
        yield Command(platform, home)


def write(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return str(path)


def test_all_five_commands_with_traces(prime: Command, tmp_path: Path) -> None:
    """Upload, list, get, search, delete: what goes in comes out, in both forms of output."""
    records = [trace_record(run=RUN) for _ in range(3)]
    records[2]["rewards"]["correct"]["score"] = 0.25
    file = write(tmp_path / "traces.jsonl", records)
    uploaded = prime.json("upload", file, "-c", "source=cli")
    assert (uploaded["num_batches"], uploaded["receipts"][0]["status"]) == (1, "committed")
    assert "committed" in prime("upload", file, "--no-compress")
    ids = {record["id"] for record in records}

    page = prime.json("list", "--run-id", "run-1", "-c", "source=cli")
    assert {one["trace_id"] for one in page["items"]} == ids
    low = prime.json("list", "--reward-max", "0.5", "--no-has-error", "--task-id", "gsm8k-1")
    assert [one["trace_id"] for one in low["items"]] == [records[2]["id"]]
    table = prime("list", "--limit", "2", "--page", "2")
    assert len([trace_id for trace_id in ids if trace_id in table]) == 1
    assert "gsm8k-1" in table

    first = records[0]["id"]
    summary = prime.json("get", first)
    assert (summary["run_step"], summary["score"]["reward"]) == (3, 0.75)
    shown = prime("get", first)
    assert "openai/gpt-4o" in shown
    assert "run-1" in shown
    assert json.loads(prime("get", first, "--raw")) == records[0]
    copy = tmp_path / "copy.json"
    written = prime.json("get", first, "--raw", "--dest", str(copy))
    assert copy.read_bytes() == json.dumps(records[0]).encode()
    assert written["bytes_written"] == copy.stat().st_size

    found = prime.json("search", "1 + 1", "--run-id", "run-1")
    assert {one["trace_id"] for one in found["items"]} == ids
    assert found["items"][0]["excerpt"] == "1 + 1?"
    assert "1 + 1?" in prime("search", "1 + 1", "--run-id", "run-1", "--role", "user")

    runs = prime.json("list", "--runs", "--run-type", "unknown")
    assert [(one["run_id"], one["trace_count"]) for one in runs["items"]] == [("run-1", 3)]
    assert "run-1" in prime("list", "--runs")
    run = prime.json("get", "run-1", "--runs")
    assert (run["trace_count"], [one["step"] for one in run["steps"]]) == (3, [3])
    assert "0.58" in prime("get", "run-1", "--runs")

    assert "accepted" in prime("delete", first, "-y")
    assert "there is no trace" in prime("get", first, code=1)
    prime("delete", first, "-y", code=1)
    prime("delete", "--run-id", "run-1", "-y")
    assert prime.json("list")["items"] == []


def test_episodes_and_refusals(prime: Command, tmp_path: Path) -> None:
    """Episodes with their members; a bad line and a bad id are told by their reason."""
    episodes = [episode_record(outcome="done"), episode_record(ok=False)]
    for episode in episodes:
        episode["traces"].append(trace_record(run=RUN))
    file = write(tmp_path / "episodes.jsonl", episodes)
    assert prime.json("upload", file, "--episodes")["receipts"][0]["status"] == "committed"
    listed = prime.json("list", "--episodes", "--has-error")
    assert [one["episode_id"] for one in listed["items"]] == [episodes[1]["id"]]
    assert episodes[0]["id"] in prime("list", "--episodes", "--outcome", "done")
    first = episodes[0]["id"]
    members = prime.json("list", "--episode-id", first)
    assert len(members["items"]) == 2
    detail = prime.json("get", first, "--episodes")
    assert (detail["traces"]["trace_count"], detail["outcome"]) == (2, "done")
    assert "gsm8k" in prime("get", first, "--episodes")
    raw = json.loads(prime("get", first, "--episodes", "--raw"))
    assert raw["traces"] == [trace["id"] for trace in episodes[0]["traces"]]
    bad = write(tmp_path / "bad.jsonl", [trace_record(), {"id": "x"}])
    assert "line 2" in prime("upload", bad, code=1)
    assert "there is no trace" in prime("get", "nothing", code=1)
