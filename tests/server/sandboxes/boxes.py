"""Speaks HTTP and Connect to sandboxes with a bare session: no client of ours is in between."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import anyio

from prime_async.connect import Decoder, decode_end, encode_envelope
from prime_async.connect.failures import Failure
from prime_async.sandboxes.wire import (
    CommandSpec,
    Ended,
    Event,
    Started,
    StartRequest,
    TerminalSize,
    decode_event,
)
from tests.platform import RunningPlatform
from tests.server.sandboxes.double import DoubleRuntime, DoubleSandbox
from tests.server.wire import Reply, Wire

SERVICE = "command_session.CommandSession"


@dataclass
class Followed:
    """The answer to Start or Connect, event by event."""

    response: aiohttp.ClientResponse
    failure: Failure | None = None
    ended: bool = False

    async def events(self) -> AsyncIterator[Event]:
        decoder = Decoder()
        async for piece in self.response.content.iter_any():
            for frame in decoder.feed(piece):
                if frame.end:
                    self.failure = decode_end(frame.data)
                    self.ended = True
                    return
                event = decode_event(frame.data)
                assert event is not None
                yield event

    async def all(self) -> list[Event]:
        return [event async for event in self.events()]


class Boxes(Wire):
    """A session with a key; gateway paths begin with a sandbox's id."""

    def __init__(self, platform: RunningPlatform, runtime: DoubleRuntime | None = None) -> None:
        super().__init__(platform.url)
        self.platform = platform
        self.runtime = runtime
        self._access: dict[str, dict[str, Any]] = {}

    async def create(self, **fields: Any) -> str:
        """Make a sandbox and return its id."""
        body = {"name": "box", "docker_image": "ubuntu:24.04", **fields}
        reply = await self.post("/sandbox", body)
        assert reply.status == 200, reply
        self._access[reply.json["id"]] = reply.json["gatewayAuth"]
        made: str = reply.json["id"]
        return made

    async def running(self, **fields: Any) -> str:
        """Make a sandbox and wait until it runs."""
        sandbox_id = await self.create(**fields)
        await self.until(sandbox_id, "RUNNING")
        return sandbox_id

    async def until(self, sandbox_id: str, status: str) -> dict[str, Any]:
        """Wait until a sandbox has a status."""
        with anyio.fail_after(20):
            while True:
                found: dict[str, Any] = (await self.get(f"/sandbox/{sandbox_id}")).json
                if found["status"] == status:
                    return found
                await anyio.sleep(0.01)

    def box(self, sandbox_id: str) -> DoubleSandbox:
        """The sandbox behind the wire."""
        assert self.runtime is not None
        return self.runtime.sandboxes[sandbox_id]

    def gateway(self, sandbox_id: str) -> str:
        access = self._access[sandbox_id]
        return f"{access['gateway_url']}/{access['user_ns']}/{access['job_id']}"

    def token(self, sandbox_id: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._access[sandbox_id]['token']}"}

    async def reach(self, sandbox_id: str) -> None:
        """Ask for a token."""
        reply = await self.post(f"/sandbox/{sandbox_id}/auth")
        assert reply.status == 200, reply
        self._access[sandbox_id] = reply.json

    async def at(self, method: str, sandbox_id: str, path: str, **options: Any) -> Reply:
        """Send a request to a sandbox's gateway."""
        headers = {**self.token(sandbox_id), **options.pop("headers", {})}
        url = f"{self.gateway(sandbox_id)}{path}"
        async with self._session.request(method, url, headers=headers, **options) as response:
            return Reply(response.status, response.headers, await response.read())

    async def call(self, sandbox_id: str, rpc: str, message: Any) -> Reply:
        """Send a unary call."""
        data = b"" if message is None else message.encode()
        headers = {"Content-Type": "application/proto", "connect-protocol-version": "1"}
        return await self.at("POST", sandbox_id, f"/{SERVICE}/{rpc}", data=data, headers=headers)

    @asynccontextmanager
    async def stream(
        self, sandbox_id: str, rpc: str, message: Any, *, timeout_ms: int | None = None
    ) -> AsyncIterator[Followed]:
        """Open a stream; leaving the block closes its connection."""
        headers = {
            **self.token(sandbox_id),
            "Content-Type": "application/connect+proto",
            "connect-protocol-version": "1",
        }
        if timeout_ms is not None:
            headers["connect-timeout-ms"] = str(timeout_ms)
        response = await self._session.post(
            f"{self.gateway(sandbox_id)}/{SERVICE}/{rpc}",
            data=encode_envelope(message.encode()),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=30),
        )
        try:
            yield Followed(response)
        finally:
            response.close()

    async def end_all(self) -> None:
        """Leave no sandbox behind."""
        assert (await self.post("/local/end-all")).status == 200

    async def clear(self) -> None:
        """Leave nothing of the sandboxes so far: no checkpoints or volumes either."""
        await self.end_all()
        for volume in (await self.get("/sandbox/volumes")).json["volumes"]:
            assert (await self.delete(f"/sandbox/volumes/{volume['name']}")).status == 204
        for sandbox_id in self._access:
            await self.delete(f"/sandbox/{sandbox_id}/checkpoints")
        self._access.clear()

    async def sh(self, sandbox_id: str, command: str) -> str:
        """Run a shell command that has to succeed; what it wrote."""
        if not self._access[sandbox_id]["is_vm"]:
            body = {"command": command, "sandbox_id": sandbox_id, "timeout": 30}
            done = (await self.at("POST", sandbox_id, "/exec", json=body)).json
            assert done["exit_code"] == 0, (command, done)
            told: str = done["stdout"]
            return told
        events, failure = await self.run(sandbox_id, command)
        assert failure is None, failure
        assert isinstance(events[-1], Ended), events
        assert events[-1].exit_code == 0, (command, events)
        return written(events).decode()

    async def launch(self, sandbox_id: str, job_id: str, command: str) -> None:
        """Start a background job, with the files that clients and platform agree on."""
        job = f"/tmp/job_{job_id}"
        inner = (
            f"echo $$ > {job}.launch/pid; echo started; exec >/dev/null 2>&1; "
            f"({command}) > {job}.stdout.log 2> {job}.stderr.log; echo $? > {job}.exit"
        )
        script = f"mkdir {job}.launch && ack=$(nohup sh -c {shlex.quote(inner)} < /dev/null 2>&1 &)"
        await self.sh(sandbox_id, f'{script}; test "$ack" = started')

    async def jobs(self, *jobs: tuple[str, str]) -> Reply:
        """The statuses of jobs, given as sandbox and name."""
        body = [{"sandbox_id": sandbox_id, "job_id": job_id} for sandbox_id, job_id in jobs]
        return await self.post("/sandbox/background-jobs/status:batchGet", {"jobs": body})

    async def run(self, sandbox_id: str, command: str, **fields: Any) -> tuple[list[Event], Any]:
        """Run a shell command to its end; the events and how the stream failed."""
        timeout_ms = fields.pop("timeout_ms", None)
        message = start(command, **fields)
        async with self.stream(sandbox_id, "Start", message, timeout_ms=timeout_ms) as followed:
            assert followed.response.status == 200, await followed.response.read()
            events = await followed.all()
            assert followed.ended
            return events, followed.failure


def start(
    command: str,
    *,
    uuid: str | None = None,
    stdin: bool = False,
    pty: TerminalSize | None = None,
    **spec: Any,
) -> StartRequest:
    """A start of a shell command."""
    made = CommandSpec("/bin/bash", ("-c", command), **spec)
    return StartRequest(made, pty, stdin, uuid)


def written(events: list[Event], stream: str = "stdout") -> bytes:
    """What a command wrote."""
    return b"".join(event.data for event in events if getattr(event, "stream", None) == stream)


async def first(events: AsyncIterator[Event]) -> Started:
    """The first event, which has to be the start."""
    event = await anext(events)
    assert isinstance(event, Started)
    return event
