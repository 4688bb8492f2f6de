"""The sandboxes of this platform: started, watched, adopted after a crash, ended.

The store says what there is; this module makes it true. A sandbox that ended is first marked, then
stopped, and only then forgotten by the store's ``runtime`` column: whatever a crash leaves undone
is finished by the next start.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec
from sqlalchemy import RowMapping

from prime_async.errors import PrimeError
from prime_async.sandboxes.models import ENDED_STATUSES
from prime_async.server.clock import Clock
from prime_async.server.config import ServerConfig
from prime_async.server.failures import RequestError
from prime_async.server.logs import log_event
from prime_async.server.metrics import Metrics
from prime_async.server.runtimes.errors import (
    ImageUnknownError,
    RuntimeUnavailableError,
    SandboxRuntimeError,
)
from prime_async.server.runtimes.protocol import (
    RunningSandbox,
    Runtime,
    SandboxRecord,
    SandboxSpec,
)
from prime_async.server.sandboxes.endings import End, end_of, failed
from prime_async.server.sandboxes.host import RuntimeHost
from prime_async.server.sandboxes.ports import Ports
from prime_async.server.sandboxes.records import limits_row, policy_of
from prime_async.server.sandboxes.sessions import Sessions
from prime_async.server.sandboxes.startcommand import run_start_command
from prime_async.server.store import sandboxes as store
from prime_async.server.store.database import Database
from prime_async.server.tasks import Tasks

__all__ = ["Fleet", "Live"]

_ENDED = tuple(ENDED_STATUSES)
_AT_ONCE = 16
_LOST = failed("LOST", "the sandbox was gone when the platform started again")
_INTERRUPTED = failed("START_FAILED", "the platform ended while the sandbox was being started")


@dataclass(slots=True)
class Live:
    """A sandbox that runs.

    Attributes:
        vm: whether it passes for a virtual machine, or for a container.
        used_at: when somebody last asked something of it.
        idle_seconds: after so long without that it ends; None for never.
        ports: connections to its ports.
    """

    running: RunningSandbox
    sessions: Sessions
    vm: bool
    used_at: float
    idle_seconds: float | None = None
    ports: Ports = field(init=False)

    def __post_init__(self) -> None:
        self.ports = Ports(self.running)

    @property
    def busy(self) -> bool:
        """Whether a command runs, or something is open to one of its ports."""
        return self.sessions.count > 0 or self.ports.busy


@dataclass(frozen=True, slots=True)
class Start:
    """What it takes to start a sandbox; kept in memory only, for the secrets in it."""

    spec: SandboxSpec
    notes: tuple[str, ...]
    vm: bool
    idle_seconds: float | None
    refused: End | None = None
    command: tuple[str, ...] = ()


@dataclass(slots=True)
class Fleet:
    """Every sandbox of this platform.

    Attributes:
        live: those that run, by id.
    """

    config: ServerConfig
    database: Database
    clock: Clock
    tasks: Tasks
    metrics: Metrics
    host: RuntimeHost
    live: dict[str, Live] = field(default_factory=dict)
    _starting: dict[str, anyio.Event] = field(default_factory=dict)
    _ending: dict[str, anyio.Event] = field(default_factory=dict)
    _starts: anyio.CapacityLimiter | None = None

    async def open(self) -> None:
        """Adopt what an earlier server left running, and finish what it left undone."""
        self._starts = anyio.CapacityLimiter(self.config.limits.sandbox_starts)
        rows = await self.database.scan(lambda reader: list(store.active(reader)))
        dead = await self.database.scan(lambda reader: list(store.leftovers(reader)))
        if not rows and not dead:
            return
        for row in rows:
            if row["runtime"] is None:
                await self._mark(row["id"], _INTERRUPTED)
        left = [row for row in (*rows, *dead) if row["runtime"] is not None]
        if left:
            await self._take_over(left)

    def cut(self) -> None:
        """End the streams that are open, so that the server can end."""
        for live in self.live.values():
            live.sessions.cut()
            live.ports.cut()

    async def leave(self) -> None:
        """Close what is open to sandboxes; they go on."""
        for live in self.live.values():
            await live.ports.aclose()

    @property
    def ids(self) -> list[str]:
        """Those that run, or are being started."""
        return sorted({*self.live, *self._starting})

    def use(self, sandbox_id: str) -> Live | None:
        """The live sandbox of this id; its idle clock starts anew."""
        live = self.live.get(sandbox_id)
        if live is not None:
            live.used_at = self.clock.now()
            live.running.touch()
        return live

    def begin(self, start: Start) -> None:
        """Start a sandbox that is stored as PENDING, in the background."""
        self._starting[start.spec.id] = anyio.Event()
        self.tasks.start(self._provision, start)

    async def end(self, sandbox_id: str, end: End) -> None:
        """End a sandbox for good, and return when nothing of it is left. Twice is no error.

        Goes on to the end when the caller is cancelled.

        Raises:
            RequestError: the store cannot be written to; the sandbox is gone all the same.
        """
        await self.tasks.finish(self._end, sandbox_id, end)

    async def _provision(self, start: Start) -> None:
        sandbox_id = start.spec.id
        try:
            assert self._starts is not None
            async with self._starts:
                await self._provision_now(start)
        except (RequestError, PrimeError) as error:
            # Its own words are for people; anything else ends in the log by its traceback.
            await self._mark(sandbox_id, failed("START_FAILED", str(error)))
            log_event(logging.ERROR, "sandbox_not_started", sandbox=sandbox_id, error=error)
        except Exception:
            await self._mark(sandbox_id, failed("START_FAILED", "the platform failed; see its log"))
            raise
        finally:
            self._starting.pop(sandbox_id).set()

    async def _provision_now(self, start: Start) -> None:
        sandbox_id = start.spec.id
        values = {"status": "PROVISIONING", "updated_at": self.clock.now()}
        if not await self._change(sandbox_id, values):
            return  # Deleted before its turn came.
        if start.refused is not None:
            await self._mark(sandbox_id, start.refused)
            return
        try:
            runtime = await self.host.get()
            running = await runtime.start(start.spec)
        except ImageUnknownError as error:
            await self._mark(sandbox_id, failed("IMAGE_PULL_FAILED", error.message))
            return
        except RuntimeUnavailableError as error:
            hint = f" ({error.hint})" if error.hint else ""
            await self._mark(sandbox_id, failed("RUNTIME_UNAVAILABLE", f"{error.message}{hint}"))
            return
        try:
            await self._settle(start, running)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await running.stop()
            raise

    async def _settle(self, start: Start, running: RunningSandbox) -> None:
        """Write down that a sandbox runs; end it at once if it was deleted meanwhile."""
        now = self.clock.now()
        values = {
            "status": "RUNNING",
            "started_at": now,
            "updated_at": now,
            "runtime": msgspec.json.encode(running.record),
            "limits": limits_row(running.limits),
            "notes": msgspec.json.encode([*start.notes, *running.limits.notes]),
            "applied_generation": 0,
        }
        if not await self._change(start.spec.id, values):
            await running.stop()
            return
        self._join(running, start.vm, start.idle_seconds)
        await self.apply_policy(running.id)  # It may have changed while it was being started.
        if start.command:
            self.tasks.start(run_start_command, self.config, running, start.command, self.note)
        log_event(logging.INFO, "sandbox_started", sandbox=running.id)

    async def apply_policy(self, sandbox_id: str) -> None:
        """Put the stored policy of a sandbox in force, if another one is; not before it runs."""
        live = self.live.get(sandbox_id)
        row = self.database.point(lambda reader: store.find_any(reader, sandbox_id))
        if live is None or row is None or row["generation"] == row["applied_generation"]:
            return
        live.running.set_egress(policy_of(row))
        values = {"applied_generation": row["generation"]}
        await self.database.write(lambda connection: store.change(connection, sandbox_id, values))

    async def note(self, sandbox_id: str, values: Mapping[str, Any]) -> None:
        """Store something about a sandbox, whatever its status."""
        values = {**values, "updated_at": self.clock.now()}
        await self.database.write(lambda connection: store.change(connection, sandbox_id, values))

    def _join(self, running: RunningSandbox, vm: bool, idle_seconds: float | None) -> Live:
        sessions = Sessions(running, self.tasks, self.config.limits.sandbox_commands)
        live = Live(running, sessions, vm, self.clock.now(), idle_seconds)
        self.live[running.id] = live
        self.metrics.live_sandboxes.set(len(self.live))
        self.tasks.start(self._watch, running)
        return live

    async def _watch(self, running: RunningSandbox) -> None:
        reason = await running.ended()
        await self._end(running.id, end_of(reason))

    async def _end(self, sandbox_id: str, end: End) -> None:
        other = self._ending.get(sandbox_id)
        if other is not None:
            await other.wait()
            return
        done = self._ending[sandbox_id] = anyio.Event()
        try:
            await self._end_now(sandbox_id, end)
        finally:
            del self._ending[sandbox_id]
            done.set()

    async def _end_now(self, sandbox_id: str, end: End) -> None:
        failure: RequestError | None = None
        try:
            # First of all, so that whoever loses his command to it can read why.
            await self._mark(sandbox_id, end)
        except RequestError as error:
            failure = error  # A full disk must not keep the sandbox that fills it.
        starting = self._starting.get(sandbox_id)
        if starting is not None:
            await starting.wait()
        live = self.live.pop(sandbox_id, None)
        self.metrics.live_sandboxes.set(len(self.live))
        if live is not None:
            await self._stop(live)
        if failure is not None:
            await self._mark(sandbox_id, end)
        await self.database.write(lambda connection: store.forget(connection, sandbox_id), rows=4)

    async def _stop(self, live: Live) -> None:
        await live.running.stop()
        await live.ports.aclose()
        live.sessions.cut()
        await live.sessions.close()

    async def _mark(self, sandbox_id: str, end: End) -> None:
        """Store how a sandbox ended, unless it had ended before."""
        now = self.clock.now()
        values = {
            "status": end.status,
            "termination_reason": end.reason,
            "error_type": end.error_type,
            "error_message": end.message,
            "terminated_at": now,
            "updated_at": now,
        }
        if await self._change(sandbox_id, values):
            self.metrics.ended_sandboxes.labels(end.reason).inc()
            log_event(logging.INFO, "sandbox_ended", sandbox=sandbox_id, reason=end.reason)

    async def _change(self, sandbox_id: str, values: Mapping[str, Any]) -> bool:
        return await self.database.write(
            lambda connection: store.change(connection, sandbox_id, values, unless=_ENDED)
        )

    async def _take_over(self, rows: list[RowMapping]) -> None:
        try:
            runtime = await self.host.get()
        except (PrimeError, OSError) as error:
            # Left as they are: a later start, on a machine that can, finds them again.
            log_event(logging.ERROR, "sandboxes_not_adopted", count=len(rows), error=error)
            return
        limit = anyio.CapacityLimiter(_AT_ONCE)
        async with anyio.create_task_group() as group:
            for row in rows:
                group.start_soon(self._adopt, runtime, row, limit)
        log_event(logging.INFO, "sandboxes_adopted", count=len(self.live))

    async def _adopt(self, runtime: Runtime, row: RowMapping, limit: anyio.CapacityLimiter) -> None:
        sandbox_id = row["id"]
        async with limit:
            try:
                running = await runtime.adopt(
                    msgspec.json.decode(row["runtime"], type=SandboxRecord)
                )
            except (SandboxRuntimeError, OSError, msgspec.MsgspecError) as error:
                log_event(logging.ERROR, "sandbox_not_adopted", sandbox=sandbox_id, error=error)
                running = None
            if running is None:
                await self._end(sandbox_id, _LOST)
            elif row["status"] in ENDED_STATUSES:
                await running.stop()
                await self._end(sandbox_id, _LOST)
            else:
                # That it was started with is what the runtime knows.
                running.set_egress(policy_of(row))
                values = {"applied_generation": row["generation"]}
                await self.database.write(
                    lambda connection: store.change(connection, sandbox_id, values)
                )
                idle = msgspec.json.decode(row["spec"]).get("idle_timeout_minutes")
                found = await running.find_held()
                live = self._join(running, bool(row["vm"]), None if idle is None else idle * 60.0)
                live.sessions.adopt(found)
