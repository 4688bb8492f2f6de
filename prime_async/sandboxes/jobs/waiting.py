"""Waiting for jobs: for many until each has ended, and for one that is started for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import anyio

from prime_async.errors import BackgroundJobsTimeoutError, PrimeError
from prime_async.sandboxes.job_models import BackgroundJobStatusSnapshot
from prime_async.sandboxes.jobs.handles import JobKey, key_of
from prime_async.sandboxes.jobs.models import BackgroundJob, BackgroundJobStatus
from prime_async.sandboxes.jobs.output import JobOutput, JobStreams, Reading
from prime_async.sandboxes.jobs.seen import Seen, code_of_error
from prime_async.sandboxes.jobs.statuses import JobStatuses
from prime_async.sandboxes.waiters import Waiter

__all__ = ["Endings", "failed_status", "full_status", "read_outputs", "wait_for_all"]


def full_status(
    seen: Seen | BackgroundJobStatusSnapshot, streams: JobStreams | None
) -> BackgroundJobStatus:
    """Put together how a job is and what it wrote."""
    status = BackgroundJobStatus(
        job_id=seen.job_id,
        sandbox_id=seen.sandbox_id,
        completed=seen.completed,
        exit_code=seen.exit_code,
    )
    if isinstance(seen, BackgroundJobStatusSnapshot):
        status.error_code, status.error = seen.error_code, seen.error
    if streams is not None:
        out, err = streams.stdout, streams.stderr
        status.stdout, status.stdout_truncated, status.stdout_error = (
            out.text,
            out.truncated,
            out.error,
        )
        status.stderr, status.stderr_truncated, status.stderr_error = (
            err.text,
            err.truncated,
            err.error,
        )
    return status


def failed_status(
    job: BackgroundJob, error: PrimeError, seen: Seen | BackgroundJobStatusSnapshot | None = None
) -> BackgroundJobStatus:
    """Make the status of a job of which nothing, or nothing more than ``seen``, can be told."""
    status = full_status(seen or Seen(*key_of(job)), None)
    status.error_code, status.error = code_of_error(error), str(error)
    return status


async def read_outputs(
    outputs: JobOutput,
    jobs: Sequence[BackgroundJob],
    seen: Sequence[BackgroundJobStatusSnapshot],
    until: float,
) -> list[BackgroundJobStatus]:
    """Read the outputs of those jobs that have ended, in the order given."""
    found: dict[int, BackgroundJobStatus] = {}

    async def read(index: int) -> None:
        try:
            streams = await outputs.read(jobs[index], until)
        except PrimeError as error:
            found[index] = failed_status(jobs[index], error, seen[index])
        else:
            found[index] = full_status(seen[index], streams)

    async with anyio.create_task_group() as group:
        for index, one in enumerate(seen):
            if one.completed:
                group.start_soon(read, index)
            else:
                found[index] = full_status(one, None)
    return [found[index] for index in range(len(seen))]


class Endings:
    """The jobs of one wait, one by one as they end.

    Args:
        statuses, outputs: of the client.
        jobs: which ones.
        output: whether to read what they wrote, a few jobs ahead of whoever takes them.
        until: when to give up, on the clock of the loop.
        ahead: outputs read and not taken yet, at most.
    """

    def __init__(
        self,
        statuses: JobStatuses,
        outputs: JobOutput,
        jobs: Sequence[BackgroundJob],
        *,
        output: bool,
        until: float,
        ahead: int,
    ) -> None:
        self._statuses = statuses
        self._outputs = outputs
        self._jobs = {key_of(job): job for job in jobs}
        self._output = output
        self._until = until
        self._ahead = ahead
        self._ended: deque[Waiter[JobKey, Seen]] = deque()
        self._ready: deque[BackgroundJobStatus] = deque()
        self._readings: dict[Reading, Seen] = {}
        self._woken = asyncio.Event()
        self.pending = dict(self._jobs)
        """The handles of the jobs that were not yielded."""

    async def one_by_one(self) -> AsyncGenerator[BackgroundJobStatus, None]:
        """Yield each job that has ended; what goes wrong with one stands on its status.

        Ends when there are none left, or the time is over.
        """
        waiters = await self._statuses.subscribe(list(self._jobs), self._told)
        try:
            while self.pending:
                while not self._gather():
                    with anyio.move_on_at(self._until) as scope:
                        await self._woken.wait()
                    self._woken.clear()
                    if scope.cancelled_caught:
                        self._give_up()
                        break
                if not self._ready:
                    return
                while self._ready:
                    status = self._ready.popleft()
                    assert status.sandbox_id is not None
                    del self.pending[status.sandbox_id, status.job_id]
                    yield status
        finally:
            for waiter in waiters:
                self._statuses.looks.leave(waiter)
            for reading in self._readings:
                self._outputs.leave(reading)

    def raise_pending(
        self, seconds: float, statuses: list[BackgroundJobStatus] | None = None
    ) -> None:
        """Raise when there are jobs left.

        Raises:
            BackgroundJobsTimeoutError: some have not ended; `statuses` are those that have.
        """
        if self.pending:
            left = list(self.pending.values())
            raise BackgroundJobsTimeoutError(statuses or [], left, len(self._jobs), seconds)

    def _told(self, waiter: Waiter[JobKey, Seen]) -> None:
        self._ended.append(waiter)
        self._woken.set()

    def _gather(self) -> bool:
        """Move on what can be; say whether something is ready."""
        for reading in [one for one in self._readings if one.done]:
            self._take(reading, self._readings.pop(reading))
        while self._ended and len(self._readings) < self._ahead:
            job = self._jobs[self._ended[0].key]
            try:
                seen = self._ended.popleft().result()
            except PrimeError as error:
                self._ready.append(failed_status(job, error))
                continue
            if not self._output:
                self._ready.append(full_status(seen, None))
                continue
            reading = self._outputs.request(job, self._woken.set)
            if reading.done:
                self._take(reading, seen)
            else:
                self._readings[reading] = seen
        return bool(self._ready)

    def _take(self, reading: Reading, seen: Seen) -> None:
        try:
            self._ready.append(full_status(seen, reading.result()))
        except PrimeError as error:
            self._ready.append(failed_status(reading.job, error, seen))

    def _give_up(self) -> None:
        """Hand out what is known of those that have ended when there is no time left to read."""
        for reading, seen in self._readings.items():
            self._ready.append(full_status(seen, self._outputs.so_far(reading)))
            self._outputs.leave(reading)
        self._readings.clear()


async def wait_for_all(
    endings: Endings, jobs: Sequence[BackgroundJob], seconds: float
) -> list[BackgroundJobStatus]:
    """Wait until all have ended; in the order given.

    Raises:
        BackgroundJobsTimeoutError: some have not; it has what is known of the others.
    """
    found: dict[JobKey, BackgroundJobStatus] = {}
    async with aclosing(endings.one_by_one()) as ended:
        async for status in ended:
            found[status.sandbox_id or "", status.job_id] = status
    statuses = [found[key_of(job)] for job in jobs if key_of(job) in found]
    endings.raise_pending(seconds, statuses)
    return statuses
