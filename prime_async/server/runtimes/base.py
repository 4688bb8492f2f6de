"""What the runtimes that go through the spawner share: starting, adopting, watching, leaving."""

from __future__ import annotations

import logging
import os
import re
import resource
import time
import zlib
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.lowlevel
import msgspec
from anyio import to_thread

from prime_async.server.logs import log_event
from prime_async.server.runtimes.cgroups import Cgroups, Group
from prime_async.server.runtimes.checks import check_environment
from prime_async.server.runtimes.conversation import Answer, SpawnerError
from prime_async.server.runtimes.errors import (
    CommandRefusedError,
    ImageUnknownError,
    SandboxRuntimeError,
    SandboxStartError,
)
from prime_async.server.runtimes.family import Family
from prime_async.server.runtimes.files import SandboxFiles
from prime_async.server.runtimes.folders import (
    Kept,
    make_folder,
    make_store,
    read_kept,
    remove_folder,
    write_kept,
)
from prime_async.server.runtimes.limits import clip
from prime_async.server.runtimes.protocol import (
    Limits,
    RuntimeReport,
    SandboxRecord,
    SandboxSpec,
)
from prime_async.server.runtimes.rooted import Identity, Root
from prime_async.server.runtimes.sandbox import Sandbox, SandboxState
from prime_async.server.runtimes.spawner.messages import Message
from prime_async.server.runtimes.spawner.sessions import kill_session
from prime_async.server.runtimes.spawner_client import Ask, SpawnerClient, SpawnerPlace
from prime_async.server.runtimes.watchdog import FREE_BYTES, Watchdog
from prime_async.server.tasks import Tasks

__all__ = ["HOST_IMAGE", "BaseRuntime"]

