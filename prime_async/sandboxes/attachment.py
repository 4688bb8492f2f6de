"""The connection to a running process, made again when it breaks."""

from __future__ import annotations

import logging
import uuid

import anyio

from prime_async.connect import Code
from prime_async.errors import APIError, PrimeError, ProtocolError, TransportError
from prime_async.sandboxes.gateway import Gateway, Link
from prime_async.sandboxes.killing import kill_session
from prime_async.sandboxes.progress import Progress
from prime_async.sandboxes.rpc import EventStream, code_of
from prime_async.sandboxes.wire import (
    CommandSpec,
    ConnectRequest,
    Ended,
    Event,
    Output,
    Received,
    Rpc,
    Session,
    Started,
    StartRequest,
    TerminalSize,
)

__all__ = ["LIFETIME", "Attachment"]

LIFETIME = 86_400.0
"""Seconds a process may run at most."""

_log = logging.getLogger(__name__)

_TRIES = 5
_FIRST_DELAY = 0.5


class Attachment:
    """One process and the stream of its events.

    Attributes:
        session: its name at the gateway.
        reconnects: how often the stream was opened again.
        progress: how much of its outputs has arrived.
    """

    def __init__(self, gateway: Gateway, sandbox_id: str, session: Session) -> None:
        self.sandbox_id = sandbox_id
        self.session = session
        self.reconnects = 0
        self.progress = Progress(Received())
        self._gateway = gateway
        self._start: StartRequest | None = None
        self._stream: EventStream | None = None
        self._pid: int | None = None
        self._ended = False

    @property
    def pid(self) -> int:
        """The process id; known once it is open."""
        assert self._pid is not None
        return self._pid

    @classmethod
    async def start(
        cls, gateway: Gateway, sandbox_id: str, command: CommandSpec, pty: TerminalSize | None
    ) -> Attachment:
        """Start a process and wait until it runs.

        Raises:
            APIError, SandboxNotRunningError: it could not be started.
        """
        name = str(uuid.uuid4())
        made = cls(gateway, sandbox_id, Session(session_uuid=name))
        made._start = StartRequest(command, pty, stdin=True, session_uuid=name)
        try:
            await made._open()
        except BaseException as error:
            if not isinstance(error, PrimeError) or getattr(error, "ambiguous", False):
                await kill_session(gateway, sandbox_id, made.session)
            raise
        return made

    @classmethod
    async def attach(cls, gateway: Gateway, sandbox_id: str, session: Session) -> Attachment:
        """Attach to a process that runs.

        Raises:
            APIError: there is none (``code`` is ``not_found``).
        """
        made = cls(gateway, sandbox_id, session)
        made.progress = Progress(None)
        await made._open()
        return made

    async def next(self) -> Event:
        """Return the next event, over broken connections.

        Raises:
            APIError: the connection cannot be made again.
            SandboxNotRunningError: the sandbox ended.
        """
        delay = _FIRST_DELAY
        failures = 0
        while True:
            try:
                event = await self._read()
            except PrimeError as error:
                await self.aclose()
                failures += 1
                if failures > _TRIES or not _may_pass(error):
                    # No such session, or no such sandbox any more.
                    doubtful = code_of(error) is Code.NOT_FOUND
                    await self._gateway.explain(self.sandbox_id, error, doubtful=doubtful)
                    raise
                await anyio.sleep(delay)
                delay *= 2
                self.reconnects += 1
                continue
            if isinstance(event, Ended):
                self._ended = True
                await self.aclose()
            return event

    async def aclose(self) -> None:
        """Close the stream."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.aclose()

    async def _open(self) -> None:
        """Wait for the first event, which names the process."""
        event = await self.next()
        if not isinstance(event, Started):
            await self.aclose()
            raise ProtocolError(
                f"a process in sandbox {self.sandbox_id} began with something else than its start"
            )
        self._pid = event.pid

    async def _read(self) -> Event:
        while True:
            if self._stream is None:
                self._stream = await self._gateway.call(self.sandbox_id, self._connect)
            event = await self._stream.next()
            if event is None:
                raise TransportError(
                    f"the stream of a process in sandbox {self.sandbox_id} ended before it did",
                    retryable=True,
                )
            if isinstance(event, Started):
                if self._pid is None:
                    return await self._began(event)
                self._go_on(event)  # said again to who attaches
            elif isinstance(event, Output):
                if kept := self.progress.take(event):
                    return kept
            else:
                return event

    async def _began(self, event: Started) -> Event:
        """Take the first event there is."""
        if self._start is None or event.at is None:
            self.progress.begin(event.at)
        elif any(event.at):
            # The answer to an earlier try was lost on its way, with output in it: ask again.
            await self.aclose()
        return event

    def _go_on(self, event: Started) -> None:
        gap = self.progress.go_on(event.at)
        if any(gap):
            _log.warning(
                "process %d in sandbox %s: the connection broke, and %d bytes that it wrote "
                "meanwhile are lost",
                event.pid,
                self.sandbox_id,
                sum(gap),
            )

    async def _connect(self, link: Link) -> EventStream:
        if self._start is not None and self._pid is None:
            stream = EventStream(link, Rpc.START, self._start.encode(), LIFETIME, repeatable=True)
        else:
            message = ConnectRequest(self.session, self.progress.have).encode()
            stream = EventStream(link, Rpc.CONNECT, message, LIFETIME, repeatable=True)
        await stream.open()
        return stream


def _may_pass(error: PrimeError) -> bool:
    """Say whether opening the stream again may help."""
    if not isinstance(error, APIError) or error.spent:
        return False
    if isinstance(error, TransportError):
        return True
    return error.retryable or code_of(error) in (Code.UNAVAILABLE, Code.INTERNAL, Code.ABORTED)
