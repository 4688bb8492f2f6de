"""``traces sync`` and ``traces tail``: what is left on this disk, and what comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from prime_async_cli.commands.traces.tail import _Follower

from tests.cli.harness import COMMAND, Ran
from tests.cli.terminal import Terminal
from tests.traces.records import fresh_run, line, trace

Inside = Callable[..., Ran]

KILLED = """
import os, signal
from prime_sync.runs import init
run = init(model="m", environments=["math"], durable=True)
run.log_trace({"id": run.id + "-t", "timing": {"start": __import__("time").time()}, "ok": True})
print(run.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(platform: str, home: Path) -> str:
    """The id of a run whose process was killed, its trace logged and not delivered."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        env={**os.environ, "PRIME_TRACES_URL": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.strip()


def test_sync_lists_and_delivers(killed: str, inside: Inside) -> None:
    """What is kept, then that it was delivered, then that nothing is left."""
    kept = json.loads(inside("traces", "sync", "--list", "-o", "json").out)["kept"]
    assert [(each["run_id"], each["kind"], each["records"]) for each in kept] == [
        (killed, "run.traces", 1)
    ]
    listed = inside("traces", "sync", "--list").out.splitlines()
    assert listed[0].split() == ["RUN", "KIND", "TO", "RECORDS", "BYTES", "STATE"]
    assert listed[1].split()[-1] == "waiting"
    ran = inside("traces", "sync")
    assert (ran.code, ran.out.splitlines()[1].split()[-1]) == (0, "delivered"), ran
    assert inside("traces", "get", f"{killed}-t").code == 0
    assert "nothing is kept" in inside("traces", "sync").err


def test_sync_says_what_it_does_not_send_elsewhere(
    killed: str, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meant for another platform: it stays, and the exit code is 1."""
    monkeypatch.setenv("PRIME_API_BASE_URL", "http://127.0.0.1:1")
    ran = inside("traces", "sync", "-o", "json")
    assert ran.code == 1
    (result,) = json.loads(ran.out)["results"]
    assert (result["delivered"], "it was going to" in result["problem"]) == (0, True)
    assert len(json.loads(ran.err)["error"]["left"]) == 1


def test_sync_takes_a_folder_in_from_elsewhere(
    killed: str, inside: Inside, home: Path, tmp_path: Path
) -> None:
    """An entry of another machine is delivered as one of this."""
    (kept,) = json.loads(inside("traces", "sync", "--list", "-o", "json").out)["kept"]
    carried = tmp_path / Path(kept["path"]).name
    Path(kept["path"]).rename(carried)
    ran = inside("traces", "sync", "--from", str(carried), "-o", "json")
    assert (ran.code, json.loads(ran.out)["results"][0]["delivered"]) == (0, 1), ran


def test_sync_watches_until_ctrl_c(killed: str) -> None:
    """A line per delivery, then 130."""
    with Terminal(("traces", "sync", "--watch", "--interval", "0.1"), columns=150) as terminal:
        terminal.wait_for(b"delivered")
        terminal.type(b"\x03")
        assert terminal.end() == 130
    assert killed in terminal.text
    assert "Traceback" not in terminal.text


def test_tail_follows_a_run(platform: str, inside: Inside, home: Path, tmp_path: Path) -> None:
    """What is there, then what comes, each once, though its rollout began before the others."""
    run = fresh_run()
    late = trace(f"{run}-late", run=run)  # begins first
    files = [tmp_path / "first.jsonl", tmp_path / "late.jsonl"]
    files[0].write_bytes(line(trace(f"{run}-a", run=run)) + line(trace(f"{run}-b", run=run)))
    files[1].write_bytes(line(late))
    assert inside("traces", "upload", str(files[0])).code == 0
    words = ("traces", "tail", run, "--tail", "1", "--poll-interval", "0.1")
    with Terminal(words, columns=150) as terminal:
        terminal.wait_for(f"{run}-b".encode())
        assert inside("traces", "upload", str(files[1])).code == 0
        terminal.wait_for(f"{run}-late".encode())
        terminal.type(b"\x03")
        assert terminal.end() == 130
    shown = [each.split()[1] for each in terminal.text.splitlines() if run in each]
    assert shown == [f"{run}-b", f"{run}-late"]
    assert "Traceback" not in terminal.text


def test_tail_as_json_lines(platform: str, inside: Inside, home: Path, tmp_path: Path) -> None:
    """One object per line; the command ends when its reader has gone."""
    run = fresh_run()
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"".join(line(trace(f"{run}-{each}", run=run)) for each in "ab"))
    inside("traces", "upload", str(file))
    words = [COMMAND, "traces", "tail", run, "--poll-interval", "0.1", "-o", "json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    found = [json.loads(process.stdout.readline())["trace_id"] for _ in range(2)]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert found == [f"{run}-a", f"{run}-b"]
    assert process.returncode == 130
    assert b"Traceback" not in err


async def test_a_look_finds_what_is_new_and_nothing_twice(
    platform: str, inside: Inside, home: Path, tmp_path: Path
) -> None:
    """Looks between uploads, deletes and repeats of an upload."""
    from prime_async.traces import AsyncTracesClient

    run = fresh_run()

    async with AsyncTracesClient() as client:

        async def upload(*names: str) -> None:
            await client.upload_records([trace(f"{run}-{name}", run=run) for name in names])

        async def look() -> list[str]:
            return [each.trace_id.rpartition("-")[2] for each in await follower._look()]

        await upload("a", "b", "c")
        follower = _Follower(client, run)
        newest = [each.trace_id.rpartition("-")[2] for each in await follower._newest(2)]
        assert newest == ["b", "c"]
        assert await look() == []
        await upload("d", "e")
        assert await look() == ["d", "e"]
        assert await look() == []
        await client.delete(f"{run}-a")
        assert await look() == []
        await upload("f")
        assert await look() == ["f"]
