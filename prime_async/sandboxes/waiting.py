"""Waiting until a sandbox runs and can be reached: quick at first, then patient."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio

from prime_async.connect import Code
from prime_async.errors import (
    APIError,
    CommandTimeoutError,
    PrimeError,
    SandboxBulkWaitError,
    SandboxNotRunningError,
    TransportError,
)
from prime_async.requests import check_range
from prime_async.sandboxes.gateway import not_running
from prime_async.sandboxes.models import ENDED_STATUSES, SandboxStatusSnapshot
from prime_async.sandboxes.rpc import code_of

__all__ = ["CreationWaiter", "wait_for_all"]

_FIRST_PAUSE = 0.025
_LONGEST_PAUSE = 6.4  # the first one doubled eight times
_JITTER = 0.25
_BETWEEN_CHECKS = 0.5
_BUILD_PAUSE = 10.0
_PROBES_AT_A_TIME = 100

_NOT_YET_CODES = (Code.ABORTED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE)
_NOT_YET_STATUSES = (408, 409, 500, 502, 503, 504, 524)
_BROKEN = (AttributeError, ImportError, TypeError)


class CreationWaiter:
    """Waits for sandboxes with one set of limits.

    Args:
        look: returns a status.
        probe: does something small in a sandbox, and raises when it cannot be reached.
        attempts: sets the time: seconds up to 5, two seconds for each one beyond.
        checks: probes in a row that have to succeed.
        build_seconds: time for an image that is built first.
        phase: moves the moments of looking, so that clients do not all look at once.

    Raises:
        UsageError: a limit is no whole number or too small.
    """

    def __init__(
        self,
        look: Callable[[str], Awaitable[SandboxStatusSnapshot]],
        probe: Callable[[str], Awaitable[None]],
        *,
        attempts: int,
        checks: int,
        build_seconds: int,
        phase: float,
    ) -> None:
        check_range("max_attempts", attempts, 1)
        check_range("stability_checks", checks, 1)
        check_range("image_build_timeout_seconds", build_seconds, 1)
        self._look = look
        self._probe = probe
        self._checks = checks
        self._build_seconds = build_seconds
        self._phase = phase
        self._seconds = float(attempts if attempts <= 5 else 5 + 2 * (attempts - 5))

    async def wait(self, sandbox_id: str, probing: AbstractAsyncContextManager[Any]) -> None:
        """Return when the sandbox runs and can be reached; within ``probing`` it is probed.

        Raises:
            SandboxNotRunningError: it ended, or the time was over.
            APIError: its status cannot be told.
        """
        await self._until_running(sandbox_id)
        async with probing:
            await self._until_reachable(sandbox_id)

    async def _until_running(self, sandbox_id: str) -> None:
        deadline = anyio.current_time() + self._seconds
        build_deadline: float | None = None
        pause = _FIRST_PAUSE
        while True:
            seen = await self._look(sandbox_id)
            if seen.status == "RUNNING":
                return
            if seen.status in ENDED_STATUSES:
                raise _ended(seen)
            if seen.pending_image_build_id:
                build_deadline = build_deadline or anyio.current_time() + self._build_seconds
                deadline = anyio.current_time() + _BUILD_PAUSE + self._seconds
                await self._pause(seen, _BUILD_PAUSE, build_deadline, "its image is not built")
                continue
            await self._pause(seen, self._until_beat(pause), deadline, "it has not started")
            pause = min(_LONGEST_PAUSE, pause * 2)

    def _until_beat(self, pause: float) -> float:
        """Return the seconds until the next multiple of the pause: all waiters of a client look at
        the same moments, so that their looks are one request.
        """
        return pause - (anyio.current_time() + self._phase) % pause

    async def _pause(
        self, seen: SandboxStatusSnapshot, seconds: float, deadline: float, what: str
    ) -> None:
        left = deadline - anyio.current_time()
        if left <= 0:
            message = f"{what} in time"
            raise not_running(seen.sandbox_id, seen.status, seen.error_type, None, message)
        await anyio.sleep(min(seconds, left))

    async def _until_reachable(self, sandbox_id: str) -> None:
        deadline = anyio.current_time() + self._seconds
        pause = _FIRST_PAUSE
        good = 0
        while good < self._checks:
            try:
                await self._probe(sandbox_id)
            except PrimeError as error:
                if not _may_pass(error):
                    raise
                await self._check_alive(sandbox_id, error)
                if anyio.current_time() >= deadline:
                    raise _unreachable(sandbox_id, error) from error
                good = 0
                await anyio.sleep(min(_jittered(pause), deadline - anyio.current_time()))
                pause = min(_LONGEST_PAUSE, pause * 2)
                continue
            good += 1
            if good < self._checks:
                await anyio.sleep(_BETWEEN_CHECKS)

    async def _check_alive(self, sandbox_id: str, error: PrimeError) -> None:
        seen = await self._look(sandbox_id)
        if seen.status in ENDED_STATUSES:
            raise _ended(seen) from error


async def wait_for_all(
    waiter: CreationWaiter, sandbox_ids: list[str], then: Callable[[str], Awaitable[None]]
) -> dict[str, str]:
    """Wait for many at a time; one that fails does not end the wait for the others.

    Args:
        then: what each of them does when it is ready.

    Raises:
        SandboxBulkWaitError: names every one that failed.
    """
    limiter = anyio.CapacityLimiter(_PROBES_AT_A_TIME)
    failures: dict[str, PrimeError] = {}

    async def wait(sandbox_id: str) -> None:
        try:
            await waiter.wait(sandbox_id, limiter)
            await then(sandbox_id)
        except PrimeError as error:
            failures[sandbox_id] = error

    async with anyio.create_task_group() as group:
        for sandbox_id in sandbox_ids:
            group.start_soon(wait, sandbox_id)
    if failures:
        statuses = {name: "RUNNING" for name in sandbox_ids if name not in failures}
        raise SandboxBulkWaitError(failures, statuses) from next(iter(failures.values()))
    return dict.fromkeys(sandbox_ids, "RUNNING")


def _jittered(pause: float) -> float:
    return pause * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - spreads load, guards nothing


def _ended(seen: SandboxStatusSnapshot) -> SandboxNotRunningError:
    return not_running(seen.sandbox_id, seen.status, seen.error_type, None, seen.error_message)


def _unreachable(sandbox_id: str, error: PrimeError) -> SandboxNotRunningError:
    return SandboxNotRunningError(
        sandbox_id, "RUNNING", "GATEWAY_REACHABILITY_TIMEOUT", None, f"last: {error}"
    )


def _may_pass(error: BaseException) -> bool:
    """Say whether a sandbox that was started just now may answer this for a moment."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    if any(isinstance(part, _BROKEN) for part in chain):
        return False
    if isinstance(error, SandboxNotRunningError):
        return any(_is_not_found(part) for part in chain)
    if isinstance(error, CommandTimeoutError | TransportError):
        return True
    if not isinstance(error, APIError):
        return False
    return code_of(error) in _NOT_YET_CODES or error.status in _NOT_YET_STATUSES


def _is_not_found(error: BaseException) -> bool:
    named = isinstance(error, APIError) and error.code == "sandbox_not_found"
    return named or code_of(error) is Code.NOT_FOUND
