"""Looking at the platform and ending it."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from prime_async.config.locks import FileLock
from prime_async.errors import LocalPlatformError
from prime_async.local.health import Health, end_all, living, probe
from prime_async.local.paths import LocalPaths
from prime_async.local.state import State, read_state
from prime_async.local.waiting import POLL_SECONDS, until

__all__ = ["LocalStatus", "Stopped", "change_lock", "end_process", "status", "stop"]

_LOOK_SECONDS = 2.0
"""How long a platform that is about to be stopped has to name what lives in it."""


@dataclass(frozen=True, slots=True)
class LocalStatus:
    """What is known about the platform.

    Attributes:
        running: its process is there.
        answering: it answers its health check.
        pid, version, started_at: of the running process (UTC, ISO format), or None.
        base_url: its address; of a stopped one the address it will have, None before the first
            start.
        unix_socket: path of its socket while it runs, or None.
        live: things in it that a restart would disturb.
        data_dir, log: where its data and its log are.
    """

    running: bool
    answering: bool
    pid: int | None
    version: str | None
    started_at: str | None
    base_url: str | None
    unix_socket: str | None
    live: int
    data_dir: Path
    log: Path


@dataclass(frozen=True, slots=True)
class Stopped:
    """How the platform ended.

    Attributes:
        was_running: there was one to end.
        pid: its process, or None.
        killed: it did not end in time and was killed; its database survives that.
        ended: how many things that lived in it were ended too, None when none was asked to be.
        sandboxes: ids of those that were ended, or else of those that go on and are adopted by the
            next platform.
    """

    was_running: bool
    pid: int | None = None
    killed: bool = False
    ended: int | None = None
    sandboxes: tuple[str, ...] = ()


async def status(*, home: Path | None = None, timeout: float = 2.0) -> LocalStatus:
    """Say whether the platform runs and where. Starts nothing, creates nothing.

    Args:
        home: home directory; default that of the user.
        timeout: seconds for the health check.

    Raises:
        ConfigError: the state file is damaged.
        LocalPlatformError: the system knows no home directory.
    """
    paths = LocalPaths.find(home)
    state, alive = await to_thread.run_sync(_look, paths)
    health: Health | None = None
    if state is not None and alive:
        health = await probe(state.unix_socket, state.port, timeout=timeout)
    return LocalStatus(
        running=alive,
        answering=health is not None,
        pid=state.pid if state and alive else None,
        version=state.version if state and alive else None,
        started_at=state.started_at if state and alive else None,
        base_url=state.address().base_url if state else None,
        unix_socket=state.unix_socket if state and alive else None,
        live=health.live if health else 0,
        data_dir=paths.root,
        log=paths.log,
    )


def _look(paths: LocalPaths) -> tuple[State | None, bool]:
    state = read_state(paths)
    return state, state is not None and state.alive


async def stop(
    all: bool = False,  # noqa: A002  # the name the command line gives it
    *,
    home: Path | None = None,
    timeout: float = 30.0,
) -> Stopped:
    """End the platform in good order: requests in flight are answered, data is on disk.

    Args:
        all: end what lives in it too. Without, sandboxes go on, and the next platform of this home
            adopts them.
        home: home directory; default that of the user.
        timeout: seconds after which the process is killed (its data survives that).

    Raises:
        ConfigError: the state file is damaged.
        LocalPlatformError: it belongs to somebody else, another start or stop does not end, or
            what lives in it cannot be ended (then it goes on running).
    """
    paths = LocalPaths.find(home)
    if not await to_thread.run_sync(paths.root.is_dir):
        return Stopped(False)
    async with change_lock(paths, timeout):
        state, alive = await to_thread.run_sync(_look, paths)
        if state is None or not alive:
            return Stopped(False)
        place = (state.unix_socket, state.port, state.api_key)
        ask = end_all if all else living
        sandboxes = await ask(*place, timeout=timeout if all else _LOOK_SECONDS)
        if all and sandboxes is None:
            raise LocalPlatformError(
                "the local platform does not end what lives in it",
                hint=f"see {paths.log}; without --all it is stopped all the same",
            )
        killed = await end_process(state, timeout)
    found = sandboxes or ()
    return Stopped(True, state.pid, killed, len(found) if all else None, found)


async def end_process(state: State, timeout: float) -> bool:
    """Tell the daemon to end and wait for it; True when it had to be killed.

    Raises:
        LocalPlatformError: it may not be ended by this user.
    """
    _send(state, signal.SIGTERM)
    with anyio.move_on_after(timeout):
        await _gone(state)
        return False
    _send(state, signal.SIGKILL)
    await _gone(state)
    return True


def _send(state: State, number: signal.Signals) -> None:
    # Between this look and the signal the number could pass to another process only if the daemon
    # ended and all other numbers were used up in between.
    if state.pid is None or not state.alive:
        return
    try:
        os.kill(state.pid, number)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise LocalPlatformError(
            f"the local platform (process {state.pid}) belongs to another user",
            hint="stop it as the user who started it",
        ) from error


async def _gone(state: State) -> None:
    await until(lambda: not state.alive)


@asynccontextmanager
async def change_lock(paths: LocalPaths, timeout: float) -> AsyncIterator[None]:
    """Hold the right to start or stop the daemon; others wait here.

    Raises:
        LocalPlatformError: it was not to be had within ``timeout`` seconds.
    """
    lock = FileLock(paths.start_lock)
    try:
        with anyio.move_on_after(timeout) as scope:
            # Not in a thread: it never waits, and a cancelled wait for the thread would leave the
            # lock taken by nobody. The holder is another process, so there is no event to wait for.
            while not lock.try_acquire():  # noqa: ASYNC110
                await anyio.sleep(POLL_SECONDS)
        if scope.cancelled_caught:
            raise _someone_else(paths, timeout)
        yield
    finally:
        lock.release()


def _someone_else(paths: LocalPaths, timeout: float) -> LocalPlatformError:
    return LocalPlatformError(
        f"another process has been starting or stopping the local platform for {timeout:g} s",
        hint=f"see {paths.log}",
    )
