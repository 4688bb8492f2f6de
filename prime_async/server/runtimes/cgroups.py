"""Limits by control groups, of version 1 or 2, whichever this host has and lets us use.

Groups are made below a group of ours, which lies in the server's own group (version 1) or beside it
(version 2, where a group with processes cannot have limited children): limits that hold for the
server hold for its sandboxes too. All functions block; the kernel answers at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from prime_async.server.runtimes.limits import LAUNCHERS
from prime_async.server.runtimes.protocol import Limits
from prime_async.server.runtimes.rooted import Identity

__all__ = ["Cgroups", "Group", "Usage", "find_cgroups"]

_OURS = "prime-async"
_PERIOD = 100_000


@dataclass(frozen=True, slots=True)
class Usage:
    """What a group uses.

    Attributes:
        out_of_memory: how often the kernel killed a process of it for memory.
    """

    memory_bytes: int
    cpu_seconds: float
    processes: int
    out_of_memory: int


@dataclass(frozen=True, slots=True)
class Group:
    """The groups of one sandbox.

    Attributes:
        folders: controller (version 1), or ``""`` (version 2), to folder.
    """

    folders: Mapping[str, str]

    def entrances(self) -> list[str]:
        """The files by which a process joins."""
        # Controllers mounted together share a folder; joining costs half a millisecond each.
        return [f"{folder}/cgroup.procs" for folder in dict.fromkeys(self.folders.values())]

    def folder(self, controller: str) -> str:
        """The folder of a controller; one that is not there reads as nothing."""
        return self.folders.get(controller, "/")

    def remove(self) -> bool:
        """Remove the groups; say whether all are gone (a dying process holds one a little)."""
        gone = True
        for folder in dict.fromkeys(self.folders.values()):
            try:
                os.rmdir(folder)  # noqa: PTH106  # a group is not a tree to walk
            except FileNotFoundError:
                continue
            except OSError:
                gone = False
        return gone


class Cgroups(Protocol):
    """One version of control groups."""

    version: str
    controllers: frozenset[str]

    def create(self, name: str, limits: Limits) -> Group: ...

    def usage(self, group: Group) -> Usage: ...

    def processes(self, group: Group) -> int: ...

    def out_of_memory(self, group: Group) -> int: ...

    def enroll(self, pid: int) -> None:
        """Put the spawner where it may let its children join groups."""
        ...

    def sweep(self, wanted: Callable[[str], bool]) -> None:
        """Remove empty groups of sandboxes that nobody wants any more."""
        ...

    def close(self) -> None:
        """Remove our own group if it is empty."""
        ...


def _sweep(bases: Iterable[Path], wanted: Callable[[str], bool]) -> None:
    for base in bases:
        for folder in base.iterdir() if base.is_dir() else ():
            if folder.is_dir() and not wanted(folder.name):
                with suppress(OSError):  # It is in use.
                    folder.rmdir()


def find_cgroups(identity: Identity) -> Cgroups | None:
    """Find out which version works here for memory and processes; None when neither does."""
    for make in (VersionTwo.find, VersionOne.find):
        found = make(identity)
        if found is not None:
            return found
    return None


def _mounts(kind: str) -> Iterable[tuple[str, str, list[str]]]:
    """Mount points of a cgroup version: root within the hierarchy, folder, super options."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        fields, options = before.split(), after.split()
        if options[0] == kind:
            yield fields[3], fields[4], options[2].split(",")


def _own_paths() -> dict[str, str]:
    """Controller to the group this process is in; version 2 has the empty name."""
    paths: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _below(mount: str, root: str, path: str) -> Path:
    return Path(mount, os.path.relpath(path, root)) if root != "/" else Path(mount + path)


def _make_folder(folder: Path) -> None:
    """Make a group that the sandboxes' user can walk through, whatever this server's umask says."""
    try:
        folder.mkdir()
    except FileExistsError:
        if folder.stat().st_mode & 0o111 == 0o111:
            return
    folder.chmod(0o755)


