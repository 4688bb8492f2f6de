"""The answer to ``StartMany``: several commands of one sandbox, their events in one stream."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio
from aiohttp import web

from prime_async.connect import STREAM_TYPE, Code, Failure, encode_end, encode_envelope
from prime_async.sandboxes.wire import (
    Ended,
    Event,
    KeepAlive,
    NumberedEvent,
    Output,
    StreamName,
    TimedStart,
    encode_events,
)
from prime_async.server.runtimes.protocol import OutputStream
from prime_async.server.sandboxes.fleet import Live
from prime_async.server.sandboxes.refusals import GatewayError, translated
from prime_async.server.sandboxes.sessions import Session
from prime_async.server.sandboxes.streams import READ_BYTES, failure_of

__all__ = ["follow_many"]

_HELD_BYTES = 1024 * 1024
"""Output that waits for the client; the commands wait beyond."""

_SHORT_SECONDS = 0.02
"""How long a command runs before its output is read: most have ended, and need one look."""

_GATHER_SECONDS = 0.002
"""How long events wait for others, to be written and read together."""


class _Writer:
    """Writes the events of all commands to one answer: what comes together goes out together."""

    def __init__(self, response: web.StreamResponse) -> None:
        self._response = response
        self._ready: list[NumberedEvent] = []
        self._held = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._last = False

    async def send(self, number: int, event: Event | Failure) -> None:
        """Send an event; waits while too much waits already."""
        self._ready.append((number, event))
        self._news.set()
        if isinstance(event, Output):
            self._held += len(event.data)
            while self._held > _HELD_BYTES:
                self._room.clear()
                await self._room.wait()

    def finish(self) -> None:
        """Nothing more is sent."""
        self._last = True
        self._news.set()

    async def run(self, keep_alive: float) -> None:
        """Write until the last event is out; say that the connection lives when there is none."""
        while self._ready or not self._last:
            if not self._ready:
                with suppress(TimeoutError):
                    async with asyncio.timeout(keep_alive):
                        await self._news.wait()
                        await asyncio.sleep(_GATHER_SECONDS)
            self._news.clear()
            if not self._last or self._ready:
                await self._write(self._ready or [(0, KeepAlive())])
        await self._response.write(encode_end(None))
        await self._response.write_eof()

    async def _write(self, events: list[NumberedEvent]) -> None:
        self._ready, self._held = [], 0
        self._room.set()
        await self._response.write(encode_envelope(encode_events(events)))


async def follow_many(
    request: web.Request, live: Live, commands: tuple[TimedStart, ...], *, keep_alive: float
) -> web.StreamResponse:
    """Start commands and send what happens to each, until all of them have ended.

    They have ids: when the client goes away they go on, as any command with an id does.
    """
    response = web.StreamResponse(headers={"Content-Type": STREAM_TYPE})
    await response.prepare(request)
    writer = _Writer(response)
    try:
        async with anyio.create_task_group() as around:
            around.start_soon(writer.run, keep_alive)
            async with anyio.create_task_group() as group:
                for number, command in enumerate(commands):
                    group.start_soon(_follow, writer, live, number, command)
            writer.finish()
    except* ConnectionError as errors:
        raise ConnectionResetError("the client went away") from errors
    return response


async def _follow(writer: _Writer, live: Live, number: int, command: TimedStart) -> None:
    seconds = None if command.timeout_ms is None else command.timeout_ms / 1000
    try:
        session = await live.sessions.start(command.start, seconds)
    except Exception as error:
        refused = translated(error, live.running.id, rpc=True)
        if refused is None:
            raise
        await writer.send(number, _failure(refused))
        return
    attachment = await session.take()
    with session.attach(attachment):
        with attachment.scope:
            await writer.send(number, await session.resume(None))
            with anyio.move_on_after(_SHORT_SECONDS):
                await session.finished.wait()
            await _pump_both(writer, number, session)
            await session.finished.wait()
        failure = failure_of(session, live.running, cut=attachment.replaced)
    await writer.send(number, failure or _end_of(session))


async def _pump_both(writer: _Writer, number: int, session: Session) -> None:
    command = session.command
    name: StreamName = "pty" if command.pty else "stdout"
    if session.end is not None:
        # What it wrote is there, to its end: neither can hold up the other.
        await _pump(writer, number, name, command.stdout)
        await _pump(writer, number, "stderr", command.stderr)
        return
    async with anyio.create_task_group() as group:
        group.start_soon(_pump, writer, number, name, command.stdout)
        group.start_soon(_pump, writer, number, "stderr", command.stderr)


async def _pump(writer: _Writer, number: int, name: StreamName, stream: OutputStream) -> None:
    while data := await stream.read(READ_BYTES):
        await writer.send(number, Output(name, data))


def _end_of(session: Session) -> Ended:
    assert session.end is not None
    return session.end


def _failure(error: Exception) -> Failure:
    if isinstance(error, GatewayError):
        return Failure(Code(error.code), error.message)
    return Failure(Code.UNAVAILABLE, str(error))
