"""The commands of a sandbox's double: real processes, or plays.

See :mod:`tests.sandbox_double`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from prime_async.connect import STREAM_TYPE, Code, Decoder, Failure, encode_end, encode_envelope
from prime_async.sandboxes.wire import (
    CloseStdinRequest,
    ConnectRequest,
    Ended,
    Event,
    KeepAlive,
    Output,
    SendInputRequest,
    SendSignalRequest,
    Session,
    Started,
    StartRequest,
    encode_event,
)

__all__ = ["CommandDouble", "Play", "Running", "abort"]

Play = Callable[["Running"], AsyncIterator[Event | Failure | bytes]]


class Running:
    """A command."""

    def __init__(self, request: StartRequest) -> None:
        self.request = request
        self.process: asyncio.subprocess.Process | None = None
        self.events: list[Event] = []
        self.changed = asyncio.Event()
        self.signals: list[int] = []
        self.inputs: list[bytes] = []
        self.closed = False
        self.over: Ended | None = None

    def put(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Ended):
            self.over = event
        self.changed.set()
        self.changed = asyncio.Event()


class CommandDouble:
    """The part of the double that runs commands.

    Attributes:
        plays: scripted commands.
        running: commands by session id.
        lost_starts: how many starts lose their answer once the command has ended.
        streams_to_cut: how many streams are cut after their first output.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sandboxes: dict[str, dict[str, Any]] = {}
        self.plays: dict[str, Play] = {}
        self.running: dict[str, Running] = {}
        self.lost_starts = 0
        self.streams_to_cut = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def announced(self, response: web.StreamResponse) -> web.StreamResponse:
        """Add the features to an answer."""
        raise NotImplementedError

    async def end_commands(self) -> None:
        """Kill what runs."""
        for running in self.running.values():
            self._kill(running, signal.SIGKILL)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _exec(self, request: web.Request) -> web.Response:
        wire = await request.json()
        process = await asyncio.create_subprocess_exec(
            "/bin/bash",
            "-c",
            wire["command"],
            cwd=wire.get("working_dir") or self.folder,
            env={**os.environ, **wire.get("env", {})},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        stdout, stderr = await process.communicate()
        return web.json_response(
            {
                "stdout": stdout.decode("utf-8", "replace"),
                "stderr": stderr.decode("utf-8", "replace"),
                "exit_code": process.returncode,
            }
        )

    async def _start(self, request: web.Request) -> web.StreamResponse:
        box = self.sandboxes.get(request.match_info["job"])
        if box is not None and box["vm"] is False:
            return web.Response(status=404)
        frames = Decoder().feed(await request.read())
        start = StartRequest.decode(frames[0].data)
        if box is None or box["status"] != "RUNNING":
            return await self._stream(request, [encode_end(Failure(Code.NOT_FOUND, "gone"))])
        name = start.session_uuid or uuid.uuid4().hex
        running = self.running.get(name)
        if running is None:
            running = self.running[name] = Running(start)
            await self._launch(running)
        if self.lost_starts:
            self.lost_starts -= 1
            while running.over is None:
                await running.changed.wait()
            abort(request)
        return await self._follow(request, running, 0)

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        frames = Decoder().feed(await request.read())
        running = self._session(ConnectRequest.decode(frames[0].data).session)
        if running is None:
            return await self._stream(request, [encode_end(Failure(Code.NOT_FOUND, "none"))])
        started = next(event for event in running.events if isinstance(event, Started))
        first = running.over or KeepAlive()
        return await self._follow(request, running, len(running.events), [started, first])

    async def _launch(self, running: Running) -> None:
        command = running.request.command
        play = self.plays.get(command.args[-1])
        if play is not None:
            running.put(Started(4242))
            return
        running.process = process = await asyncio.create_subprocess_exec(
            command.cmd,
            *command.args,
            cwd=command.cwd or self.folder,
            env={**os.environ, **command.envs},
            stdin=asyncio.subprocess.PIPE if running.request.stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        running.put(Started(process.pid))
        self._spawn(self._pump(running, process))

    async def _pump(self, running: Running, process: asyncio.subprocess.Process) -> None:
        async def copy(name: Any, reader: asyncio.StreamReader) -> None:
            while piece := await reader.read(2**16):
                running.put(Output(name, piece))

        assert process.stdout is not None
        assert process.stderr is not None
        copies = asyncio.gather(copy("stdout", process.stdout), copy("stderr", process.stderr))
        code = await process.wait()
        # What descendants still hold open does not hold the end back.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(copies, 0.5)
        running.put(Ended(code, code >= 0, f"exit status {code}"))

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stream(self, request: web.Request, frames: list[bytes]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": STREAM_TYPE})
        self.announced(response)
        await response.prepare(request)
        for frame in frames:
            await response.write(frame)
        await response.write_eof()
        return response

    async def _follow(
        self,
        request: web.Request,
        running: Running,
        position: int,
        first: list[Event] | None = None,
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": STREAM_TYPE})
        self.announced(response)
        await response.prepare(request)
        play = self.plays.get(running.request.command.args[-1])
        if play is not None:
            async for event in play(running):
                await response.write(_framed(event))
            await response.write_eof()
            return response
        for event in first or []:
            await response.write(_framed(event))
        deadline = _deadline(request)
        while running.over is None or position < len(running.events):
            if position == len(running.events):
                left = deadline - time.monotonic()
                try:
                    await asyncio.wait_for(running.changed.wait(), max(0.0, min(left, 30)))
                except TimeoutError:
                    if time.monotonic() >= deadline:
                        self._kill(running, signal.SIGKILL)
                        failure = Failure(Code.DEADLINE_EXCEEDED, "out of time")
                        await response.write(encode_end(failure))
                        return response
                    await response.write(_framed(KeepAlive()))
                continue
            await response.write(_framed(running.events[position]))
            position += 1
            if self.streams_to_cut and position > 1:
                self.streams_to_cut -= 1
                abort(request)
        await response.write(encode_end())
        await response.write_eof()
        return response

    async def _signal(self, request: web.Request) -> web.Response:
        message = SendSignalRequest.decode(await request.read())
        running = self._session(message.session)
        if running is None or running.over is not None:
            return _failed(Code.NOT_FOUND)
        running.signals.append(message.signal)
        self._kill(running, message.signal)
        return web.Response(content_type="application/proto")

    def _kill(self, running: Running, number: int) -> None:
        if running.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.process.pid, number)

    async def _input(self, request: web.Request) -> web.Response:
        message = SendInputRequest.decode(await request.read())
        running = self._session(message.session)
        if running is None or running.over is not None or running.closed:
            return _failed(Code.NOT_FOUND)
        running.inputs.append(message.data)
        if running.process is not None:
            assert running.process.stdin is not None
            running.process.stdin.write(message.data)
            await running.process.stdin.drain()
        return web.Response(content_type="application/proto")

    async def _close_stdin(self, request: web.Request) -> web.Response:
        running = self._session(CloseStdinRequest.decode(await request.read()).session)
        if running is None:
            return _failed(Code.NOT_FOUND)
        running.closed = True
        if running.process is not None and running.process.stdin is not None:
            running.process.stdin.close()
        return web.Response(content_type="application/proto")

    async def _update(self, request: web.Request) -> web.Response:
        return web.Response(content_type="application/proto")

    def _session(self, session: Session) -> Running | None:
        if session.session_uuid is not None:
            return self.running.get(session.session_uuid)
        for running in self.running.values():
            if running.process is not None and running.process.pid == session.pid:
                return running
        return None


def _deadline(request: web.Request) -> float:
    header = request.headers.get("connect-timeout-ms")
    return time.monotonic() + (float("inf") if header is None else int(header) / 1000)


def _framed(event: Event | Failure | bytes) -> bytes:
    if isinstance(event, bytes):
        return event
    if isinstance(event, Failure):
        return encode_end(event)
    return encode_envelope(encode_event(event))


def _failed(code: Code) -> web.Response:
    failure = Failure(code, "no such session")
    return web.Response(body=failure.to_json(), status=code.status, content_type="application/json")


def abort(request: web.Request) -> None:
    """Cut the connection of a request."""
    assert request.transport is not None
    request.transport.abort()
    raise asyncio.CancelledError
