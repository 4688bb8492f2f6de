"""The runtime of Linux: namespaces made by bubblewrap, limits by control groups or a watchdog."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread

from prime_async.server.logs import log_event
from prime_async.server.runtimes.base import BaseRuntime
from prime_async.server.runtimes.cgroups import Group, Usage, find_cgroups
from prime_async.server.runtimes.conversation import Answer
from prime_async.server.runtimes.dialing import Dialer, GuardedDialer
from prime_async.server.runtimes.egress import EgressProxy
from prime_async.server.runtimes.egress_policy import EgressPolicy
from prime_async.server.runtimes.errors import SandboxRuntimeError, SandboxStartError
from prime_async.server.runtimes.hostcheck import Bubblewrap, explain, find_bubblewrap, missing
from prime_async.server.runtimes.identity import Owner, find_owner, map_ids
from prime_async.server.runtimes.keeper import folder_source, keeper_command, staged
from prime_async.server.runtimes.layout import (
    PROXY_PORT,
    HostParts,
    base_environment,
    build_root,
    find_parts,
    restore_root,
)
from prime_async.server.runtimes.limits import command_rlimits
from prime_async.server.runtimes.mountpoints import make_mount_points
from prime_async.server.runtimes.processes import read_table
from prime_async.server.runtimes.protocol import Limits, Mount, RuntimeReport, SandboxSpec
from prime_async.server.runtimes.rooted import Identity, Root
from prime_async.server.runtimes.sandbox import Sandbox, SandboxState
from prime_async.server.runtimes.spawner_client import SpawnerPlace
from prime_async.server.runtimes.users import User, find_user
from prime_async.server.runtimes.watchdog import FREE_BYTES

__all__ = ["BubblewrapRuntime", "BubblewrapSandbox"]


class BubblewrapSandbox(Sandbox):
    """A sandbox in namespaces of its own: ending its first process ends everything in it."""

    many_users = False

    def kill(self) -> None:
        """End everything: the kernel does it when the first process of a pid namespace ends."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def roots(self) -> list[int]:
        """Processes below which all of its processes are."""
        return [self.record.pid, *(command.host_pid for command in list(self.commands))]

    def measure(self) -> Usage:
        """What it uses. Blocks."""
        group = self.state.group
        if group is not None and self._cgroups is not None:
            usage = self._cgroups.usage(group)
            return replace(usage, processes=usage.processes - self.launchers)
        return read_table().usage(self.roots(), self.limits.memory_bytes)

    async def find_user(self, wanted: str | None) -> User:
        """Who a command runs as."""
        return await find_user(self.files, wanted, many=self.many_users)


