"""Signals to process groups and to whole sessions, as the machine numbers them."""

from __future__ import annotations

import contextlib
import os
import signal

__all__ = ["kill_session", "signal_group"]

_STAT_BYTES = 1024


def signal_group(pid: int, number: int) -> None:
    """Signal the process group of a session's leader."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def kill_session(pid: int, number: int = signal.SIGKILL, *, proc: int | None = None) -> None:
    """Signal everything in the session of a leader, other process groups included.

    What made a session of its own is not in it: that is how background jobs go on.

    Args:
        proc: the host's `/proc`, opened before another one took its place; None is `/proc`.
    """
    signal_group(pid, number)
    for member in _members(pid, proc):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(member, number)


def _members(session: int, proc: int | None) -> list[int]:
    names = os.listdir("/proc" if proc is None else proc)  # noqa: PTH208  # names only
    return [int(name) for name in names if name.isdigit() and _session_of(name, proc) == session]


def _session_of(name: str, proc: int | None) -> int:
    path = f"/proc/{name}/stat" if proc is None else f"{name}/stat"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    except OSError:
        return -1
    try:
        fields = os.read(descriptor, _STAT_BYTES).rpartition(b")")[2].split()
    except ProcessLookupError:
        return -1
    finally:
        os.close(descriptor)
    return int(fields[3])
