"""`AsyncSandboxProcess`: a command beside the caller, with input, signals and a terminal."""

from __future__ import annotations

import math
import signal as signals
import uuid
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

import anyio

from prime_async.connect import Code
from prime_async.errors import APIError, APITimeoutError, PrimeError, ProtocolError, UsageError
from prime_async.requests import check_range
from prime_async.sandboxes.attachment import Attachment
from prime_async.sandboxes.demand import Demand, Unread
from prime_async.sandboxes.gateway import Gateway
from prime_async.sandboxes.progress import Progress
from prime_async.sandboxes.rpc import code_of, unary
from prime_async.sandboxes.wire import (
    CloseStdinRequest,
    Rpc,
    SendInputRequest,
    SendSignalRequest,
    TerminalSize,
    UpdateRequest,
)
from prime_async.transport import check_timeout, deadline

__all__ = ["AsyncProcessStream", "AsyncSandboxProcess", "terminal_size"]

_INPUT_BYTES = 256 * 1024
_INPUT_SECONDS = 30.0
_CONTROL_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
_MAX_SIGNAL = 64
_MAX_SIZE = 65_535
_ENDED = (Code.NOT_FOUND, Code.FAILED_PRECONDITION)


class AsyncProcessStream:
    """The bytes a process writes to one stream; read them by iterating or with :meth:`read`.

    They are taken from the connection when somebody asks for them. While one stream is read, up to
    8 MiB of the other wait; if nobody reads that one, its oldest bytes go and are counted in
    :attr:`dropped_bytes`.
    """

    def __init__(self, demand: Demand, unread: Unread, progress: Progress) -> None:
        self._demand = demand
        self._unread = unread
        self._progress = progress

    @property
    def dropped_bytes(self) -> int:
        """Bytes that went because nobody read them."""
        return self._unread.dropped

    @property
    def missing_bytes(self) -> int | None:
        """Bytes that went because the connection was lost for longer than the platform keeps what
        it writes (its newest 1 MiB); None when it was lost on a platform that does not tell.
        """
        missing = self._progress.missing
        if missing is None:
            return None
        return missing.stdout if self._unread is self._demand.stdout else missing.stderr

    async def read(self, *, timeout: float | None = None) -> bytes:
        """Return the next bytes as soon as there are any; b"" when the process has ended.

        Args:
            timeout: seconds; None waits as long as it runs.

        Raises:
            APITimeoutError: it wrote nothing in time.
            APIError: the connection is lost and cannot be made again.
            SandboxNotRunningError: the sandbox ended.
        """
        with deadline(check_timeout(timeout, math.inf), "reading what a process writes"):
            return await self._demand.read(self._unread)
        raise AssertionError("a deadline that is over raises")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the bytes as they come; raises as :meth:`read`.

        While this goes on nothing of the stream is dropped: the other one waits for it.
        """
        self._unread.readers += 1
        try:
            while piece := await self.read():
                yield piece
        finally:
            self._unread.readers -= 1


class AsyncSandboxProcess:
    """A running process; made by ``open_process`` and ``attach_process``.

    ``async with`` ends it when the block ends.
    """

    def __init__(self, gateway: Gateway, attachment: Attachment, *, pty: bool) -> None:
        self._gateway = gateway
        self._attachment = attachment
        self._pty = pty
        self._demand = Demand(attachment.next)
        self._input = anyio.Lock()
        self._stdin_closed = False
        self._detached = False

    def __repr__(self) -> str:
        return (
            f"AsyncSandboxProcess(sandbox_id={self.sandbox_id!r}, pid={self._attachment.pid}, "
            f"returncode={self.returncode})"
        )

    @property
    def sandbox_id(self) -> str:
        """The sandbox it runs in."""
        return self._attachment.sandbox_id

    @property
    def session_id(self) -> str | None:
        """The name ``attach_process`` finds it by; None when it was attached by its process id."""
        return self._attachment.session.session_uuid

    @property
    def pid(self) -> int:
        """Its process id in the sandbox."""
        return self._attachment.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code as far as it was read (128 + N or -N where signal N ended it), or None."""
        return None if self._demand.end is None else self._demand.end.exit_code

    @property
    def stdout(self) -> AsyncProcessStream:
        """What it writes; on a terminal, all of it."""
        return AsyncProcessStream(self._demand, self._demand.stdout, self._attachment.progress)

    @property
    def stderr(self) -> AsyncProcessStream:
        """What it writes to its error stream; nothing on a terminal."""
        return AsyncProcessStream(self._demand, self._demand.stderr, self._attachment.progress)

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and made again.

        The embedded platform goes on exactly where it broke off, also after its server was killed
        and started again; what it could not keep is counted in ``missing_bytes`` of the streams.
        """
        return self._attachment.reconnects

    async def write_stdin(self, data: bytes, *, timeout: float | None = None) -> None:
        """Write to its input, all of it and in the order of the calls.

        Args:
            data: bytes; on a terminal as if they were typed.
            timeout: seconds in all; default 30 for each 256 KiB.

        Raises:
            BrokenPipeError: it has ended, or its input is closed.
            APITimeoutError: time was over; how much of it was written is not known.
            APIError: the gateway refuses it.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise UsageError(f"data is a {type(data).__name__}, not bytes", field="data")
        view = memoryview(data)
        pieces = range(0, len(view), _INPUT_BYTES)
        seconds = check_timeout(timeout, _INPUT_SECONDS * max(len(pieces), 1))
        with deadline(seconds, f"writing to process {self.pid}"):
            async with self._input:
                for start in pieces:
                    await self._write(bytes(view[start : start + _INPUT_BYTES]))

    async def close_stdin(self, *, timeout: float | None = None) -> None:
        """Say that no more input comes: it reads the end of its input.

        Args:
            timeout: seconds in all, the writes before it included; default 10.

        Raises:
            APIError: the gateway cannot do this (``code`` is ``unimplemented``).
        """
        seconds = check_timeout(timeout, _CONTROL_SECONDS)
        message = CloseStdinRequest(self._attachment.session).encode()
        with deadline(seconds, f"closing the input of process {self.pid}"):
            async with self._input:
                if self._stdin_closed or self.returncode is not None:
                    return
                try:
                    await self._control(Rpc.CLOSE_STDIN, message, seconds)
                except APIError as error:
                    if code_of(error) is Code.UNIMPLEMENTED:
                        error.hint = (
                            "this platform has no end of input; send what the program ends by"
                        )
                    raise
                self._stdin_closed = True

    async def send_signal(self, number: int, *, timeout: float | None = None) -> None:
        """Send a signal to it and everything it started; nothing happens when it has ended.

        Args:
            number: 1 to 64; platforms other than the embedded one may know 9 and 15 only.
            timeout: seconds in all; default 10.

        Raises:
            APIError: the gateway refuses it.
        """
        check_range("number", int(number), 1, _MAX_SIGNAL)
        seconds = check_timeout(timeout, _CONTROL_SECONDS)
        if self.returncode is not None:
            return
        request = SendSignalRequest(self._attachment.session, int(number), str(uuid.uuid4()))
        await self._control(Rpc.SEND_SIGNAL, request.encode(), seconds)

    async def terminate(self, *, timeout: float | None = None) -> None:
        """Ask it to end (SIGTERM); see :meth:`send_signal`."""
        await self.send_signal(signals.SIGTERM, timeout=timeout)

    async def kill(self, *, timeout: float | None = None) -> None:
        """End it (signal 9); see :meth:`send_signal`."""
        await self.send_signal(9, timeout=timeout)

    async def resize(self, cols: int, rows: int, *, timeout: float | None = None) -> None:
        """Give its terminal another size.

        Raises:
            UsageError: it has no terminal, or the size is out of range.
            APIError: the gateway refuses it.
        """
        if not self._pty:
            raise UsageError("this process has no terminal", hint="open it with pty=(cols, rows)")
        size = terminal_size((cols, rows))
        message = UpdateRequest(self._attachment.session, size).encode()
        await self._control(Rpc.UPDATE, message, check_timeout(timeout, _CONTROL_SECONDS))

    async def wait(self, *, timeout: float | None = None) -> int:
        """Wait until it has ended and return its exit code.

        What it writes meanwhile is kept up to 8 MiB per stream, for reading afterwards.

        Args:
            timeout: seconds; None waits as long as it runs.

        Raises:
            APITimeoutError: it still runs.
            APIError: the connection is lost and cannot be made again.
            SandboxNotRunningError: the sandbox ended.
        """
        with deadline(check_timeout(timeout, math.inf), f"process {self.pid}"):
            await self._demand.until_over()
        if self._demand.error is not None:
            raise self._demand.error
        code = self.returncode
        if code is None:
            raise ProtocolError(f"process {self.pid} ended without an exit code")
        return code

    async def detach(self) -> None:
        """Leave it running and close the connection; ``attach_process`` finds it again."""
        self._detached = True
        await self._attachment.aclose()

    async def aclose(self) -> None:
        """End it: SIGTERM, after 5 seconds signal 9; does nothing when it has ended."""
        try:
            if not self._detached and not self._demand.over:
                await self._end()
        finally:
            with anyio.CancelScope(shield=True):
                await self._attachment.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):  # what was started is ended, whoever goes away
            await self.aclose()

    async def _end(self) -> None:
        for number in (int(signals.SIGTERM), 9):
            try:
                await self.send_signal(number)
                await self.wait(timeout=_CLOSE_SECONDS)
            except PrimeError as error:
                if code_of(error) in _ENDED:
                    return
                if number == 9 and not isinstance(error, APITimeoutError):
                    raise
            else:
                return

    async def _write(self, piece: bytes) -> None:
        if self._stdin_closed or self.returncode is not None:
            raise BrokenPipeError("the process has ended or its input is closed")
        request = SendInputRequest(self._attachment.session, piece, self._pty, str(uuid.uuid4()))
        try:
            await unary(
                self._gateway,
                self.sandbox_id,
                Rpc.SEND_INPUT,
                request.encode(),
                timeout=_INPUT_SECONDS,
            )
        except APIError as error:
            if code_of(error) in _ENDED:
                raise BrokenPipeError("the process has ended") from error
            raise

    async def _control(self, rpc: Rpc, message: bytes, seconds: float) -> None:
        try:
            with deadline(seconds, f"asking process {self.pid}"):  # a new token included
                await unary(self._gateway, self.sandbox_id, rpc, message, timeout=seconds)
        except APIError as error:
            if code_of(error) not in _ENDED:
                raise


def terminal_size(size: tuple[int, int]) -> TerminalSize:
    """Check a size in columns and rows.

    Raises:
        UsageError: out of range.
    """
    if not isinstance(size, tuple) or len(size) != 2:
        raise UsageError(f"pty is {size!r}, not (columns, rows)", field="pty")
    check_range("cols", size[0], 1, _MAX_SIZE)
    check_range("rows", size[1], 1, _MAX_SIZE)
    return TerminalSize(*size)