class BubblewrapRuntime(BaseRuntime):
    """See :class:`prime_async.server.runtimes.protocol.Runtime` and `docs/isolation.md`.

    Args:
        folder: of all sandboxes.
        dialer: opens the connections of the egress proxies; None is the guarded one.
        use_cgroups: whether to look for control groups; without, rlimits and the watchdog limit.
        free_bytes: floor under the free space of the disk.
    """

    name = "bubblewrap"

    def __init__(
        self,
        folder: Path,
        *,
        dialer: Dialer | None = None,
        use_cgroups: bool = True,
        free_bytes: int = FREE_BYTES,
    ) -> None:
        super().__init__(folder, free_bytes=free_bytes)
        self._dialer = dialer or GuardedDialer()
        self._use_cgroups = use_cgroups
        self._owner: Owner | None = None
        self._parts: HostParts | None = None
        self._bubblewrap: Bubblewrap | None = None

    @property
    def owner(self) -> Owner:
        """Whom its sandboxes run as."""
        self._owner = self._owner or find_owner()
        return self._owner

    @property
    def parts(self) -> HostParts:
        """What its sandboxes see of the host."""
        self._parts = self._parts or find_parts(self._folder, self._identity())
        return self._parts

    def _identity(self) -> Identity:
        return self.owner.identity

    def _place(self) -> SpawnerPlace:
        self._bubblewrap = find_bubblewrap()
        if self._use_cgroups:
            self._cgroups = find_cgroups(self._identity())
        prefix = self.parts.prefix
        binds: list[tuple[str, str]] = []
        if self.owner.changes:
            binds.append((str(self._folder), "sandboxes"))
            binds += self._bubblewrap.folders if self._bubblewrap else ()
            binds += [(str(prefix), "prefix")] if prefix is not None else []
        return SpawnerPlace(
            uid=self._identity().uid,
            gid=self._identity().gid,
            binds=tuple(binds),
            enroll=self._cgroups.enroll if self._cgroups is not None else None,
        )

    def _build(self, spec: SandboxSpec, folder: Path) -> None:
        root, identity = folder / "root", self._identity()
        if spec.snapshot is None:
            build_root(root, self.parts, identity)
        else:
            restore_root(root, spec.snapshot, self.parts, identity)
        make_mount_points(root, (one.target for one in spec.mounts), identity, replace=False)

    async def _launch(
        self, spec: SandboxSpec, limits: Limits, folder: Path, group: Group | None
    ) -> Answer:
        request = {
            "op": "start",
            "sandbox": spec.id,
            "argv": self._command(spec, limits, folder),
            "cgroups": [] if group is None else group.entrances(),
            "listen": PROXY_PORT,
            "map": self.owner.many,
        }
        mapper = partial(map_ids, self._identity()) if self.owner.many else None
        return await self.spawner.start_keeper(request, mapper)

    def _command(self, spec: SandboxSpec, limits: Limits, folder: Path) -> list[str]:
        found = self._bubblewrap
        if found is None:
            raise SandboxStartError("bubblewrap is not installed")
        changes = self.owner.changes
        return keeper_command(
            staged(found.inner) if changes and found.inner else found.path,
            folder_source(folder / "root", self._folder, root=changes),
            self.parts,
            prefix_source=staged("prefix") if changes else str(self.parts.prefix),
            skeleton_source=folder_source(
                self.parts.skeleton / "shared", self._folder, root=changes
            ),
            memory_bytes=limits.memory_bytes,
            many_ids=self.owner.many,
            seconds=spec.timeout_seconds,
            mounts=tuple(self._reachable(mount) for mount in spec.mounts),
        )

    def _reachable(self, mount: Mount) -> Mount:
        source = folder_source(mount.source, self._folder, root=self.owner.changes)
        return Mount(Path(source), mount.target, mount.read_only)

    async def _take(self, state: SandboxState) -> Sandbox:
        path = f"/proc/{state.record.pid}/root"
        root = await to_thread.run_sync(Root.of, path, self._identity(), self.working_dir)
        made: list[Sandbox] = []
        sandbox = BubblewrapSandbox(
            state,
            self._files(root, made),
            spawner=self.spawner,
            family=self._family,
            cgroups=self._cgroups,
            end_strays=self._end_strays,
        )
        sandbox.many_users = state.record.details["many_users"]
        made.append(sandbox)
        return sandbox

    async def _connect(
        self, sandbox: Sandbox, policy: EgressPolicy, descriptors: list[int]
    ) -> None:
        try:
            listening = (
                socket.socket(fileno=descriptors[0])
                if descriptors
                else await sandbox.listen(PROXY_PORT)
            )
        except (OSError, SandboxRuntimeError) as error:
            # Something inside took the port while no server held it: it has no way out any more.
            log_event(logging.WARNING, "egress_not_served", sandbox=sandbox.id, error=error)
            return
        listening.setblocking(False)
        await sandbox.serve_egress(EgressProxy(sandbox.id, policy, self._dialer), listening)

    def _environment(self, folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
        return base_environment(self.parts) | dict(environment)

    def _rlimits(self, limits: Limits) -> dict[str, int]:
        return command_rlimits(limits, memory=self._cgroups is None, processes=True)

    def _details(self) -> dict[str, Any]:
        return {"many_users": self.owner.many}

    async def probe(self) -> RuntimeReport:
        """Start a sandbox, and say what holds here."""
        lack = await to_thread.run_sync(missing)
        if lack is not None:
            return RuntimeReport(self.name, False, True, *lack)
        try:
            if self._spawner is not None:
                return await self._try()
            async with self:
                return await self._try()
        except (SandboxRuntimeError, OSError) as error:
            text = getattr(error, "message", None) or str(error)
            return RuntimeReport(self.name, False, True, *await to_thread.run_sync(explain, text))

    async def _try(self) -> RuntimeReport:
        trial = await self.start(SandboxSpec(f"probe-{os.getpid()}-{secrets.token_hex(4)}"))
        await trial.stop()
        return RuntimeReport(self.name, True, True, enforced=self._enforced())

    def _enforced(self) -> dict[str, str]:
        groups = self._cgroups
        version = groups.version if groups is not None else None
        cpu = version if groups is not None and "cpu" in groups.controllers else None
        return {
            "memory": version or "RLIMIT_DATA per process and a watchdog over all of them",
            "cpu": cpu or "not enforced",
            "processes": f"{version} and RLIMIT_NPROC" if version else "RLIMIT_NPROC",
            "disk": "RLIMIT_FSIZE, a watchdog over the folder, a floor under the free space",
            "network": "own network namespace, egress proxy",
            "users": "65536" if self.owner.many else "1",
        }
