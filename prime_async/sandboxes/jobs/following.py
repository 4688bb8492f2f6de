"""Reading what a job writes while it runs: exact bytes from an offset on, to its end."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncGenerator
from typing import Literal

import anyio

from prime_async.errors import APIError, APITimeoutError, ProtocolError, SandboxFileNotFoundError
from prime_async.sandboxes.commands import CommandOptions
from prime_async.sandboxes.gateway import Gateway
from prime_async.sandboxes.jobs.handles import key_of
from prime_async.sandboxes.jobs.models import BackgroundJob, JobOutputChunk
from prime_async.sandboxes.jobs.script import bytes_script
from prime_async.sandboxes.jobs.statuses import JobStatuses
from prime_async.sandboxes.jobs.windows import Window, read_window, split_bytes
from prime_async.sandboxes.running import execute

__all__ = ["Follower"]

_WINDOW = 2**20
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_COMMAND_SECONDS = 30.0
_REPLACED = "\ufffd"

Name = Literal["stdout", "stderr"]


class Follower:
    """Follows one job.

    Args:
        gateway: the way to its sandbox.
        statuses: tells when it has ended.
        job: the job.
        offsets: where to begin in each stream.
        until: when to give up, on the clock of the loop; `seconds` is how long that was.
    """

    def __init__(
        self,
        gateway: Gateway,
        statuses: JobStatuses,
        job: BackgroundJob,
        offsets: dict[Name, int],
        until: float,
        seconds: float,
    ) -> None:
        self._gateway = gateway
        self._statuses = statuses
        self._job = job
        self._offsets = offsets
        self._until = until
        self._seconds = seconds

    async def chunks(self) -> AsyncGenerator[JobOutputChunk, None]:
        """Yield the pieces of both streams as they are written.

        Raises:
            APITimeoutError: the time was over first.
            SandboxFileNotFoundError: the output has been deleted.
            SandboxNotRunningError: the sandbox ended.
            APIError: it cannot be read, or is shorter than it was.
        """
        ended = asyncio.Event()
        (waiter,) = await self._statuses.subscribe([key_of(self._job)], lambda _: ended.set())
        pause = _FIRST_PAUSE
        try:
            while True:
                last = waiter.done  # before the look: what was written before the end is seen
                longest = 0
                names: tuple[Name, Name] = ("stdout", "stderr")
                for name in names:
                    try:
                        chunk = await self._next(name, last=last)
                    except SandboxFileNotFoundError:
                        if last:
                            waiter.result()  # nothing is known of the job: this says why
                        raise
                    if chunk is not None:
                        longest = max(longest, len(chunk.data))
                        self._offsets[name] = chunk.end
                        yield chunk
                if last and not longest:
                    waiter.result()
                    return
                pause = _FIRST_PAUSE if longest else min(_LONGEST_PAUSE, pause * 1.5)
                if not last and longest < _WINDOW // 2:
                    with anyio.move_on_at(min(self._until, anyio.current_time() + pause)):
                        await ended.wait()
        finally:
            self._statuses.looks.leave(waiter)

    async def _next(self, name: Name, *, last: bool) -> JobOutputChunk | None:
        """Return the next piece of a stream, or None when there is none now."""
        if anyio.current_time() >= self._until:
            raise self._late()
        with anyio.move_on_at(self._until):
            data = await self._data(name, last=last)
            return JobOutputChunk(name, self._offsets[name], data) if data else None
        raise self._late()

    async def _data(self, name: Name, *, last: bool) -> bytes:
        job, offset = self._job, self._offsets[name]
        path = job.stdout_log_file if name == "stdout" else job.stderr_log_file
        try:
            window = await read_window(self._gateway, job.sandbox_id, path, offset, _WINDOW)
        except SandboxFileNotFoundError:
            if last or offset:
                raise
            return b""  # it has been started this very moment
        if window.total_size is not None and window.total_size < offset:
            raise APIError(
                f"{path!r} has {window.total_size} bytes now, fewer than the {offset} that were "
                "read: it was cut",
                code="output_cut",
            )
        data = _exact(window, offset, last=last)
        return await self._exactly(path, offset, window.size) if data is None else data

    async def _exactly(self, path: str, offset: int, length: int) -> bytes:
        """Read bytes that text cannot carry."""
        script = bytes_script(path, offset, min(length, _WINDOW))
        options = CommandOptions(script, seconds=_COMMAND_SECONDS)
        answer = await execute(self._gateway, self._job.sandbox_id, options, None)
        try:
            return base64.b64decode("".join(answer.stdout.split()), validate=True)
        except binascii.Error as error:
            raise ProtocolError(f"reading {path!r} gave something else than base64") from error

    def _late(self) -> APITimeoutError:
        return APITimeoutError(
            f"job {self._job.job_id} of sandbox {self._job.sandbox_id} did not end within "
            f"{self._seconds:g} s",
            seconds=self._seconds,
            hint="follow it again from the offset behind the last chunk",
        )


def _exact(window: Window, offset: int, *, last: bool) -> bytes | None:
    """Return the bytes behind the text of a window, or None when the text does not tell them.

    The beginning of a character whose rest is still to come is left for the next window.
    """
    text = window.content
    rest = split_bytes(text, window.size)
    whole_file = window.total_size is None
    reached = whole_file or (window.offset or 0) + window.size >= (window.total_size or 0)
    if rest and not (last and reached):
        text = text[:-1]
    if _REPLACED in text:
        return None
    data = text.encode()
    return data[offset:] if whole_file else data
