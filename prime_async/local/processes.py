"""Telling one process from another that got its number later."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["is_process", "process_start"]


def process_start(pid: int) -> str | None:
    """Return when a process started, in the words of the system; None when there is none such.

    A process that ended but was not collected by its parent (a zombie) counts as none.
    """
    return _from_proc(pid) if Path("/proc/self/stat").exists() else _from_ps(pid)


def _from_proc(pid: int) -> str | None:
    text = _read(f"/proc/{pid}/stat")
    if not text:
        return None
    boot = _read("/proc/sys/kernel/random/boot_id").strip()
    # The command in parentheses may hold spaces and parentheses; the fields after it do not.
    fields = text.rpartition(")")[2].split()
    # Start times are counted from the start of the machine: only with it they are unique.
    return None if fields[0] in "ZX" else f"{boot}/{fields[19]}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _from_ps(pid: int) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603  # a number is all that varies
            ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            timeout=5,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    state, _, start = done.stdout.strip().partition(" ")
    return None if not start or state.startswith("Z") else start.strip()


def is_process(pid: int, start: str | None) -> bool:
    """Whether the process with this number is the one that started then."""
    return start is not None and process_start(pid) == start