def _write(path: Path, value: str | int) -> None:
    # Not write_text: these files want one write, and must not be created when they are missing.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def _read(path: str) -> str:
    # Plain calls: hundreds of these are read every second.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 16384).decode()
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _number(path: str) -> int:
    text = _read(path).strip()
    return int(text) if text.isdigit() else 0


def _field(path: str, name: str) -> int:
    for line in _read(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


class VersionOne:
    """Version 1: a folder per controller."""

    version = "cgroup v1"

    def __init__(self, bases: dict[str, Path], identity: Identity) -> None:
        self._bases = bases
        self._identity = identity
        self.controllers = frozenset(bases) - {"cpuacct"}

    @classmethod
    def find(cls, identity: Identity) -> VersionOne | None:
        """Find the folders, and try them."""
        own = _own_paths()
        bases: dict[str, Path] = {}
        for root, mount, options in _mounts("cgroup"):
            wanted = {"memory", "pids", "cpu"} & set(options)
            if "cpu" in wanted:
                wanted |= {"cpuacct"} & set(options)
            for controller in wanted:
                base = _below(mount, root, own.get(controller, "/")) / _OURS
                if cls._usable(base):
                    bases[controller] = base
        if not {"memory", "pids"} <= set(bases):
            cls(bases, identity).close()
            return None
        return cls(bases, identity)

    @staticmethod
    def _usable(base: Path) -> bool:
        try:
            _make_folder(base)
        except OSError:
            return False
        return os.access(base, os.W_OK)

    def create(self, name: str, limits: Limits) -> Group:
        """Make the groups of a sandbox, with its limits in force."""
        folders: dict[str, str] = {}
        group = Group(folders)
        try:
            for controller, base in self._bases.items():
                if controller == "cpu" and limits.cpu_cores >= (os.cpu_count() or 1):
                    continue
                _make_folder(base)
                folder = base / name
                _make_folder(folder)
                folders[controller] = str(folder)
                self._limit(controller, folder, limits)
                os.chown(folder / "cgroup.procs", self._identity.uid, self._identity.gid)
        except OSError:
            group.remove()
            raise
        return group

    @staticmethod
    def _limit(controller: str, folder: Path, limits: Limits) -> None:
        if controller == "memory":
            _write(folder / "memory.limit_in_bytes", limits.memory_bytes)
            with suppress(OSError):  # Only where swap is accounted for.
                _write(folder / "memory.memsw.limit_in_bytes", limits.memory_bytes)
        elif controller == "pids":
            _write(folder / "pids.max", limits.processes + LAUNCHERS)
        elif controller == "cpu":
            _write(folder / "cpu.cfs_period_us", _PERIOD)
            _write(folder / "cpu.cfs_quota_us", max(1000, int(limits.cpu_cores * _PERIOD)))

    def usage(self, group: Group) -> Usage:
        """Read what a sandbox uses."""
        memory, cpu = group.folder("memory"), group.folder("cpuacct")
        cache = _field(f"{memory}/memory.stat", "total_inactive_file")
        return Usage(
            memory_bytes=max(0, _number(f"{memory}/memory.usage_in_bytes") - cache),
            cpu_seconds=_number(f"{cpu}/cpuacct.usage") / 1e9,
            processes=self.processes(group),
            out_of_memory=self.out_of_memory(group),
        )

    def processes(self, group: Group) -> int:
        """How many processes and threads there are."""
        return _number(f"{group.folder('pids')}/pids.current")

    def out_of_memory(self, group: Group) -> int:
        """How often something was killed for memory."""
        return _field(f"{group.folder('memory')}/memory.oom_control", "oom_kill")

    def sweep(self, wanted: Callable[[str], bool]) -> None:
        """Remove what is left of sandboxes that are gone."""
        _sweep(self._bases.values(), wanted)

    def enroll(self, pid: int) -> None:
        """Version 1 does not ask where a process comes from."""

    def close(self) -> None:
        """Remove our groups where they are empty."""
        for base in self._bases.values():
            with suppress(OSError):
                base.rmdir()


class VersionTwo:
    """Version 2: one folder, controllers switched on from above."""

    version = "cgroup v2"
    _WANTED = ("memory", "pids", "cpu")

    def __init__(self, base: Path, controllers: frozenset[str], identity: Identity) -> None:
        self._base = base
        self._identity = identity
        self.controllers = controllers

    @classmethod
    def find(cls, identity: Identity) -> VersionTwo | None:
        """Find a place from the server's own group upwards where limits can be set."""
        for root, mount, _ in _mounts("cgroup2"):
            own = _below(mount, root, _own_paths().get("", "/"))
            places = [own, *own.parents]
            for place in places[: places.index(Path(mount)) + 1] if Path(mount) in places else []:
                found = cls._try(place / _OURS, identity)
                if found is not None:
                    return found
        return None

    @classmethod
    def _try(cls, base: Path, identity: Identity) -> VersionTwo | None:
        made = not base.exists()
        try:
            _make_folder(base)
            offered = (base / "cgroup.controllers").read_text().split()
            wanted = [name for name in cls._WANTED if name in offered]
            if {"memory", "pids"} <= set(wanted):
                _write(base / "cgroup.subtree_control", " ".join(f"+{name}" for name in wanted))
                os.chown(base / "cgroup.procs", identity.uid, identity.gid)
                return cls(base, frozenset(wanted), identity)
        except OSError:
            pass  # Not here; further up perhaps.
        if made:
            with suppress(OSError):
                base.rmdir()
        return None

    def create(self, name: str, limits: Limits) -> Group:
        """Make the group of a sandbox, with its limits in force."""
        folder = self._base / name
        group = Group({"": str(folder)})
        try:
            _make_folder(folder)
            _write(folder / "memory.max", limits.memory_bytes)
            with suppress(OSError):  # Only where swap is accounted for.
                _write(folder / "memory.swap.max", 0)
            _write(folder / "pids.max", limits.processes + LAUNCHERS)
            if "cpu" in self.controllers:
                quota = max(1000, int(limits.cpu_cores * _PERIOD))
                _write(folder / "cpu.max", f"{quota} {_PERIOD}")
            os.chown(folder / "cgroup.procs", self._identity.uid, self._identity.gid)
        except OSError:
            group.remove()
            raise
        return group

    def usage(self, group: Group) -> Usage:
        """Read what a sandbox uses."""
        folder = group.folder("")
        cache = _field(f"{folder}/memory.stat", "inactive_file")
        return Usage(
            memory_bytes=max(0, _number(f"{folder}/memory.current") - cache),
            cpu_seconds=_field(f"{folder}/cpu.stat", "usage_usec") / 1e6,
            processes=self.processes(group),
            out_of_memory=self.out_of_memory(group),
        )

    def processes(self, group: Group) -> int:
        """How many processes and threads there are."""
        return _number(f"{group.folder('')}/pids.current")

    def out_of_memory(self, group: Group) -> int:
        """How often something was killed for memory."""
        return _field(f"{group.folder('')}/memory.events", "oom_kill")

    def sweep(self, wanted: Callable[[str], bool]) -> None:
        """Remove what is left of sandboxes that are gone."""
        _sweep([self._base], wanted)

    def enroll(self, pid: int) -> None:
        """Move the spawner below our group: who moves a process must own the group above both."""
        leaf = self._base / "spawner"
        _make_folder(leaf)
        _write(leaf / "cgroup.procs", pid)

    def close(self) -> None:
        """Remove our groups where they are empty."""
        for folder in (self._base / "spawner", self._base):
            with suppress(OSError):
                folder.rmdir()
