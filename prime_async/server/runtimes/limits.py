"""From what was asked for to what this host can give."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from prime_async.server.runtimes.errors import CommandRefusedError
from prime_async.server.runtimes.protocol import Limits, SandboxSpec

__all__ = ["LAUNCHERS", "clip", "command_rlimits"]

_MIB = 1024 * 1024
_SMALLEST_MEMORY = 16 * _MIB
_SMALLEST_DISK = _MIB
_DESCRIPTORS = 16384
_PROCESSES = (4, 32768)

LAUNCHERS = 2
"""Processes of ours that are counted among a sandbox's own (a launcher and a holder); it has so
many more."""


def clip(spec: SandboxSpec, folder: Path) -> Limits:
    """Clip a request to the host, with a note on everything that is less. Blocks.

    Raises:
        CommandRefusedError: a limit that no sandbox can have.
    """
    notes: list[str] = []
    _require(spec.cpu_cores > 0, "cpu_cores", "more than 0")
    _require(spec.memory_bytes >= _SMALLEST_MEMORY, "memory_bytes", "at least 16 MiB")
    _require(spec.disk_bytes >= _SMALLEST_DISK, "disk_bytes", "at least 1 MiB")
    low, high = _PROCESSES
    _require(low <= spec.processes <= high, "processes", f"{low} to {high}")
    cores = float(_cores())
    if spec.cpu_cores > cores:
        notes.append(f"{spec.cpu_cores:g} CPU cores were asked for; this host has {cores:g}")
    memory = _memory()
    if spec.memory_bytes > memory:
        notes.append(_bytes_note("memory", spec.memory_bytes, memory))
    space = os.statvfs(folder)
    disk = space.f_bavail * space.f_frsize
    if spec.disk_bytes > disk:
        notes.append(_bytes_note("disk", spec.disk_bytes, disk))
    return Limits(
        cpu_cores=min(spec.cpu_cores, cores),
        memory_bytes=min(spec.memory_bytes, memory),
        disk_bytes=min(spec.disk_bytes, disk),
        processes=spec.processes,
        notes=tuple(notes),
    )


def _bytes_note(what: str, wanted: int, there: int) -> str:
    asked, has = (size / _MIB / 1024 for size in (wanted, there))
    return f"{asked:.1f} GiB of {what} were asked for; this host has {has:.1f} GiB"


def _require(holds: bool, field: str, what: str) -> None:
    if not holds:
        raise CommandRefusedError(f"{field} must be {what}", field=field)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def command_rlimits(limits: Limits, *, memory: bool, processes: bool) -> dict[str, int]:
    """What every command gets.

    Args:
        memory: whether a process's own memory has to be limited this way, no group doing it.
        processes: whether the number of processes is counted per user, and the user is the
            sandbox's alone.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    descriptors = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    found = {"RLIMIT_FSIZE": limits.disk_bytes, "RLIMIT_NOFILE": descriptors}
    if processes:
        found["RLIMIT_NPROC"] = limits.processes + LAUNCHERS
    if memory:
        # What a process may write to; reserving addresses without using them stays possible.
        found["RLIMIT_DATA"] = limits.memory_bytes
    return found
