"""`AsyncSandboxJobs`: commands that go on in a sandbox when the caller is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing

import anyio

from prime_async.api import AsyncAPIClient
from prime_async.errors import SandboxNotRunningError, UsageError
from prime_async.requests import check_interval, check_range
from prime_async.sandboxes.coalescer import BATCH
from prime_async.sandboxes.control import DEFAULT_CONNECTIONS
from prime_async.sandboxes.job_models import BackgroundJobStatusSnapshot
from prime_async.sandboxes.jobs.ending import end_job, list_jobs
from prime_async.sandboxes.jobs.following import Follower
from prime_async.sandboxes.jobs.handles import check_handle, check_handles, key_of
from prime_async.sandboxes.jobs.launching import Launch
from prime_async.sandboxes.jobs.models import (
    BackgroundJob,
    BackgroundJobInfo,
    BackgroundJobStatus,
    JobOutputChunk,
)
from prime_async.sandboxes.jobs.output import OUTPUT_SECONDS, JobOutput, OutputLimits
from prime_async.sandboxes.jobs.owned import OwnedJob
from prime_async.sandboxes.jobs.seen import Seen, snapshot_of
from prime_async.sandboxes.jobs.stats import BackgroundJobStats
from prime_async.sandboxes.jobs.statuses import JobStatuses
from prime_async.sandboxes.jobs.waiting import Endings, full_status, read_outputs, wait_for_all
from prime_async.sandboxes.storage import AsyncSandboxFiles
from prime_async.transport import check_timeout, deadline, path_segment

__all__ = ["AsyncSandboxJobs"]

START_SECONDS = 120.0
STATUS_SECONDS = 60.0
CANCEL_SECONDS = 30.0
RUN_SECONDS = 900.0
WAIT_SECONDS = 86_400.0
_LONGEST_GRACE = 3600


class AsyncSandboxJobs(AsyncSandboxFiles):
    """Starts, watches and ends background jobs; the fourth part of :class:`AsyncSandboxClient`.

    A job is a command that goes on when the call has returned and when this process is gone. Its
    handle, a :class:`BackgroundJob`, can be stored as JSON and used by another process, or by the
    official client. However many tasks wait for jobs, one poller asks for a hundred of them in a
    request, soon after they were started and then less and less often.

    Args:
        api_client, api_key, base_url, team_id, context, timeout, max_connections, max_live: see
            :class:`AsyncSandboxControl`.
        background_job_output_concurrency: jobs whose output is read at a time.
        background_job_output_queue_size: jobs that wait for a reader; when they are so many,
            callers wait before the queue, until their time is over.
        background_job_output_cache_bytes: bytes of output that are kept; 0 keeps nothing.

    Raises:
        ConfigError, UsageError: see :class:`AsyncSandboxControl`; a limit is out of range.
    """

    def __init__(
        self,
        api_client: AsyncAPIClient | str | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        team_id: str | None = None,
        context: str | None = None,
        timeout: float | None = None,
        max_connections: int = DEFAULT_CONNECTIONS,
        max_live: int | None = None,
        background_job_output_concurrency: int = 20,
        background_job_output_queue_size: int = 200,
        background_job_output_cache_bytes: int = 67_108_864,
    ) -> None:
        limits = OutputLimits.checked(
            background_job_output_concurrency,
            background_job_output_queue_size,
            background_job_output_cache_bytes,
        )
        super().__init__(
            api_client,
            api_key=api_key,
            base_url=base_url,
            team_id=team_id,
            context=context,
            timeout=timeout,
            max_connections=max_connections,
            max_live=max_live,
        )
        self._output_ahead = limits.concurrency
        self._outputs = JobOutput(self._gateway, self._background, limits)
        self._jobs = JobStatuses(self._api, self._gateway, self._statuses, self._background)

    def stats(self) -> BackgroundJobStats:
        """Return the counters of this client's background jobs."""
        looks, cache = self._jobs.looks, self._outputs.cache
        return BackgroundJobStats(
            requests=self._jobs.requests + self._outputs.requests,
            batches=looks.batches,
            mean_keys_per_batch=looks.keys / looks.batches if looks.batches else 0.0,
            max_keys_per_batch=looks.most_keys,
            queue_high_water=self._outputs.queue_most,
            readers_high_water=self._outputs.readers_most,
            cache_hits=cache.hits,
            cache_misses=cache.misses,
            bytes_held=cache.held,
            bytes_held_high_water=cache.most_held,
        )

    async def aclose(self) -> None:
        """Close the connections; jobs and sandboxes go on, unless their block ends them."""
        await super().aclose()
        self._outputs.cache.clear()

    async def start_background_job(
        self,
        sandbox_id: str,
        command: str,
        working_dir: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        *,
        timeout: float | None = None,
        job_id: str | None = None,
    ) -> BackgroundJob:
        """Start a shell command that goes on by itself, and return its handle once it runs.

        It runs once, however often this has to try; called again with the same `job_id` it does
        nothing but return the handle.

        Args:
            sandbox_id: a virtual machine or a container.
            command: for bash, of any length; its standard input is empty.
            working_dir: where in the sandbox; where there is no such folder the job ends with 1.
            env: variables besides the sandbox's; they appear in no file and no process title.
            user: whom to run it as; by default the sandbox's own.
            timeout: seconds it has to start; default 120.
            job_id: eight hexadecimal digits; by default new ones.

        Raises:
            UsageError: an argument is wrong; before anything is sent.
            SandboxNotRunningError: the sandbox has ended; the child of its reason.
            SandboxNotFoundError: there is no such sandbox.
            APIError: it could not be started; ``.ambiguous`` when it may have been.
        """
        path_segment(sandbox_id, "sandbox_id")
        launch = Launch.checked(sandbox_id, command, working_dir, env, user, job_id)
        seconds = check_timeout(timeout, START_SECONDS)
        with deadline(seconds, f"starting job {launch.job.job_id} in sandbox {sandbox_id}"):
            return await launch.run(self._gateway, anyio.current_time() + seconds)
        raise AssertionError("the deadline above returns or raises")

    async def get_background_job(
        self, sandbox_id: str, job: BackgroundJob, timeout: float | None = None
    ) -> BackgroundJobStatus:
        """Return how a job is, with what it wrote once it has completed.

        Args:
            sandbox_id: where it runs.
            job: its handle.
            timeout: seconds in all; default 60, and 45 more to read what it wrote.

        Raises:
            UsageError: the handle has been changed, or is of another sandbox.
            SandboxNotRunningError: the sandbox has ended; the child of its reason.
            SandboxNotFoundError: there is no such sandbox.
            APIError: nothing can be told of it: no such job, or it was killed without a trace.
        """
        handle = check_handle(job, sandbox_id)
        until = anyio.current_time() + check_timeout(timeout, STATUS_SECONDS + OUTPUT_SECONDS)
        seen = await self._look(handle, timeout)
        if not seen.completed:
            return full_status(seen, None)
        output_until = anyio.current_time() + OUTPUT_SECONDS
        return full_status(seen, await self._outputs.read(handle, min(until, output_until)))

    async def get_background_job_status(
        self, sandbox_id: str, job: BackgroundJob, timeout: float | None = None
    ) -> BackgroundJobStatusSnapshot:
        """Return whether a job has ended, and reads nothing of what it wrote.

        Those who ask at about the same time share a request. Arguments and errors as
        :meth:`get_background_job`; default of `timeout` is 60.
        """
        handle = check_handle(job, sandbox_id)
        return snapshot_of(await self._look(handle, timeout), key_of(handle))

    async def get_background_jobs(
        self, jobs: Iterable[BackgroundJob], timeout: float | None = None
    ) -> list[BackgroundJobStatus]:
        """Return how up to 100 jobs are, across sandboxes, in their order and in one request.

        What is wrong with one of them stands on its status as ``error_code`` and ``error``.

        Args:
            jobs: handles, each of a virtual machine.
            timeout: seconds in all; default 60, and 45 more to read what they wrote.

        Raises:
            UsageError: none, more than 100, one twice, or one that is no handle; before anything
                is sent.
            BatchStatusUnsupportedError: one of them runs in a container.
            APIError: nothing can be told of any.
        """
        handles = check_handles(jobs, most=BATCH)
        until = anyio.current_time() + check_timeout(timeout, STATUS_SECONDS + OUTPUT_SECONDS)
        seen = await self._look_at_many(handles, timeout)
        output_until = anyio.current_time() + OUTPUT_SECONDS
        return await read_outputs(self._outputs, handles, seen, min(until, output_until))

    async def get_background_job_statuses(
        self, jobs: Iterable[BackgroundJob], timeout: float | None = None
    ) -> list[BackgroundJobStatusSnapshot]:
        """Return whether up to 100 jobs have ended, in one request and without what they wrote.

        Arguments and errors as :meth:`get_background_jobs`; default of `timeout` is 60.
        """
        return await self._look_at_many(check_handles(jobs, most=BATCH), timeout)

    async def run_background_job(
        self,
        sandbox_id: str,
        command: str,
        timeout: float | None = RUN_SECONDS,
        working_dir: str | None = None,
        env: Mapping[str, str] | None = None,
        poll_interval: float | None = None,
        user: str | None = None,
        *,
        detach: bool = False,
    ) -> BackgroundJobStatus:
        """Start a job, wait until it has ended and return what it wrote.

        When its time is over, or this call is cancelled, it is ended; what it had written is on the
        exception, its handle too (``.job``, or ``.background_job`` of a cancellation).

        Args:
            sandbox_id, command, working_dir, env, user: as :meth:`start_background_job`.
            timeout: seconds it may take; default 900, ``math.inf`` is unlimited. Ending one that is
                late, and reading what it had written, takes up to 15 more.
            poll_interval: seconds between two looks at it, at least; None is the beats of the
                shared poller, from a tenth of a second to five.
            detach: let it go on when its time is over or this call is cancelled.

        Raises:
            UsageError, SandboxNotRunningError, SandboxNotFoundError, APIError: as
                :meth:`start_background_job`.
            BackgroundJobTimeoutError: its time was over.
        """
        path_segment(sandbox_id, "sandbox_id")
        launch = Launch.checked(sandbox_id, command, working_dir, env, user, None)
        owned = OwnedJob(
            self._gateway,
            self._jobs,
            self._outputs,
            launch,
            seconds=check_timeout(timeout, RUN_SECONDS),
            least=check_interval(poll_interval) or 0.0,
            detach=detach,
        )
        return await owned.run()

    async def wait_background_jobs(
        self,
        jobs: Iterable[BackgroundJob],
        *,
        timeout: float | None = None,
        output: bool = True,
    ) -> list[BackgroundJobStatus]:
        """Wait until all of any number of jobs have ended; in their order.

        Passing faults of the platform are waited out. What is wrong with one job stands on its
        status; the others are waited for.

        Args:
            jobs: handles, of virtual machines and containers.
            timeout: seconds in all; default a day.
            output: read what they wrote.

        Raises:
            UsageError: none, one twice, or one that is no handle; before anything is sent.
            BackgroundJobsTimeoutError: some have not ended; it has the statuses of the others.
        """
        handles = check_handles(jobs)
        seconds = check_timeout(timeout, WAIT_SECONDS)
        endings = self._endings(handles, output, seconds)
        return await wait_for_all(endings, handles, seconds)

    async def as_completed(
        self,
        jobs: Iterable[BackgroundJob],
        *,
        timeout: float | None = None,
        output: bool = True,
    ) -> AsyncIterator[BackgroundJobStatus]:
        """Yield any number of jobs as they end; see :meth:`wait_background_jobs`.

        Outputs are read a few jobs ahead of whoever takes them, no further.

        Raises:
            UsageError: none, one twice, or one that is no handle; before anything is sent.
            BackgroundJobsTimeoutError: the time was over; its ``.pending`` are those not yielded.
        """
        handles = check_handles(jobs)
        seconds = check_timeout(timeout, WAIT_SECONDS)
        endings = self._endings(handles, output, seconds)
        async with aclosing(endings.one_by_one()) as ended:
            async for status in ended:
                yield status
        endings.raise_pending(seconds)

    async def follow_background_job(
        self,
        job: BackgroundJob,
        *,
        stdout_offset: int = 0,
        stderr_offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[JobOutputChunk]:
        """Yield what a job writes, as exact bytes while it runs, until it has ended.

        After any break it can be gone on with: ``chunk.end`` is where the next chunk of its stream
        begins.

        Args:
            job: its handle.
            stdout_offset, stderr_offset: bytes of each stream to pass over.
            timeout: seconds in all; default a day.

        Raises:
            UsageError: the handle has been changed, or an offset is negative.
            APITimeoutError: the time was over first.
            SandboxFileNotFoundError: the output has been deleted.
            SandboxNotRunningError, SandboxNotFoundError: the sandbox is gone.
            APIError: it cannot be read, or is shorter than it was.
        """
        handle = check_handle(job)
        check_range("stdout_offset", stdout_offset, 0)
        check_range("stderr_offset", stderr_offset, 0)
        seconds = check_timeout(timeout, WAIT_SECONDS)
        follower = Follower(
            self._gateway,
            self._jobs,
            handle,
            {"stdout": stdout_offset, "stderr": stderr_offset},
            anyio.current_time() + seconds,
            seconds,
        )
        async with aclosing(follower.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk

    async def cancel_background_job(
        self, job: BackgroundJob, grace: float = 5, *, timeout: float | None = None
    ) -> BackgroundJobStatusSnapshot:
        """End a job and everything in its process group; one that has ended is left as it is.

        Args:
            job: its handle.
            grace: seconds between SIGTERM and SIGKILL.
            timeout: seconds in all; default 30 and the grace.

        Returns:
            How it ended; its exit code is 143 or 137 where it did not choose one itself.

        Raises:
            UsageError: the handle has been changed, or the grace is no number of seconds.
            APITimeoutError, SandboxNotRunningError, SandboxNotFoundError: the sandbox could
                not be told.
            APIError: it still runs, or nothing is known of it.
        """
        handle = check_handle(job)
        if isinstance(grace, bool) or not isinstance(grace, int | float) or not 0 <= grace <= 3600:
            raise UsageError(
                f"grace is {grace!r}; it must be a number of seconds, 0 to {_LONGEST_GRACE}",
                field="grace",
            )
        seconds = check_timeout(timeout, CANCEL_SECONDS + grace)
        seen = await end_job(self._gateway, handle, grace, seconds)
        return snapshot_of(seen, key_of(handle))

    async def list_background_jobs(
        self, sandbox_id: str, *, timeout: float | None = None
    ) -> list[BackgroundJobInfo]:
        """Return the jobs of a sandbox whose files are still there, the oldest first.

        Each is a handle, and tells its state and the beginning of its command.

        Raises:
            APITimeoutError, SandboxNotRunningError, SandboxNotFoundError: it cannot tell.
        """
        path_segment(sandbox_id, "sandbox_id")
        return await list_jobs(self._gateway, sandbox_id, check_timeout(timeout, STATUS_SECONDS))

    def _ended(self, sandbox_id: str) -> None:
        super()._ended(sandbox_id)
        self._outputs.forget(sandbox_id)

    async def _look(self, job: BackgroundJob, timeout: float | None) -> Seen:
        """Look at one job; when its sandbox has ended, say why it has."""
        with deadline(check_timeout(timeout, STATUS_SECONDS), f"looking at job {job.job_id}"):
            try:
                return await self._jobs.one(key_of(job))
            except SandboxNotRunningError as error:
                if error.error_type is None:
                    await self._gateway.explain(job.sandbox_id, error, doubtful=True)
                raise
        raise AssertionError("the deadline above returns or raises")

    async def _look_at_many(
        self, jobs: list[BackgroundJob], timeout: float | None
    ) -> list[BackgroundJobStatusSnapshot]:
        seconds = check_timeout(timeout, STATUS_SECONDS)
        with deadline(seconds, f"looking at {len(jobs)} jobs"):
            return await self._jobs.many([key_of(job) for job in jobs], seconds)
        raise AssertionError("the deadline above returns or raises")

    def _endings(self, jobs: list[BackgroundJob], output: bool, seconds: float) -> Endings:
        return Endings(
            self._jobs,
            self._outputs,
            jobs,
            output=output,
            until=anyio.current_time() + seconds,
            ahead=self._output_ahead,
        )
