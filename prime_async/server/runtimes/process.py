"""The runtime without isolation: commands are ordinary processes of the server's user.

For commands that are trusted, where nothing else runs; only ever chosen by its name. Paths of files
(`/app/x`) lie in the sandbox's folder; commands see the host's paths, and start in that folder.
Where a command names the files of a background job (`/tmp/job_…`), those in the sandbox's folder
are meant, since that is where everybody looks for them.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from anyio import to_thread

from prime_async.server.runtimes.base import BaseRuntime
from prime_async.server.runtimes.cgroups import Group, Usage
from prime_async.server.runtimes.conversation import Answer
from prime_async.server.runtimes.errors import CommandRefusedError, SandboxStartError
from prime_async.server.runtimes.keeper import life
from prime_async.server.runtimes.limits import command_rlimits
from prime_async.server.runtimes.processes import read_table
from prime_async.server.runtimes.protocol import Limits, RuntimeReport, SandboxSpec
from prime_async.server.runtimes.rooted import Identity, Root, openat2_works
from prime_async.server.runtimes.sandbox import Sandbox, SandboxState
from prime_async.server.runtimes.snapshots import restore_snapshot
from prime_async.server.runtimes.spawner_client import SpawnerPlace
from prime_async.server.runtimes.users import ROOT, User

__all__ = ["ProcessRuntime", "ProcessSandbox"]

_JOB_FILES = "/tmp/job_"  # noqa: S108  # the sandbox's own
_PLAIN = re.compile(r"[A-Za-z0-9_./+,:@%-]*")
"""Paths that are written into scripts, where nothing can quote them."""

_MARK = "PRIME_SANDBOX_ID"
_FOLDERS = ("app", "workspace", "root", "tmp")
_ROUNDS = 50


class ProcessSandbox(Sandbox):
    """Processes that carry the sandbox's id in their environment."""

    def kill(self) -> None:
        """End all that carry the mark, and what they start meanwhile."""
        for _ in range(_ROUNDS):
            marked = self._marked()
            for pid in marked:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not marked:
                break
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def signal(self, pid: int, number: signal.Signals | int) -> bool:
        """Send a signal to one process of it, or to all."""
        self._require_running()
        marked = await to_thread.run_sync(self._marked)
        targets = marked if pid == -1 else [one for one in marked if one == pid]
        for target in targets:
            with suppress(ProcessLookupError):
                os.kill(target, number)
        return bool(targets)

    def roots(self) -> list[int]:
        """Its processes."""
        return [self.record.pid, *self._marked()]

    def measure(self) -> Usage:
        """What it uses. Blocks."""
        return read_table().usage(self.roots(), self.limits.memory_bytes)

    def host_path(self, path: str) -> str:
        """Where a path of the sandbox is on the host."""
        return str(self.state.folder / "root" / path.lstrip("/"))

    def host_argv(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """A command line with the files of jobs where they are."""
        files = self.host_path(_JOB_FILES)
        return tuple(part.replace(_JOB_FILES, files) for part in argv)

    async def find_user(self, wanted: str | None) -> User:
        """There is one user."""
        if wanted not in {None, "root", "0"}:
            raise CommandRefusedError("this runtime has one user", field="user")
        return ROOT

    def _marked(self) -> list[int]:
        mark = f"{_MARK}={self.id}".encode()
        return [int(name) for name in _pids() if mark in _environment_of(name)]


def _pids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  # names only


def _environment_of(name: str) -> list[bytes]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
    return []


class ProcessRuntime(BaseRuntime):
    """See the module: nothing is kept from anything."""

    name = "process"
    isolates = False

    def _identity(self) -> Identity:
        return Identity(os.geteuid(), os.getegid())

    def _place(self) -> SpawnerPlace:
        return SpawnerPlace(uid=None, gid=0)

    def _build(self, spec: SandboxSpec, folder: Path) -> None:
        if spec.mounts:
            raise SandboxStartError("the runtime `process` mounts no volumes: use bubblewrap")
        root = folder / "root"
        root.mkdir()
        if spec.snapshot is not None:
            restore_snapshot(spec.snapshot, root)
        for name in _FOLDERS:
            (root / name).mkdir(exist_ok=True)

    async def _launch(
        self, spec: SandboxSpec, limits: Limits, folder: Path, group: Group | None
    ) -> Answer:
        request = {"op": "launch", "sandbox": spec.id, "cgroups": []}
        return await self.spawner.ask({**request, "life": life(spec.timeout_seconds)})

    async def _take(self, state: SandboxState) -> Sandbox:
        path = str(state.folder / "root")
        root = await to_thread.run_sync(self._root, path)
        made: list[Sandbox] = []
        files = self._files(root, made)
        made.append(
            ProcessSandbox(
                state,
                files,
                spawner=self.spawner,
                family=self._family,
                cgroups=None,
                end_strays=self._end_strays,
            )
        )
        return made[0]

    def _root(self, path: str) -> Root:
        return Root.of(path, self._identity(), self.working_dir, own_processes=False)

    def _environment(self, folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
        root = folder / "root"
        return {
            "HOME": str(root / "root"),
            "LANG": "C.UTF-8",
            "PATH": os.environ.get("PATH", os.defpath),
            "TMPDIR": str(root / "tmp"),
            **environment,
            _MARK: folder.name,
        }

    def _rlimits(self, limits: Limits) -> dict[str, int]:
        return command_rlimits(limits, memory=True, processes=False)

    async def probe(self) -> RuntimeReport:
        """It runs wherever there is Linux."""
        if not await to_thread.run_sync(openat2_works):
            return RuntimeReport(
                self.name, False, False, "it needs Linux 5.6 or later", "use such a machine"
            )
        if not _PLAIN.fullmatch(str(self._folder)):
            return RuntimeReport(
                self.name,
                False,
                False,
                f"the path {self._folder} holds characters that have a meaning in scripts",
                "choose another data folder: letters, digits and ._-+,:@% in its path",
            )
        enforced = {
            "memory": "RLIMIT_DATA per process and a watchdog over all of them",
            "cpu": "not enforced",
            "processes": "not enforced",
            "disk": "RLIMIT_FSIZE, a watchdog over the folder, a floor under the free space",
            "network": "not enforced",
            "users": "1",
        }
        return RuntimeReport(self.name, True, False, enforced=enforced)
