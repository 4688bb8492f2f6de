"""A command while it runs, line by line as it writes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from prime_async.connect import Code
from prime_async.errors import APIError, APITimeoutError, CommandTimeoutError, UsageError
from prime_async.requests import given, read_record
from prime_async.sandboxes.commands import Command, CommandOptions, response_of
from prime_async.sandboxes.gateway import Gateway, Link
from prime_async.sandboxes.models import CommandResponse
from prime_async.sandboxes.output import LineCutter, OutputLine, Tail
from prime_async.sandboxes.rpc import code_of
from prime_async.transport import Replay, Response

__all__ = ["AsyncCommandStream"]

_REST_GRACE = 5.0
_TIMED_OUT = 408


class AsyncCommandStream:
    """A command while it runs: iterate over its lines, then read :attr:`result`."""

    def __init__(self, gateway: Gateway, sandbox_id: str, options: CommandOptions) -> None:
        self._gateway = gateway
        self._sandbox_id = sandbox_id
        self._options = options
        self._result: CommandResponse | None = None
        self._lines: AsyncGenerator[OutputLine, None] | None = None
        self._given_up = False
        self._command: Command | None = None

    @property
    def result(self) -> CommandResponse:
        """What it wrote and its exit code; there after the last line.

        Raises:
            UsageError: it has not ended, or its output was not read to the end.
        """
        if self._result is None and self._given_up:
            raise UsageError(
                "the command has no result: reading it was given up midway, which ended it",
                hint="read its lines to the end, or call wait() without reading any",
            )
        if self._result is None:
            raise UsageError("the command has no result yet", hint="read its lines to the end")
        return self._result

    async def wait(self) -> CommandResponse:
        """Pass over the remaining lines and return the result.

        Raises:
            CommandTimeoutError: its time was over.
            SandboxNotRunningError: the sandbox ended.
            APIError: it could not be run, or its output broke off.
        """
        async for _ in self:
            pass
        return self.result

    async def aclose(self) -> None:
        """End the command and everything it started, unless it has ended."""
        if self._lines is None:
            return
        if not _is_running(self._lines):
            await self._lines.aclose()
        elif self._command is not None:  # another task waits for the next line just now
            await self._command.stop()

    async def __aiter__(self) -> AsyncIterator[OutputLine]:
        """Yield the lines as they are written; raises as :meth:`wait`.

        One reads at a time: a second one is a usage error.
        """
        if self._lines is None:
            self._lines = self._read()
        elif _is_running(self._lines):
            raise UsageError(
                "the lines of this command are being read already",
                hint="read them in one place; leave its iteration before wait()",
            )
        async for line in self._lines:
            yield line

    async def _read(self) -> AsyncGenerator[OutputLine, None]:
        cutters = {"stdout": LineCutter("stdout"), "stderr": LineCutter("stderr")}
        try:
            async with aclosing(self.outputs()) as outputs:
                async for name, data in outputs:
                    for line in cutters[name].feed(data):
                        yield line
        except BaseException as error:
            self._given_up = not isinstance(error, Exception)
            raise
        for cutter in cutters.values():
            for line in cutter.finish():
                yield line

    async def outputs(self) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield what the command writes as it comes: ``"stdout"`` or ``"stderr"``, and the bytes.

        Raises as :meth:`wait`; a container tells it all at its end.
        """
        if not self._gateway.known_container(self._sandbox_id):
            command = self._command = Command(self._gateway, self._sandbox_id, self._options)
            try:
                async with aclosing(command.outputs()) as outputs:
                    async for output in outputs:
                        yield ("stderr" if output.stream == "stderr" else "stdout", output.data)
                if not command.stopped:
                    self._result = command.result()
                return
            except APIError as error:
                if not await _is_container(self._gateway, self._sandbox_id, error):
                    raise
        self._result = await _execute_in_container(self._gateway, self._sandbox_id, self._options)
        yield "stdout", self._result.stdout_bytes
        yield "stderr", self._result.stderr_bytes


def _is_running(lines: AsyncGenerator[OutputLine, None]) -> bool:
    """Say whether somebody waits for the next line just now."""
    return bool(getattr(lines, "ag_running", False))


async def _is_container(gateway: Gateway, sandbox_id: str, error: APIError) -> bool:
    """Say whether a gateway does not know the service because the sandbox is a container."""
    return code_of(error) is Code.UNIMPLEMENTED and await gateway.is_container(sandbox_id)


async def _execute_in_container(
    gateway: Gateway, sandbox_id: str, options: CommandOptions
) -> CommandResponse:
    body = {
        "command": options.command,
        "working_dir": options.working_dir,
        "env": dict(options.env),
        "sandbox_id": sandbox_id,
        "timeout": options.seconds if options.seconds != float("inf") else None,
        "user": options.user,
    }

    async def send(link: Link) -> Response:
        return await link.transport.request(
            "POST",
            f"{link.path}/exec",
            json=given(body),
            headers=link.headers,
            timeout=options.seconds + _REST_GRACE,
            replay=Replay.NEVER,
        )

    try:
        response = await gateway.call(sandbox_id, send)
    except APIError as error:
        if isinstance(error, APITimeoutError) or error.status == _TIMED_OUT:
            raise CommandTimeoutError(sandbox_id, options.command, options.seconds) from error
        raise
    return _limited(read_record(response, CommandResponse), options)


def _limited(answer: CommandResponse, options: CommandOptions) -> CommandResponse:
    tails: list[Any] = []
    for text in (answer.stdout, answer.stderr):
        tail = Tail(options.max_output_bytes)
        tail.add(text.encode("utf-8", "replace"))
        tails.append(tail)
    return response_of(tails[0], tails[1], answer.exit_code, answer.elapsed)
