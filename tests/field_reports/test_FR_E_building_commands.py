"""Field reports, group E: whatever ends up in a line that a shell reads.

We build no commands to be run elsewhere yet (sandboxes, step 3); what we print to be pasted, and
what is meant for ``eval``, are command lines as well.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from prime_async.errors import PartialPushError
from prime_async.evals import AsyncEvalsClient
from tests.cli.conftest import inside
from tests.cli.harness import Ran
from tests.cli.runs import make_run
from tests.official_stub import EVALUATION, OfficialStub
from tests.rules.conftest import point_at
from tests.stub import Answer, stub_in_thread

__all__ = ["inside"]

NASTY = "it's; touch pwned; $(touch pwned) `touch pwned`"

POSIX = pytest.mark.skipif(os.name == "nt", reason="the lines are for a POSIX shell")


def _words(line: str, folder: Path) -> list[str]:
    """What a shell makes of a line, were its program one that prints its arguments."""
    program = folder / "bin" / "prime-async"
    program.parent.mkdir(exist_ok=True)
    program.write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
    program.chmod(0o755)
    (program.parent / "rm").write_text(program.read_text())
    (program.parent / "rm").chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", line],
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not (folder / "pwned").exists(), line
    return done.stdout.split("\0")[:-1]


@POSIX
def test_FR20_the_command_that_goes_on(
    inside: Callable[..., Ran],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A folder and an evaluation of nasty names: pasted, the hint names exactly these."""
    run = make_run(tmp_path / NASTY, [{"id": 1}])
    platform = OfficialStub(features=True)
    platform.route("POST", ".*/evaluations/", Answer(json={"evaluation_id": NASTY}))
    platform.route("POST", ".*/samples", Answer(403, json={"detail": "no"}))
    with stub_in_thread(platform):
        point_at(monkeypatch, platform.url)
        ran = inside("eval", "push", str(run), "-o", "json")
    hint = json.loads(ran.err.splitlines()[-1])["error"]["hint"]
    [line] = re.findall(r"`(prime-async .*)`", hint, re.DOTALL)
    words = _words(line, tmp_path)
    assert words[:3] == ["eval", "push", str(run)]
    assert words[3] == "--resume" or words[3:] == ["--eval-id", NASTY]


@POSIX
def test_FR20_the_command_that_closes(
    inside: Callable[..., Ran],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a delivery, the line that finalizes the evaluation of a nasty name."""
    platform = OfficialStub(features=True)
    platform.route("POST", ".*/evaluations/", Answer(json={"evaluation_id": NASTY}))
    run = make_run(tmp_path / "run", [{"id": 1}])
    with stub_in_thread(platform):
        point_at(monkeypatch, platform.url)
        platform.route("POST", ".*/samples", Answer(503))
        monkeypatch.setattr("prime_async.transport.policy.random.random", lambda: 1.0)
        assert inside("eval", "push", str(run)).code == 1
        platform.route("POST", ".*/samples", platform.push)
        said = inside("eval", "sync").err
    line = said[said.index("prime-async ") :].strip()
    assert _words(line, tmp_path) == ["eval", "finalize", NASTY]


@POSIX
async def test_FR20_the_command_that_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``rm -r`` of a spool entry below a home of a nasty name removes that, and nothing else."""
    home = tmp_path / NASTY
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"n": 1}\n')
    async with OfficialStub(features=True) as platform:
        platform.route("POST", ".*/samples", Answer(500))
        async with AsyncEvalsClient("key", base_url=platform.url) as client:
            with pytest.raises(PartialPushError):
                await client.push_samples(EVALUATION, rows)
            rows.write_text('{"n": 2, "other": true}\n')
            [result] = await client.sync_pushes()
    assert result.problem is not None
    [line] = re.findall(r"rm -r .*[^)]", result.problem, re.DOTALL)
    assert _words(line, tmp_path) == ["-r", str(result.push.path)]


@POSIX
def test_FR20_lines_for_eval(tmp_path: Path) -> None:
    """``local env`` writes its lines so that a shell reads back the very values."""
    from prime_async_cli.commands.local.environment import _line

    line = _line("sh", "VALUE", NASTY)
    shown = subprocess.run(
        ["sh", "-c", f'{line}; printf "%s" "$VALUE"'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == NASTY
    assert list(tmp_path.iterdir()) == []
