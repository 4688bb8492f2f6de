"""What finished jobs wrote: read through a bounded queue by a bounded number of readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from prime_async.errors import (
    APIConnectionError,
    APITimeoutError,
    PrimeError,
    SandboxFileNotFoundError,
    SandboxNotFoundError,
    SandboxNotRunningError,
    UsageError,
)
from prime_async.sandboxes.background import Background
from prime_async.sandboxes.gateway import Gateway
from prime_async.sandboxes.jobs.cache import OutputCache, StreamKey
from prime_async.sandboxes.jobs.handles import JobKey, key_of
from prime_async.sandboxes.jobs.models import BackgroundJob
from prime_async.sandboxes.jobs.turns import Turns
from prime_async.sandboxes.jobs.windows import StreamText, TailReader

__all__ = ["JobOutput", "JobStreams", "OUTPUT_SECONDS", "OutputLimits", "Reading"]

OUTPUT_SECONDS = 45.0
"""Seconds to read the output of finished jobs by default."""

_LARGE_FILES = 4
"""Files of more than one window that are read at a time."""


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """Limits of one client.

    Attributes:
        concurrency: jobs whose output is read at a time.
        queue_size: jobs that wait for a reader.
        cache_bytes: bytes of output that are kept.
    """

    concurrency: int
    queue_size: int
    cache_bytes: int

    @classmethod
    def checked(cls, concurrency: int, queue_size: int, cache_bytes: int) -> OutputLimits:
        """Check them.

        Raises:
            UsageError: one is no whole number or out of range.
        """
        for name, value, least in (
            ("background_job_output_concurrency", concurrency, 1),
            ("background_job_output_queue_size", queue_size, 1),
            ("background_job_output_cache_bytes", cache_bytes, 0),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(
                    f"{name} is {value!r}; it must be a whole number, at least {least}", field=name
                )
        return cls(concurrency, queue_size, cache_bytes)


@dataclass(frozen=True, slots=True)
class JobStreams:
    """Both streams of a job."""

    stdout: StreamText
    stderr: StreamText


class Reading:
    """Somebody who waits for the output of a job; made by :meth:`JobOutput.request`."""

    __slots__ = ("_error", "_streams", "_told", "done", "job")

    def __init__(self, job: BackgroundJob, told: Callable[[], None]) -> None:
        self.job = job
        self.done = False
        self._told = told
        self._streams: JobStreams | None = None
        self._error: PrimeError | None = None

    def result(self) -> JobStreams:
        """Return what was read.

        Raises:
            SandboxNotRunningError, SandboxNotFoundError: the sandbox is gone.
        """
        if self._error is not None:
            raise self._error
        assert self._streams is not None
        return self._streams

    def settle(self, result: JobStreams | PrimeError) -> None:
        """Take the result."""
        if isinstance(result, JobStreams):
            self._streams = result
        else:
            self._error = result
        self.done = True
        self._told()


class _Work:
    """One job to be read, for all who wait for it."""

    __slots__ = ("found", "job", "keep", "readings", "scope")

    def __init__(self, job: BackgroundJob, *, keep: bool = True) -> None:
        self.job = job
        self.keep = keep
        self.found: dict[str, StreamText] = {}
        self.readings: dict[Reading, None] = {}
        self.scope = anyio.CancelScope()


class JobOutput:
    """Reads the outputs of one client's jobs.

    Its task runs while there is something to read; it is owned by ``background``.

    Attributes:
        requests: windows read.
        queue_most, readers_most: the most jobs that ever waited, and were read, at a time.
    """

    def __init__(self, gateway: Gateway, background: Background, limits: OutputLimits) -> None:
        self._gateway = gateway
        self._background = background
        self._limits = limits
        self.cache = OutputCache(limits.cache_bytes)
        self.requests = 0
        self.queue_most = 0
        self.readers_most = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reset()

    def _reset(self) -> None:
        self._work: dict[JobKey, _Work] = {}
        self._queue: Turns[_Work] = Turns()
        self._outside: Turns[_Work] = Turns()
        self._readers = 0
        self._changed = asyncio.Event()
        self._reader = TailReader(
            self._gateway,
            anyio.CapacityLimiter(self._limits.concurrency),
            anyio.CapacityLimiter(_LARGE_FILES),
            self._count,
        )

    async def read(self, job: BackgroundJob, until: float) -> JobStreams:
        """Read both streams of a finished job; what cannot be read has its error on it.

        Args:
            job: the job.
            until: when this has to be done, on the clock of the loop.

        Raises:
            SandboxNotRunningError, SandboxNotFoundError: the sandbox is gone.
        """
        over = asyncio.Event()
        reading = self.request(job, over.set)
        try:
            with anyio.move_on_at(until):
                await over.wait()
            return reading.result() if reading.done else self.so_far(reading)
        finally:
            self.leave(reading)

    async def peek(self, job: BackgroundJob, until: float) -> JobStreams:
        """Read what a job that may still run has written so far; nothing of it is kept.

        Raises:
            SandboxNotRunningError, SandboxNotFoundError: the sandbox is gone.
        """
        self._belong_to_loop()
        work = _Work(job, keep=False)
        with anyio.move_on_at(until):
            result = await self._read(work)
            if not isinstance(result, JobStreams):
                raise result
        return _streams_of(work.found)

    def so_far(self, reading: Reading) -> JobStreams:
        """Return what has been read when the time is over; the rest has that as its error."""
        work = self._work.get(key_of(reading.job))
        return _streams_of({} if work is None else work.found)

    def request(self, job: BackgroundJob, told: Callable[[], None]) -> Reading:
        """Ask for the output of a job; ``told`` is called when it is there, until :meth:`leave`."""
        self._belong_to_loop()
        reading = Reading(job, told)
        cached = self._cached(key_of(job))
        if cached is not None:
            reading.settle(cached)
            return reading
        work = self._work.get(key_of(job))
        if work is None:
            work = self._work[key_of(job)] = _Work(job)
            self._outside.put(job.sandbox_id, work)
            self._admit()
        work.readings[reading] = None
        self._background.run("job output", self._drive)
        return reading

    def leave(self, reading: Reading) -> None:
        """Wait no longer; the last one to leave ends the reading."""
        key = key_of(reading.job)
        work = self._work.get(key)
        if work is None or reading not in work.readings:
            return
        del work.readings[reading]
        if work.readings:
            return
        sandbox_id = key[0]
        if self._outside.remove(sandbox_id, work) or self._queue.remove(sandbox_id, work):
            del self._work[key]
            self._admit()
        else:
            work.scope.cancel()

    def forget(self, sandbox_id: str) -> None:
        """Drop what was read from a sandbox that is gone."""
        self.cache.forget(sandbox_id)

    def _count(self) -> None:
        self.requests += 1

    def _cached(self, key: JobKey) -> JobStreams | None:
        """Return both streams if both are there: half of an output is read beside the other."""
        names = _stream_keys(key)
        if any(name not in self.cache for name in names):
            return None
        stdout, stderr = (self.cache.get(name) for name in names)
        assert stdout is not None
        assert stderr is not None
        return JobStreams(stdout, stderr)

    def _admit(self) -> None:
        """Let those into the queue for whom there is room."""
        while self._outside and len(self._queue) < self._limits.queue_size:
            work = self._outside.take()
            self._queue.put(work.job.sandbox_id, work)
        self.queue_most = max(self.queue_most, len(self._queue))
        self._changed.set()

    def _belong_to_loop(self) -> None:
        """Forget the waiters of a loop that is gone."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            self._reset()

    # The task.

    async def _drive(self) -> None:
        try:
            while self._work:
                async with anyio.create_task_group() as group:
                    while self._work:
                        while self._queue and self._readers < self._limits.concurrency:
                            work = self._queue.take()
                            self._readers += 1
                            self.readers_most = max(self.readers_most, self._readers)
                            self._admit()
                            group.start_soon(self._serve, work)
                        self._changed.clear()
                        await self._changed.wait()
        finally:
            self._fail_all()

    async def _serve(self, work: _Work) -> None:
        result: JobStreams | PrimeError | None = None
        try:
            with work.scope:
                result = await self._read(work)
        finally:
            self._readers -= 1
            self._changed.set()
        if result is None and work.readings:  # asked for again while it was being given up
            work.scope = anyio.CancelScope()
            self._outside.put(work.job.sandbox_id, work)
            self._admit()
            return
        del self._work[key_of(work.job)]
        if result is not None:
            for reading in list(work.readings):
                reading.settle(result)

    async def _read(self, work: _Work) -> JobStreams | PrimeError:
        found = work.found
        gone: list[PrimeError] = []
        job = work.job

        async def read(key: StreamKey, path: str) -> None:
            try:
                found[key[1]] = await self._stream(key, path, work)
            except (SandboxNotRunningError, SandboxNotFoundError) as error:
                gone.append(error)

        stdout, stderr = _stream_keys(key_of(job))
        async with anyio.create_task_group() as group:
            group.start_soon(read, stdout, job.stdout_log_file)
            group.start_soon(read, stderr, job.stderr_log_file)
        return gone[0] if gone else JobStreams(found["stdout"], found["stderr"])

    async def _stream(self, key: StreamKey, path: str, work: _Work) -> StreamText:
        cached = self.cache.get(key) if work.keep else None
        if cached is not None:
            return cached
        try:
            stream = await self._reader.read(work.job.sandbox_id, path)
        except SandboxFileNotFoundError as error:
            return StreamText("", error=_words(error))
        except (SandboxNotRunningError, SandboxNotFoundError):
            raise
        except PrimeError as error:
            return StreamText(None, error=_words(error))
        if work.keep:
            self.cache.put(key, stream)
        return stream

    def _fail_all(self) -> None:
        """End the waits that are left when the task is cancelled: the client is closed."""
        for work in list(self._work.values()):
            for reading in list(work.readings):
                reading.settle(
                    APIConnectionError("the client was closed while output was being read")
                )
        self._work.clear()


def _streams_of(found: dict[str, StreamText]) -> JobStreams:
    late = StreamText(None, error=_words(APITimeoutError("there was no time to read it")))
    return JobStreams(found.get("stdout", late), found.get("stderr", late))


def _stream_keys(key: JobKey) -> tuple[StreamKey, StreamKey]:
    return (key, "stdout"), (key, "stderr")


def _words(error: PrimeError) -> str:
    return f"{type(error).__name__}: {error}"
