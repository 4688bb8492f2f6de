"""Starting jobs: once, however often it has to be tried."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

import anyio

from prime_async.errors import (
    APIError,
    APITimeoutError,
    CommandTimeoutError,
    PrimeError,
    TransportError,
    UsageError,
)
from prime_async.localfiles import WINDOW
from prime_async.sandboxes.commands import CommandOptions
from prime_async.sandboxes.gateway import Gateway
from prime_async.sandboxes.jobs.handles import check_job_id, new_job_id
from prime_async.sandboxes.jobs.models import BackgroundJob
from prime_async.sandboxes.jobs.script import COMMAND_VARIABLE, launch_script, uploaded_command
from prime_async.sandboxes.models import CommandResponse
from prime_async.sandboxes.pace import Pace
from prime_async.sandboxes.running import execute
from prime_async.sandboxes.uploads import Upload
from prime_async.transport import time_left

__all__ = ["Launch"]

_TRIES = 4
_FIRST_DELAY = 0.5
_TRY_SECONDS = 30.0
_VARIABLE_BYTES = 96 * 1024
"""A longer command is uploaded; Linux has 128 KiB for one variable."""

_LONGEST_VARIABLE = 128 * 1024 - 1
_ALL_VARIABLES = 1536 * 1024
"""Of the 2 MiB that Linux has for variables and arguments of a program by default."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Launch:
    """A job to be started, checked.

    Attributes:
        job: its handle.
        options: the command and where and as whom it runs.
    """

    job: BackgroundJob
    options: CommandOptions

    @classmethod
    def checked(
        cls,
        sandbox_id: str,
        command: str,
        working_dir: str | None,
        env: Mapping[str, str] | None,
        user: str | None,
        job_id: str | None,
    ) -> Launch:
        """Check everything before anything is sent.

        Raises:
            UsageError: names the argument.
        """
        options = CommandOptions.checked(command, working_dir, env, None, user)
        _check_variables(options.env)
        name = new_job_id() if job_id is None else check_job_id(job_id)
        return cls(BackgroundJob.of(sandbox_id, name), options)

    async def run(self, gateway: Gateway, until: float) -> BackgroundJob:
        """Start it, trying again as long as it is not known whether it runs: the sandbox starts it
        once.

        Raises:
            SandboxNotRunningError, SandboxNotFoundError: there is nothing to start it in.
            APIError: it could not be started; ``.ambiguous`` when it may have been.
        """
        delay = _FIRST_DELAY
        for left in reversed(range(_TRIES)):
            try:
                answer = await self._try(gateway, until)
                break
            except PrimeError as error:
                if isinstance(error, APIError) and left < _TRIES - 1:
                    error.ambiguous = True  # an earlier try may have started it
                if not left or not _worth_repeating(error) or _over(until, delay):
                    failed = self._failed(error)
                    raise failed from (error.__cause__ if failed is error else error)
            await anyio.sleep(delay)
            delay *= 2
        if answer.exit_code != 0:
            raise APIError(
                f"job {self.job.job_id} did not start in sandbox {self.job.sandbox_id}: "
                f"{answer.stderr.strip() or f'exit code {answer.exit_code}'}",
                code="job_not_started",
            )
        return self.job

    async def _try(self, gateway: Gateway, until: float) -> CommandResponse:
        command = self.options.command.encode()
        uploaded = len(command) > _VARIABLE_BYTES
        variables = dict(self.options.env)
        if uploaded:
            await self._upload(gateway, command, until)
        else:
            variables[COMMAND_VARIABLE] = self.options.command
        folder = self.options.working_dir
        options = CommandOptions(
            launch_script(self.job.job_id, folder, uploaded=uploaded),
            # The job goes there by itself; a user may have no home to start in.
            "/" if folder is not None and folder.startswith("/") else None,
            variables,
            self.options.user,
            seconds=min(_TRY_SECONDS, time_left(until)),
        )
        return await execute(gateway, self.job.sandbox_id, options, None)

    async def _upload(self, gateway: Gateway, command: bytes, until: float) -> None:
        async def windows(offset: int) -> AsyncGenerator[bytes, None]:
            for start in range(offset, len(command), WINDOW):
                yield command[start : start + WINDOW]

        path = uploaded_command(self.job.job_id)
        seconds = None if math.isinf(until) else time_left(until)
        pace = Pace(seconds, len(command), None)
        await Upload(gateway, self.job.sandbox_id, path, windows, len(command), pace).run()

    def _failed(self, error: PrimeError) -> PrimeError:
        """Return the error of the last try about the job, not about the script."""
        if not isinstance(error, CommandTimeoutError):
            return error
        return APITimeoutError(
            f"starting job {self.job.job_id} in sandbox {self.job.sandbox_id} took longer than "
            f"{error.timeout:g} s",
            seconds=error.timeout,
            ambiguous=True,
            hint="start it again with the same job_id: it runs once",
        )


def _check_variables(env: Mapping[str, str]) -> None:
    total = 0
    for name, value in env.items():
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"env has the name {name!r}, which no shell variable can have", field="env"
            )
        if name == COMMAND_VARIABLE:
            raise UsageError(f"env has the name {name!r}, which starts jobs itself", field="env")
        size = len(name) + len(value.encode("utf-8", "replace")) + 1
        total += size
        if size > _LONGEST_VARIABLE:
            raise UsageError(
                f"env[{name!r}] has {size} bytes; Linux has {_LONGEST_VARIABLE} for a variable",
                field="env",
                hint="upload a file in its place",
            )
    if total > _ALL_VARIABLES:
        raise UsageError(
            f"env has {total} bytes in all; {_ALL_VARIABLES} are allowed",
            field="env",
            hint="upload a file in its place",
        )


def _worth_repeating(error: PrimeError) -> bool:
    if isinstance(error, CommandTimeoutError):
        return True
    if not isinstance(error, APIError) or error.spent:
        return False
    return isinstance(error, TransportError) or error.ambiguous or error.retryable


def _over(until: float, delay: float) -> bool:
    return anyio.current_time() + delay >= until
