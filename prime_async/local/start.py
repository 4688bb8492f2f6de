"""`ensure_running`: one platform per home directory, started by whoever needs it first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from prime_async._version import __version__
from prime_async.errors import LocalPlatformError, UsageError
from prime_async.local.address import LocalAddress
from prime_async.local.context import publish
from prime_async.local.control import change_lock, end_process
from prime_async.local.health import probe
from prime_async.local.paths import LocalPaths
from prime_async.local.state import State, set_state_aside
from prime_async.local.waiting import POLL_SECONDS, until

__all__ = ["ensure_running"]

_STOP_SECONDS = 30.0
# From taking its lock to writing its state a daemon needs a second or two.
_WRITE_SECONDS = 15.0


async def ensure_running(
    *, home: Path | None = None, port: int | None = None, timeout: float = 60.0
) -> LocalAddress:
    """Return the address of the running platform; start it first where it does not run.

    However many tasks, threads and processes call this at once, one platform is started. It goes on
    after its starter. One that an older version of this package started is replaced by one of this
    version when nothing in it would be disturbed; a newer one is used as it is.

    Args:
        home: home directory; default that of the user.
        port: loopback port it must have; default the one it had before, at first a free one.
        timeout: seconds for everything.

    Raises:
        LocalPlatformError: it cannot be started or does not answer; the hint says what to do, which
            may be to look into the log that is named.
        ConfigError: a folder or file cannot be made or read.
        UsageError: ``port`` is not a port number.
    """
    if port is not None and not 1 <= port <= 65535:
        raise UsageError(f"port is {port}; it must be within 1..65535", field="port")
    starter = _Starter(LocalPaths.find(home), port)
    with anyio.move_on_after(timeout) as scope:
        return await starter.run(timeout)
    assert scope.cancelled_caught
    raise LocalPlatformError(
        f"the local platform was not ready within {timeout:g} s",
        hint=f"see {starter.paths.log}",
    )


@dataclass(frozen=True, slots=True)
class _Starter:
    paths: LocalPaths
    port: int | None

    async def run(self, timeout: float) -> LocalAddress:
        state = await to_thread.run_sync(self._alive)
        if state is not None and await self._usable(state):
            # The way of nearly every call: it runs, and nobody needs a lock.
            return await self._running(state, ())
        await to_thread.run_sync(self.paths.make)
        async with change_lock(self.paths, timeout):
            return await self._run_locked()

    async def _usable(self, state: State) -> bool:
        new_enough = _release(state.version) >= _release(__version__)
        return new_enough and await probe(state.unix_socket, state.port) is not None

    def _alive(self) -> State | None:
        if not self.paths.root.is_dir():
            return None
        state = set_state_aside(self.paths)
        return state if state is not None and state.alive else None

    async def _run_locked(self) -> LocalAddress:
        state = await to_thread.run_sync(self._alive)
        notes: tuple[str, ...] = ()
        if state is not None:
            live = await self._until_answering(state)
            if live is not None:
                kept, note = await self._kept(state, live)
                notes = (note,) if note else ()
                if kept:
                    return await self._running(state, notes)
        return await self._launch(notes)

    async def _kept(self, state: State, live: int) -> tuple[bool, str | None]:
        """Whether a running platform stays, and what the user should know about it."""
        if _release(state.version) >= _release(__version__):
            return True, None
        if live:
            return True, (
                f"the local platform is still version {state.version} because {live} things live "
                f"in it; 'prime-async local stop' and the next start bring {__version__}"
            )
        await end_process(state, _STOP_SECONDS)
        return False, (
            f"the local platform was restarted: version {state.version} -> {__version__}"
        )

    async def _running(self, state: State, notes: tuple[str, ...]) -> LocalAddress:
        if self.port not in (None, state.port):
            raise LocalPlatformError(
                f"the local platform runs on port {state.port}, not on {self.port}",
                hint="stop it first: prime-async local stop",
            )
        address = state.address(notes=notes)
        await to_thread.run_sync(publish, self.paths, address)
        return address

    async def _until_answering(self, state: State) -> int | None:
        """Wait for a live process to answer: the number of live things in it, None if it ended."""
        while await to_thread.run_sync(lambda: state.alive):
            health = await probe(state.unix_socket, state.port)
            if health is not None:
                return health.live
            await anyio.sleep(POLL_SECONDS)
        return None

    async def _launch(self, notes: tuple[str, ...]) -> LocalAddress:
        done = await anyio.run_process(
            self._command(),
            stdin=subprocess.DEVNULL,
            check=False,
            cwd=self.paths.root,
            env=_environment(),
            start_new_session=True,
        )
        report = _report(done.stdout)
        if "ready" not in report and "busy" not in report:
            raise self._failed(report, done.stderr)
        state = await self._until_written()
        if await self._until_answering(state) is None:
            raise self._failed({}, b"")
        notes += tuple(str(note) for note in report.get("notes", ()))
        if "busy" in report:
            return await self._running(state, notes)
        address = state.address(started=True, notes=notes)
        await to_thread.run_sync(publish, self.paths, address)
        return address

    async def _until_written(self) -> State:
        """The state of the daemon; one started by hand at the same moment may still be at it."""
        with anyio.move_on_after(_WRITE_SECONDS):
            state = await until(self._alive)
            assert state is not None
            return state
        raise await to_thread.run_sync(self._held_elsewhere)

    def _held_elsewhere(self) -> LocalPlatformError:
        state = set_state_aside(self.paths)
        where = state.host if state is not None and state.host else "another machine or container"
        return LocalPlatformError(
            f"the local platform of {self.paths.home} is in use on {where}",
            hint="stop it there, or set HOME to a directory of this machine",
        )

    def _command(self) -> list[str]:
        if not sys.executable or not hasattr(os, "fork"):
            raise LocalPlatformError(
                "the local platform needs Linux or macOS and a Python it can start",
                hint="on Windows use WSL",
            )
        # -P: a folder called prime_async in the current directory must not be run instead.
        command = [sys.executable, "-P", "-m", "prime_async.server", "--detach"]
        command += ["--home", str(self.paths.home)]
        return command if self.port is None else [*command, "--port", str(self.port)]

    def _failed(self, report: dict[str, Any], stderr: bytes) -> LocalPlatformError:
        lines = stderr.decode("utf-8", "replace").strip().splitlines()
        why = report.get("error") or (lines[-1] if lines else "its process ended early")
        hint = report.get("hint") or f"see {self.paths.log}"
        return LocalPlatformError(f"the local platform did not start: {why}", hint=str(hint))


def _environment() -> dict[str, str]:
    """What the daemon inherits: not the settings, and above all not the key, of its first user."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PRIME_")}


def _report(stdout: bytes) -> dict[str, Any]:
    try:
        report = json.loads(stdout)
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}


def _release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: enough to tell older from newer."""
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
