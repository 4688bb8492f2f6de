"""One command in a sandbox: started, read to its end, and ended with everything it started when
the caller goes away or its time is over.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

from prime_async.connect import Code
from prime_async.errors import (
    APIError,
    APITimeoutError,
    CommandTimeoutError,
    PrimeError,
    ProtocolError,
    SandboxNotRunningError,
    UsageError,
)
from prime_async.sandboxes.gateway import Gateway, Link
from prime_async.sandboxes.killing import kill_session
from prime_async.sandboxes.models import CommandResponse
from prime_async.sandboxes.output import DEFAULT_OUTPUT_BYTES, Tail
from prime_async.sandboxes.requests import check_environment
from prime_async.sandboxes.rpc import EventStream, code_of
from prime_async.sandboxes.wire import CommandSpec, Ended, Event, Output, Rpc, Session, StartRequest

__all__ = [
    "Command",
    "CommandOptions",
    "DEFAULT_COMMAND_SECONDS",
    "PartialOutput",
    "partial_output",
    "response_of",
]

DEFAULT_COMMAND_SECONDS = 300.0
"""Seconds a command has by default."""

_SERVER_GRACE = 0.25  # the service ends the command itself; it is faster and knows its last words
_SHELL = "/bin/bash"
_LAST_SIGNAL = 64


@dataclass(frozen=True, slots=True)
class PartialOutput:
    """What a command had written when it was given up, and after how many seconds."""

    stdout: str
    stderr: str
    elapsed: float


def partial_output(error: BaseException) -> PartialOutput | None:
    """Return what a command had written before an exception ended the wait for it.

    Looks at the exception and its causes, so that it finds what is attached to a cancellation
    behind a ``TimeoutError`` too.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        found = getattr(current, "partial_output", None)
        if isinstance(found, PartialOutput):
            return found
        current = current.__cause__ or current.__context__
    return None


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """What to run, checked.

    Attributes:
        seconds: how long it may take; infinity is no limit.
        max_output_bytes: how much of each stream is kept.
    """

    command: str
    working_dir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    seconds: float = DEFAULT_COMMAND_SECONDS
    max_output_bytes: int = DEFAULT_OUTPUT_BYTES

    @classmethod
    def checked(
        cls,
        command: str,
        working_dir: str | None,
        env: Mapping[str, str] | None,
        timeout: float | None,
        user: str | None,
        max_output_bytes: int | None = None,
    ) -> CommandOptions:
        """Check everything before anything is sent.

        Raises:
            UsageError: names the argument.
        """
        for name, value in (("command", command), ("working_dir", working_dir), ("user", user)):
            _check_text(name, value, optional=name != "command")
        check_environment("env", env)
        limit = DEFAULT_OUTPUT_BYTES if max_output_bytes is None else max_output_bytes
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
            raise UsageError(
                f"max_output_bytes is {max_output_bytes!r}; it must be a whole number of bytes",
                field="max_output_bytes",
            )
        return cls(command, working_dir, dict(env or {}), user, _seconds(timeout), limit)

    def spec(self) -> CommandSpec:
        """Return what the service is told to run."""
        # The shell would take such a text for an option of its own.
        before = ("-c", "--") if self.command.startswith(("-", "+")) else ("-c",)
        return CommandSpec(_SHELL, (*before, self.command), self.env, self.working_dir, self.user)


def _check_text(name: str, value: object, *, optional: bool) -> None:
    if value is None and optional:
        return
    if not isinstance(value, str):
        raise UsageError(f"{name} is a {type(value).__name__}, not text", field=name)
    if not value.strip():
        raise UsageError(f"{name} is empty", field=name)
    if "\0" in value:
        raise UsageError(f"{name} has a NUL in it, which no command can have", field=name)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name} is not valid text ({error.reason})", field=name) from error


def _seconds(timeout: float | None) -> float:
    if timeout is None:
        return DEFAULT_COMMAND_SECONDS
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise UsageError(
            f"timeout is {timeout!r}; it must be a number of seconds",
            field="timeout",
            hint="0 and math.inf mean unlimited",
        )
    return float(timeout) or math.inf


