"""Is the process that wrote a lock still the same one? A pid alone cannot tell: numbers are used
again."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec

__all__ = ["Holder"]


class Holder(msgspec.Struct, frozen=True):
    """Who owns an entry.

    Attributes:
        pid: the process.
        started: when that process began, as its system tells it, or None where it does not.
        host: name of the machine.
        purpose: ``owner`` for what makes the records, ``replay`` for what delivers those left over.
        since: seconds since 1970, when it took the entry.
    """

    pid: int
    started: str | None
    host: str
    purpose: str
    since: float

    @classmethod
    def this_process(cls, purpose: str) -> Holder:
        """Return the calling process as an owner from now on."""
        pid = os.getpid()
        return cls(pid, _started(pid), _host(), purpose, time.time())

    @property
    def alive(self) -> bool:
        """False only when it is certain that the process has ended: another machine's cannot be
        asked."""
        if self.host != _host() or self.started is None:
            return True
        return _started(self.pid) == self.started

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({self.purpose})"


def _host() -> str:
    from socket import gethostname

    return gethostname()


def _started(pid: int) -> str | None:
    if sys.platform == "win32":
        return None
    if Path("/proc/self/stat").exists():
        return _started_by_proc(pid)
    return _started_by_ps(pid)


def _started_by_proc(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    # The name before the bracket may hold anything; state and start time are the 1st and 20th field
    # behind it.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else f"{boot}/{fields[19]}"


def _started_by_ps(pid: int) -> str | None:
    import subprocess

    try:
        told = subprocess.run(  # noqa: S603 - fixed command, a number as its argument
            ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607 - its place differs between systems
            capture_output=True,
            text=True,
            timeout=5,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return told.stdout.strip() or None