HOST_IMAGE = "ubuntu:latest"
"""The one image there is: the host's own system."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class BaseRuntime:
    """Common part; subclasses say how a sandbox is laid out, kept open and entered.

    Args:
        folder: of all sandboxes; made when the runtime is entered.
        free_bytes: floor under the free space of the disk the folder is on.
    """

    name = ""
    isolates = True

    def __init__(self, folder: Path, *, free_bytes: int = FREE_BYTES) -> None:
        self._folder = folder
        self._free_bytes = free_bytes
        self._sandboxes: dict[str, Sandbox] = {}
        self._family = Family()
        self._tasks = Tasks()
        self._spawner: SpawnerClient | None = None
        self._cgroups: Cgroups | None = None
        self._leaving = False

    async def __aenter__(self) -> Self:
        self._leaving = False
        place = await to_thread.run_sync(self._prepare)
        self._spawner = SpawnerClient(
            place, on_exit=self._family.ended, on_lost=self._spawner_lost, on_ready=self._introduce
        )
        await self._tasks.open()
        watchdog = Watchdog(
            self._folder,
            self._sandboxes,
            counts=self._cgroups is None,
            free_bytes=self._free_bytes,
        )
        self._tasks.start(watchdog.run)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leaving = True
        with anyio.CancelScope(shield=True):
            await self._tasks.close()
            for sandbox in list(self._sandboxes.values()):
                await sandbox.leave()
            self._sandboxes.clear()
            if self._spawner is not None:
                await self._spawner.aclose()
                self._spawner = None
            if self._cgroups is not None:
                await to_thread.run_sync(self._cgroups.close)

    @property
    def spawner(self) -> SpawnerClient:
        """The client of the spawner.

        Raises:
            SandboxRuntimeError: the runtime is not entered.
        """
        if self._spawner is None:
            raise SandboxRuntimeError("the runtime is not entered: use `async with runtime`")
        return self._spawner

    def sandbox(self, sandbox_id: str) -> Sandbox | None:
        """The running sandbox of this name."""
        return self._sandboxes.get(sandbox_id)

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """Start a sandbox."""
        self._check(spec)
        limits = await to_thread.run_sync(clip, spec, self._folder)
        # To its end, whatever happens to the caller: half a sandbox is nobody's.
        with anyio.CancelScope(shield=True):
            sandbox = await self._start(spec, limits)
        try:
            await anyio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            await sandbox.stop()
            raise
        return sandbox

    def _check(self, spec: SandboxSpec) -> None:
        _ = self.spawner
        if not _ID.fullmatch(spec.id):
            raise CommandRefusedError("an id is [A-Za-z0-9_-]{1,64}", field="id")
        if spec.image != HOST_IMAGE:
            raise ImageUnknownError(spec.image, hint=f"there is only {HOST_IMAGE}: the host")
        check_environment(spec.environment)

    async def _start(self, spec: SandboxSpec, limits: Limits) -> Sandbox:
        folder = self._folder / spec.id
        try:
            await to_thread.run_sync(make_folder, folder, self._identity())
        except OSError as error:
            raise SandboxStartError(f"sandbox {spec.id}: {error}") from error
        groups: list[Group] = []
        try:
            await to_thread.run_sync(self._furnish, spec, limits, folder, groups)
            group = groups[0] if groups else None
            answer = await self._launch(spec, limits, folder, group)
            state = self._state(spec, limits, folder, group, answer)
            return await self._welcome(state, spec.egress, answer.descriptors)
        except (OSError, SpawnerError, SandboxRuntimeError) as error:
            await to_thread.run_sync(_tear_down, folder, groups)
            text = error.text if isinstance(error, SpawnerError) else str(error)
            raise SandboxStartError(f"sandbox {spec.id} did not start: {text}") from error

    def _furnish(
        self, spec: SandboxSpec, limits: Limits, folder: Path, groups: list[Group]
    ) -> None:
        """Make everything a sandbox needs before its first process. Blocks."""
        write_kept(folder, Kept.of(spec.environment, spec.egress))
        self._build(spec, folder)
        if self._cgroups is not None:
            groups.append(self._cgroups.create(self._group_name(spec), limits))

    def _group_name(self, spec: SandboxSpec) -> str:
        """Groups are the machine's: those of another server's folder must not be met."""
        return f"{self._mark()}-{spec.id}"

    def _mark(self) -> str:
        return f"{zlib.crc32(os.fsencode(self._folder)):08x}"

    def _state(
        self, spec: SandboxSpec, limits: Limits, folder: Path, group: Group | None, answer: Answer
    ) -> SandboxState:
        deadline = None if spec.timeout_seconds is None else time.time() + spec.timeout_seconds
        record = SandboxRecord(
            id=spec.id,
            runtime=self.name,
            folder=str(folder),
            pid=answer.fields["pid"],
            start_time=answer.fields["start_time"],
            details={
                "groups": None if group is None else dict(group.folders),
                "deadline": deadline,
                "idle_seconds": spec.idle_seconds,
                "limits": msgspec.to_builtins(limits),
                **self._details(),
            },
        )
        return self._restored(record, Kept.of(spec.environment, spec.egress))

    def _restored(self, record: SandboxRecord, kept: Kept) -> SandboxState:
        details = record.details
        limits = msgspec.convert(details["limits"], Limits)
        groups = details["groups"]
        folder = Path(record.folder)
        return SandboxState(
            record=record,
            limits=limits,
            environment=self._environment(folder, kept.environment),
            folder=folder,
            deadline=details["deadline"],
            idle_seconds=details["idle_seconds"],
            group=None if groups is None else Group(groups),
            rlimits=self._rlimits(limits),
            working_dir=self.working_dir,
        )

    async def _welcome(self, state: SandboxState, policy: Any, descriptors: list[int]) -> Sandbox:
        """Take a sandbox whose first process runs."""
        sandbox = await self._take(state)
        self._sandboxes[sandbox.id] = sandbox
        self._tasks.start(self._follow, sandbox)
        try:
            await self._connect(sandbox, policy, descriptors)
        except BaseException:
            await sandbox.stop()
            raise
        return sandbox

    async def _follow(self, sandbox: Sandbox) -> None:
        """When a sandbox ends by itself, everything of it but its files goes at once."""
        await sandbox.ended()
        await sandbox.settle()
        self._sandboxes.pop(sandbox.id, None)

    async def adopt(self, record: SandboxRecord) -> Sandbox | None:
        """Take over a sandbox of an earlier server."""
        known = self._sandboxes.get(record.id)
        if known is not None:
            return known
        groups = record.details.get("groups")
        group = None if groups is None else Group(groups)
        folder = Path(record.folder)
        answer = await self.spawner.ask(_introduction(record, group, self.isolates))
        kept = None
        if answer.fields["alive"]:
            try:
                kept = await to_thread.run_sync(read_kept, folder)
            except (OSError, msgspec.MsgspecError) as error:
                log_event(logging.ERROR, "sandbox_unreadable", sandbox=record.id, error=error)
                self._kill_stray(record)
        if kept is None:
            await to_thread.run_sync(_tear_down, folder, [] if group is None else [group])
            return None
        return await self._welcome(self._restored(record, kept), kept.policy, [])

    def _kill_stray(self, record: SandboxRecord) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(record.pid, 9)

    async def _introduce(self, ask: Ask) -> None:
        """Tell a new spawner about the sandboxes there are."""
        for sandbox in list(self._sandboxes.values()):
            await ask(_introduction(sandbox.record, sandbox.state.group, self.isolates))

    def _spawner_lost(self) -> None:
        self._end_strays(self._family.lost())

    def _end_strays(self, strays: list[int]) -> None:
        """What has no parent any more ends now: nobody could tell how it ends."""
        # A parent that ends because the runtime is left has ended them itself.
        if strays and not self._leaving:
            self._tasks.start(self._kill, strays)

    async def _kill(self, strays: list[int]) -> None:
        for pid in strays:
            await to_thread.run_sync(kill_session, pid)

    def _prepare(self) -> SpawnerPlace:
        """Look at the host and make the folder. Blocks."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Three descriptors for a sandbox, three for a command: the usual 1,024 end soon.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        make_store(self._folder, self._identity())
        place = self._place()
        if self._cgroups is not None:
            self._cgroups.sweep(self._is_wanted)
        return place

    def _is_wanted(self, group: str) -> bool:
        """Whether a group is another folder's, or that of a sandbox that may still be adopted."""
        ours, _, sandbox = group.partition("-")
        return ours != self._mark() or (self._folder / sandbox).exists()

    def _files(self, root: Root, sandbox: list[Sandbox]) -> SandboxFiles:
        """The files of a sandbox that is about to exist."""
        return SandboxFiles(
            root, room=lambda: sandbox[0].room(), touched=lambda: sandbox[0].touch()
        )

    working_dir = "/app"

    def _identity(self) -> Identity:
        raise NotImplementedError

    def _place(self) -> SpawnerPlace:
        raise NotImplementedError

    def _build(self, spec: SandboxSpec, folder: Path) -> None:
        raise NotImplementedError

    async def _launch(
        self, spec: SandboxSpec, limits: Limits, folder: Path, group: Group | None
    ) -> Answer:
        raise NotImplementedError

    async def _take(self, state: SandboxState) -> Sandbox:
        raise NotImplementedError

    async def _connect(self, sandbox: Sandbox, policy: Any, descriptors: list[int]) -> None:
        """Give it its way out, if it has one of its own."""

    def _environment(self, folder: Path, environment: dict[str, str]) -> dict[str, str]:
        raise NotImplementedError

    def _rlimits(self, limits: Limits) -> dict[str, int]:
        raise NotImplementedError

    def _details(self) -> dict[str, Any]:
        return {}

    async def probe(self) -> RuntimeReport:
        """Try it out."""
        raise NotImplementedError


def _introduction(record: SandboxRecord, group: Group | None, isolated: bool) -> Message:
    return {
        "op": "adopt",
        "sandbox": record.id,
        "pid": record.pid,
        "start_time": record.start_time,
        "cgroups": [] if group is None else group.entrances(),
        "isolated": isolated,
    }


def _tear_down(folder: Path, groups: list[Group]) -> None:
    for group in groups:
        if not group.remove():
            log_event(logging.WARNING, "group_left", folders=dict(group.folders))
    remove_folder(folder)
