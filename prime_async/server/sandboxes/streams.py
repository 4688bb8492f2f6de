"""The answer to ``Start`` and ``Connect``: a session's events, as fast as the client takes them."""

from __future__ import annotations

from typing import Literal

import anyio
from aiohttp import web

from prime_async.connect import STREAM_TYPE, Code, Failure, encode_end, encode_envelope
from prime_async.sandboxes.wire import (
    Event,
    KeepAlive,
    Output,
    Received,
    StreamName,
    encode_event,
)
from prime_async.server.runtimes.protocol import OutputStream, RunningSandbox
from prime_async.server.sandboxes.sessions import Session

__all__ = ["READ_BYTES", "EventWriter", "failure_of", "follow"]

READ_BYTES = 256 * 1024


class EventWriter:
    """Writes events to one answer; waits while the client does not read."""

    def __init__(
        self, response: web.StreamResponse, answer_to: Literal["Start", "Connect"]
    ) -> None:
        self._response = response
        self._answer_to = answer_to
        # Two pumps and the keep-alive write to one answer.
        self._turn = anyio.Lock()
        self._quiet = True

    async def send(self, event: Event) -> None:
        """Send an event."""
        data = encode_envelope(encode_event(event, self._answer_to))
        async with self._turn:
            self._quiet = False
            await self._response.write(data)

    async def end(self, failure: Failure | None) -> None:
        """Send the end of the stream."""
        async with self._turn:
            await self._response.write(encode_end(failure))
            await self._response.write_eof()

    async def keep_alive(self, seconds: float) -> None:
        """Say that the connection lives, whenever nothing was sent for so long."""
        while True:
            self._quiet = True
            await anyio.sleep(seconds)
            if self._quiet:
                await self.send(KeepAlive())


async def follow(
    request: web.Request,
    running: RunningSandbox,
    session: Session,
    *,
    answer_to: Literal["Start", "Connect"],
    keep_alive: float,
    seconds: float | None = None,
    received: Received | None = None,
) -> web.StreamResponse:
    """Send a session's start, its output and its end.

    Args:
        keep_alive: seconds of silence after which a sign of life is sent.
        seconds: when to stop following; the command goes on.
        received: what the client has of its outputs already.
    """
    response = web.StreamResponse(headers={"Content-Type": STREAM_TYPE})
    attachment = await session.take()
    with session.attach(attachment):
        # aiohttp would add a charset otherwise, which the official client takes for another type.
        await response.prepare(request)
        writer = EventWriter(response, answer_to)
        with attachment.scope, anyio.move_on_after(seconds) as limit:
            await writer.send(await session.resume(received))
            try:
                await _pump_all(writer, session, keep_alive)
            except* ConnectionError as errors:
                raise ConnectionResetError("the client went away") from errors
        failure = failure_of(session, running, late=limit.cancelled_caught, cut=attachment.replaced)
        if failure is None and session.end is not None:
            await writer.send(session.end)
        await writer.end(failure)
    return response


async def _pump_all(writer: EventWriter, session: Session, keep_alive: float) -> None:
    command = session.command
    async with anyio.create_task_group() as around:
        around.start_soon(writer.keep_alive, keep_alive)
        async with anyio.create_task_group() as pumps:
            pumps.start_soon(_pump, writer, "pty" if command.pty else "stdout", command.stdout)
            pumps.start_soon(_pump, writer, "stderr", command.stderr)
        await session.finished.wait()
        around.cancel_scope.cancel()


async def _pump(writer: EventWriter, name: StreamName, stream: OutputStream) -> None:
    while data := await stream.read(READ_BYTES):
        await writer.send(Output(name, data))


def failure_of(
    session: Session, running: RunningSandbox, *, late: bool = False, cut: bool = False
) -> Failure | None:
    """Say why a stream ends in another way than with the end of its command; None if it does not.

    Args:
        late: the time of the stream is over.
        cut: another client follows the session now.
    """
    ended = running.end
    killed = session.end is None or not session.end.exited
    if ended is not None and killed and not session.late:
        return Failure(Code.NOT_FOUND, f"sandbox {running.id} has ended: {ended.message}")
    if session.late or late:
        return Failure(Code.DEADLINE_EXCEEDED, "the time of the command is over; it was ended")
    if cut:
        # A code that the clients do not answer by coming back, which would go on for ever.
        return Failure(Code.FAILED_PRECONDITION, "another client follows this session now")
    if session.end is None:
        return Failure(Code.UNAVAILABLE, "the platform is shutting down")
    return None
