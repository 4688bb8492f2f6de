"""Control groups of version 2, by the files they are made of; version 1 is tested for real."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from prime_async.server.runtimes.cgroups import Group, VersionTwo, find_cgroups
from prime_async.server.runtimes.identity import find_owner
from prime_async.server.runtimes.protocol import Limits
from prime_async.server.runtimes.rooted import Identity

LIMITS = Limits(cpu_cores=1.5, memory_bytes=1 << 30, disk_bytes=1, processes=64)
FILES = ("memory.max", "memory.swap.max", "pids.max", "cpu.max", "cgroup.procs")


@pytest.fixture
def groups(tmp_path: Path) -> VersionTwo:
    """A folder that looks like a delegated group; the kernel would make the files."""
    folder = tmp_path / "box"
    folder.mkdir()
    for name in FILES:
        (folder / name).touch()
    identity = Identity(os.getuid(), os.getgid())
    return VersionTwo(tmp_path, frozenset({"memory", "pids", "cpu"}), identity)


def test_limits_are_written(groups: VersionTwo) -> None:
    """In the words of version 2."""
    folder = Path(groups.create("box", LIMITS).folders[""])
    written = {name: (folder / name).read_text() for name in FILES}
    assert written == {
        "memory.max": str(1 << 30),
        "memory.swap.max": "0",
        "pids.max": "66",  # two of ours are among them
        "cpu.max": "150000 100000",
        "cgroup.procs": "",
    }


def test_usage_is_read(groups: VersionTwo) -> None:
    """Without the page cache that can be had back; the kernel's kills are counted."""
    group = groups.create("box", LIMITS)
    folder = Path(group.folders[""])
    (folder / "memory.current").write_text("1000\n")
    (folder / "memory.stat").write_text("anon 600\ninactive_file 300\n")
    (folder / "cpu.stat").write_text("usage_usec 2500000\n")
    (folder / "pids.current").write_text("3\n")
    (folder / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    usage = groups.usage(group)
    assert (usage.memory_bytes, usage.cpu_seconds) == (700, 2.5)
    assert (usage.processes, usage.out_of_memory) == (3, 1)


def test_a_group_that_is_gone_is_removed() -> None:
    """Removing is safe to repeat."""
    assert Group({"": "/no/such/group"}).remove()


@pytest.mark.skipif(sys.platform != "linux", reason="there are control groups on Linux only")
def test_looking_for_groups_never_fails() -> None:
    """Whatever it finds."""
    found = find_cgroups(find_owner().identity)
    if found is not None:
        found.close()