class Command:
    """One run of a command through the service.

    Args:
        gateway: the way to the sandbox.
        options: what to run.

    Attributes:
        stopped: it was ended by :meth:`stop`.
    """

    def __init__(self, gateway: Gateway, sandbox_id: str, options: CommandOptions) -> None:
        self._gateway = gateway
        self._sandbox_id = sandbox_id
        self._options = options
        self._session = Session(session_uuid=str(uuid.uuid4()))
        self._stdout = Tail(options.max_output_bytes)
        self._stderr = Tail(options.max_output_bytes)
        self._began = time.monotonic()
        self._end: Ended | None = None
        self._stream: EventStream | None = None
        self._sent = False
        self._opened = False
        self.stopped = False

    @property
    def elapsed(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._began

    async def outputs(self) -> AsyncGenerator[Output, None]:
        """Start it and yield what it writes; afterwards :meth:`result` tells the rest.

        Left early, cancelled or out of time, it ends the command and everything it started.

        Raises:
            CommandTimeoutError: its time was over.
            SandboxNotRunningError: the sandbox ended.
            APIError: it could not be started, or its output broke off.
        """
        deadline = anyio.current_time() + self._options.seconds + _SERVER_GRACE
        try:
            with _until(deadline):
                self._stream = await self._open()
            self._opened = True
            while True:
                output = self._here(self._stream)
                if output is None:
                    with _until(deadline):
                        output = await self._next(self._stream)
                if output is None:
                    break
                yield output
        except BaseException as error:
            if self.stopped and isinstance(error, Exception):
                return
            raised = await self._give_up(error)
            if raised is not error:
                raise raised from error
            raise
        finally:
            if self._stream is not None:
                await self._stream.aclose()

    async def run_grouped(self) -> bool:
        """Run it to its end in one request with others that are started just now; False when it has
        to be run by :meth:`outputs`, alone.

        Cancelled or out of time, it ends the command and everything it started. Raises as
        :meth:`outputs`.
        """
        seconds = self._options.seconds
        ran = False
        try:
            with _until(anyio.current_time() + seconds + _SERVER_GRACE):
                ran = await self._gateway.groups.run(
                    self._sandbox_id, self._request(), seconds, self._is_sent, self._noted
                )
        except BaseException as error:
            raised = await self._give_up(error)
            if raised is not error:
                raise raised from error
            raise
        return ran

    async def stop(self) -> None:
        """End the command while another task reads its output, which then ends quietly."""
        self.stopped = True
        if self._sent and self._end is None:
            await kill_session(self._gateway, self._sandbox_id, self._session)
        if self._stream is not None:
            await self._stream.aclose()

    def result(self) -> CommandResponse:
        """Return what it wrote and how it ended.

        Raises:
            ProtocolError: it has not ended.
        """
        if self._end is None:
            raise self._unfinished()
        return response_of(self._stdout, self._stderr, _exit_code(self._end), self.elapsed)

    async def _open(self) -> EventStream:
        """Send the start; with a fresh token when the first one is refused."""
        message = self._request().encode()

        async def send(link: Link) -> EventStream:
            stream = EventStream(link, Rpc.START, message, self._options.seconds, repeatable=False)
            self._is_sent()
            await stream.open()
            return stream

        return await self._gateway.call(self._sandbox_id, send)

    def _request(self) -> StartRequest:
        return StartRequest(self._options.spec(), stdin=False, session_uuid=self._uuid())

    def _is_sent(self) -> None:
        self._sent = True

    async def _next(self, stream: EventStream) -> Output | None:
        while (event := await stream.next()) is not None:
            output = self._noted(event)
            if output is not None:
                return output
        if self._end is None:
            raise self._unfinished()
        return None

    def _here(self, stream: EventStream) -> Output | None:
        """Return output that has arrived already: no limit on waiting has to be set up for it."""
        while (event := stream.take()) is not None:
            output = self._noted(event)
            if output is not None:
                return output
        return None

    def _noted(self, event: Event) -> Output | None:
        self._opened = True
        if isinstance(event, Ended):
            self._end = event
        elif isinstance(event, Output):
            (self._stderr if event.stream == "stderr" else self._stdout).add(event.data)
            return event
        return None

    def _uuid(self) -> str:
        assert self._session.session_uuid is not None
        return self._session.session_uuid

    async def _give_up(self, error: BaseException) -> BaseException:
        """End the command, and say which error is to be raised."""
        late = isinstance(error, _OutOfTimeError) or code_of(error) is Code.DEADLINE_EXCEEDED
        told = True
        if self._may_run(error):
            told = await kill_session(self._gateway, self._sandbox_id, self._session)
        raised: BaseException = error
        if isinstance(error, PrimeError | _OutOfTimeError):
            raised = await self._explained(error, late=late, told=told)
        self._attach(raised)
        return raised

    def _may_run(self, error: BaseException) -> bool:
        """Say whether the command may be running in the sandbox after this error."""
        if not self._sent or self._end is not None or isinstance(error, SandboxNotRunningError):
            return False
        refused = isinstance(error, APIError) and not error.ambiguous
        return self._opened or not refused

    async def _explained(self, error: Exception, *, late: bool, told: bool) -> BaseException:
        command = self._options.command
        gone = code_of(error) is Code.NOT_FOUND
        shown: PrimeError = error if isinstance(error, PrimeError) else APITimeoutError(str(error))
        try:
            if not isinstance(error, SandboxNotRunningError):
                await self._gateway.explain(self._sandbox_id, shown, command=command, gone=gone)
        except SandboxNotRunningError as ended:
            return ended
        if not late:
            if self._opened and isinstance(error, APIError):
                error.ambiguous = True
                error.hint = error.hint or "it may have been carried out"
            elif isinstance(error, SandboxNotRunningError):
                error.command = error.command or command
            return error
        return CommandTimeoutError(
            self._sandbox_id,
            command,
            self._options.seconds,
            hint=None if told else "the sandbox is unreachable: it could not be told to end it",
        )

    def _attach(self, error: BaseException) -> None:
        output = PartialOutput(self._stdout.text(), self._stderr.text(), self.elapsed)
        error.partial_output = output  # type: ignore[attr-defined]  # read by partial_output()
        if isinstance(error, CommandTimeoutError | SandboxNotRunningError):
            error.stdout, error.stderr, error.elapsed = (
                output.stdout,
                output.stderr,
                output.elapsed,
            )

    def _unfinished(self) -> ProtocolError:
        return ProtocolError(
            f"the output of a command in sandbox {self._sandbox_id} stopped without its exit code",
            ambiguous=True,
            hint="it may have been carried out",
        )


def response_of(stdout: Tail, stderr: Tail, exit_code: int, elapsed: float) -> CommandResponse:
    """Make the result of a command that has ended."""
    return CommandResponse(
        stdout=stdout.text(),
        stderr=stderr.text(),
        exit_code=exit_code,
        stdout_truncated=stdout.truncated,
        stderr_truncated=stderr.truncated,
        stdout_size=stdout.size,
        stderr_size=stderr.size,
        elapsed=elapsed,
    ).with_bytes(stdout.data(), stderr.data())


def _exit_code(end: Ended) -> int:
    """Say how it ended as a shell does, also where the service tells a signal as a negative one.

    -1 is no signal: nobody could tell how it ended.
    """
    if not end.exited and -_LAST_SIGNAL <= end.exit_code < -1:
        return 128 - end.exit_code
    return end.exit_code


class _OutOfTimeError(Exception):
    """Our own clock ended the wait."""


@contextmanager
def _until(moment: float) -> Iterator[None]:
    with anyio.move_on_at(moment) as scope:
        yield
    if scope.cancelled_caught:
        raise _OutOfTimeError("the time of the command is over")
