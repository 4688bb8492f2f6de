"""Ends that are begun and not waited for, and those who are asked before a run ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from prime_async.runs import ConfigurationError, RunFinishedError, RunStatus
from tests.platform import KEY, ThreadedPlatform
from tests.runs.opening import OpenRun, trace
from tests.runs.platform_double import PlatformDouble


async def test_an_end_that_is_begun(open_run: OpenRun, double: PlatformDouble) -> None:
    """It takes nothing more at once; `finish` waits for the same end."""
    run = await open_run("train")
    run.log_trace(trace("t"))
    with pytest.raises(ConfigurationError):
        run.begin_finish(status="running")
    run.begin_finish({"score": 1.0}, status=RunStatus.FAILED, error="no more money")
    with pytest.raises(RunFinishedError):
        run.log_trace(trace("late"))
    receipt = await run.finish({"score": 2.0})
    assert (receipt.status, receipt.error) == (RunStatus.FAILED, "no more money")
    assert receipt.complete
    assert double.ids == ["t"]
    assert run.summary == {"score": 1.0}


async def test_who_gathers_is_asked_before(open_run: OpenRun, double: PlatformDouble) -> None:
    """Every way to end lets them log; one that fails does not keep the others from it."""

    def fail() -> None:
        raise ValueError("nothing gathered")

    run = await open_run()
    run.before_finish(fail)
    run.before_finish(lambda: run.log_trace(trace("gathered")))
    async with run:
        run.log_trace(trace("t"))
    assert sorted(double.ids) == ["gathered", "t"]
    assert run.errors == ["before_finish: ValueError('nothing gathered')"]


BEGUN = """
import sys
from prime_sync.runs import init
run = init(id="of-another", kind="train", exit_timeout=1.0, spool_dir=sys.argv[1])
run.before_finish(lambda: run.log_trace({"id": "gathered", "timing": {"start": 1.0}}))
run.log_trace({"id": "t", "timing": {"start": 1.0}})
run.begin_finish()
"""


def ended(url: str, spool: Path) -> str:
    """Run the script above on a platform; return what it says."""
    account = {"PRIME_API_KEY": KEY, "PRIME_API_BASE_URL": url}
    done = subprocess.run(
        [sys.executable, "-c", BEGUN, str(spool)],
        env={**os.environ, **account},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


def test_a_process_ends_behind_it(tmp_path: Path) -> None:
    """The end goes on until it is done, and nothing is said of a run that is finished."""
    with ThreadedPlatform(tmp_path / "platform") as platform:
        said = ended(platform.url, tmp_path / "spool")
    assert "unfinished" not in said


def test_a_process_ends_behind_one_that_hangs(tmp_path: Path) -> None:
    """A platform that never answers gets the time of an exit, not that of a finish."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = ended(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path / "spool")
    assert "0 of 2 records delivered" in said
    assert "2 spooled" in said
    assert "did not end" not in said
    kept = b"".join(path.read_bytes() for path in (tmp_path / "spool").rglob("*") if path.is_file())
    assert b'"gathered"' in kept
