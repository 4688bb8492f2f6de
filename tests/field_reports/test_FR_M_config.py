"""Field reports, group M: commands that write a secret, watched by the kernel."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.cli.harness import CANARY, COMMAND

WRITING = (
    f"printf {CANARY} | {COMMAND} config set-api-key",
    f"{COMMAND} config save work",
    f"{COMMAND} config use work",
    f"{COMMAND} config set-team-id t1",
)

_OPEN = re.compile(r'openat\([^,]*, "(?P<path>[^"]*)", (?P<flags>[^,)]*)(, (?P<mode>0\d+))?\)')
_MKDIR = re.compile(r'mkdir(at)?\(.*?"(?P<path>[^"]*)", (?P<mode>0\d+)\)')


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace watches the system calls")
@pytest.mark.parametrize("line", WRITING, ids=lambda line: line.rpartition("config ")[2])
def test_FR51_private_from_the_first_moment(line: str, home: Path, tmp_path: Path) -> None:
    """Under umask 022 every file is created 0600 and every folder 0700; none of it in /tmp."""
    log = tmp_path / "calls"
    _prepare(home)
    watched = f"umask 022; strace -f -o {log} -e trace=openat,mkdir,mkdirat sh -c '{line}'"
    done = subprocess.run(watched, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    calls = log.read_text()
    made = [
        (found["path"], int(found["mode"] or "0", 8))
        for found in _OPEN.finditer(calls)
        if "O_CREAT" in found["flags"] and _is_ours(found["path"], home)
    ]
    assert made
    assert {mode for _, mode in made} == {0o600}
    folders = [match for match in _MKDIR.finditer(calls) if _is_ours(match["path"], home)]
    assert {int(match["mode"], 8) for match in folders} <= {0o700}
    elsewhere = [
        found["path"]
        for found in _OPEN.finditer(calls)
        if "O_CREAT" in found["flags"] and not _is_ours(found["path"], home)
    ]
    assert [path for path in elsewhere if path not in ("/dev/null", str(log))] == []


def _prepare(home: Path) -> None:
    """A key and a context, for the commands that change what is there."""
    if not (home / ".prime").exists():
        for line in WRITING[:2]:
            subprocess.run(line, shell=True, check=True, capture_output=True)


def _is_ours(path: str, home: Path) -> bool:
    return path.startswith(str(home))


def test_FR51_what_is_left_is_private(home: Path) -> None:
    """Without a tracer too: the key is in 0600 files below 0700 folders, and nowhere else."""
    before = os.umask(0o022)
    try:
        for line in WRITING:
            subprocess.run(line, shell=True, check=True, capture_output=True)
    finally:
        os.umask(before)
    holding = [path for path in home.rglob("*") if path.is_file() and _holds_key(path)]
    assert {path.name for path in holding} >= {"config.json", "work.json"}
    assert all(home / ".prime" in path.parents for path in holding)
    for path in (home / ".prime").rglob("*"):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def _holds_key(path: Path) -> bool:
    return CANARY.encode() in path.read_bytes()
