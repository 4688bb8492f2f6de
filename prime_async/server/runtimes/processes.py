"""What the machine's process table says about a sandbox, where no control group counts for us.

A process of a sandbox cannot leave the tree below the sandbox's first process and its commands:
what loses its parent is given to the first process. So the tree is exact. Blocks.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from prime_async.server.runtimes.cgroups import Usage

__all__ = ["Table", "read_table"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class _Entry:
    rss: int
    cpu: float
    threads: int


class Table:
    """All processes at one moment."""

    def __init__(self, entries: dict[int, _Entry], children: dict[int, list[int]]) -> None:
        self._entries = entries
        self._children = children

    def members(self, roots: Iterable[int]) -> set[int]:
        """The processes below some roots, with them."""
        found: set[int] = set()
        stack = [pid for pid in roots if pid in self._entries]
        while stack:
            pid = stack.pop()
            if pid not in found:
                found.add(pid)
                stack += self._children.get(pid, ())
        return found

    def usage(self, roots: Iterable[int], limit: int) -> Usage:
        """What they use together; memory is counted exactly only when it comes near ``limit``."""
        members = self.members(roots)
        entries = [self._entries[pid] for pid in members]
        memory = sum(entry.rss for entry in entries)
        if memory > limit:
            # Resident pages that several share were counted for each of them.
            memory = sum(_proportional(pid) for pid in members)
        return Usage(
            memory_bytes=memory,
            cpu_seconds=sum(entry.cpu for entry in entries),
            processes=sum(entry.threads for entry in entries),
            out_of_memory=0,
        )


def read_table() -> Table:
    """Read the process table."""
    entries: dict[int, _Entry] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):  # noqa: PTH208  # names are all that is wanted
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123  # hundreds per look
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        pid = int(name)
        cpu = (int(fields[11]) + int(fields[12])) / _TICK
        entries[pid] = _Entry(int(fields[21]) * _PAGE, cpu, int(fields[17]))
        children[int(fields[1])].append(pid)
    return Table(entries, children)


def _proportional(pid: int) -> int:
    """Memory of a process with shared pages divided among those that share them."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123  # as above
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
        return 0
    except OSError:
        # It hides its memory from us: then what is its own alone counts.
        return _private(pid)


def _private(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123  # as above
            fields = file.read().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * _PAGE
