"""A job that belongs to the call that started it: it ends when the call does."""

from __future__ import annotations

from typing import Any

import anyio

from prime_async.errors import (
    APIError,
    BackgroundJobTimeoutError,
    PrimeError,
    SandboxNotRunningError,
)
from prime_async.sandboxes.commands import PartialOutput
from prime_async.sandboxes.gateway import Gateway
from prime_async.sandboxes.jobs.ending import try_to_end
from prime_async.sandboxes.jobs.handles import key_of
from prime_async.sandboxes.jobs.launching import Launch
from prime_async.sandboxes.jobs.models import BackgroundJobStatus
from prime_async.sandboxes.jobs.output import OUTPUT_SECONDS, JobOutput, JobStreams
from prime_async.sandboxes.jobs.seen import Seen
from prime_async.sandboxes.jobs.statuses import JobStatuses
from prime_async.sandboxes.jobs.waiting import full_status

__all__ = ["OwnedJob"]

_GRACE = 1.0
_END_SECONDS = 5.0
_PARTIAL_SECONDS = 3.0


class OwnedJob:
    """Starts a job, waits for it and reads what it wrote.

    Args:
        gateway, statuses, outputs: of the client.
        launch: the job.
        seconds: how long it may take.
        least: seconds between two looks at it, at least.
        detach: let it go on when the time is over or the caller is cancelled.
    """

    def __init__(
        self,
        gateway: Gateway,
        statuses: JobStatuses,
        outputs: JobOutput,
        launch: Launch,
        *,
        seconds: float,
        least: float,
        detach: bool,
    ) -> None:
        self._gateway = gateway
        self._statuses = statuses
        self._outputs = outputs
        self._launch = launch
        self._seconds = seconds
        self._least = least
        self._detach = detach
        self._began = 0.0

    async def run(self) -> BackgroundJobStatus:
        """Do all that.

        Raises:
            BackgroundJobTimeoutError: its time was over; with its handle and what it had written.
            SandboxNotRunningError: the sandbox ended.
            APIError: it could not be started, or nothing can be told of it.
        """
        self._began = anyio.current_time()
        until = self._began + self._seconds
        seen: Seen | None = None
        try:
            await self._launch.run(self._gateway, until)
            with anyio.move_on_at(until):
                seen = await self._statuses.until_completed(
                    key_of(self._launch.job), least=self._least
                )
            if seen is None:
                seen = await self._last_look()
        except BaseException as error:
            error.background_job = self._launch.job  # type: ignore[attr-defined]
            if not isinstance(error, SandboxNotRunningError) and not _never_sent(error):
                await self._abandon(error)
            raise
        if seen is None:
            raise await self._too_late()
        streams = await self._outputs.read(self._launch.job, anyio.current_time() + OUTPUT_SECONDS)
        return full_status(seen, streams)

    async def _last_look(self) -> Seen | None:
        """Look once more when the time is over: it may have ended since the last look.

        Raises:
            SandboxNotRunningError: the reason that it did not end is that its sandbox has.
        """
        seen: Seen | None = None
        with anyio.move_on_after(_PARTIAL_SECONDS):
            try:
                seen = await self._statuses.one(key_of(self._launch.job))
            except SandboxNotRunningError:
                raise
            except PrimeError as error:
                await self._gateway.explain(self._launch.job.sandbox_id, error, doubtful=True)
        return seen if seen is not None and seen.completed else None

    async def _too_late(self) -> PrimeError:
        killed = await self._kill()
        streams = await self._so_far()
        hint = "it could not be ended: the sandbox does not answer"
        if killed:
            hint = "it was ended; detach=True lets it go on"
        elif self._detach:
            hint = "it goes on; wait_background_jobs waits for it again"
        error = BackgroundJobTimeoutError(
            self._launch.job,
            self._launch.options.command,
            self._seconds,
            killed=killed,
            elapsed=anyio.current_time() - self._began,
            hint=hint,
        )
        self._attach(error, streams)
        return error

    async def _abandon(self, error: BaseException) -> None:
        """End it while the caller goes away, and leave with the exception what it had written."""
        with anyio.CancelScope(shield=True):
            await self._kill()
            self._attach(error, await self._so_far())

    async def _kill(self) -> bool:
        if self._detach:
            return False
        return await try_to_end(self._gateway, self._launch.job, _GRACE, _END_SECONDS)

    async def _so_far(self) -> JobStreams | None:
        try:
            return await self._outputs.peek(
                self._launch.job, anyio.current_time() + _PARTIAL_SECONDS
            )
        except PrimeError:
            return None  # read for an error that is about to be raised anyway

    def _attach(self, error: Any, streams: JobStreams | None) -> None:
        stdout = "" if streams is None else streams.stdout.text or ""
        stderr = "" if streams is None else streams.stderr.text or ""
        elapsed = anyio.current_time() - self._began
        error.partial_output = PartialOutput(stdout, stderr, elapsed)
        if isinstance(error, BackgroundJobTimeoutError):
            error.stdout, error.stderr = stdout, stderr


def _never_sent(error: BaseException) -> bool:
    """Say whether there was not even a way into the sandbox: nothing has begun there."""
    return isinstance(error, APIError) and error.spent and not error.ambiguous
