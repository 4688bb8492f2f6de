"""What calls give to be held: runs, processes, their streams, commands.

They are opened on a stub that a test can bend afterwards; every public call of theirs is listed.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import prime_async.runs
import prime_sync.runs
from prime_async import (
    AsyncCommandStream,
    AsyncProcessStream,
    AsyncRun,
    AsyncSandboxProcess,
    PrimeTracesError,
)
from prime_async.connect import STREAM_TYPE, encode_end, encode_envelope
from prime_async.sandboxes.wire import Ended, Event, Output, Started, encode_event
from tests.faces import Face, awaited
from tests.rules.arguments import SANDBOX
from tests.runs.opening import ONCE, trace
from tests.runs.platform_double import PlatformDouble
from tests.stub import Answer, Stub

__all__ = [
    "FUNCTIONS",
    "HANDLES",
    "HANDLE_CALLS",
    "NO_SECONDS",
    "HandleCall",
    "fill",
    "functions_of",
    "opened",
    "plain",
    "speaks_sandbox",
]

HANDLES = (AsyncRun, AsyncSandboxProcess, AsyncProcessStream, AsyncCommandStream)

NO_SECONDS = {
    "AsyncRun.alog_episodes": "`put_timeout` of the run says how long it waits for room",
    "AsyncRun.alog_metrics": "as alog_episodes",
    "AsyncRun.alog_samples": "as alog_episodes",
    "AsyncRun.alog_traces": "as alog_episodes",
    "AsyncSandboxProcess.aclose": "it has a budget of its own: 5 seconds for each of two signals",
    "AsyncSandboxProcess.detach": "it sends nothing",
    "AsyncCommandStream.aclose": "it ends the command, within 3 seconds",
    "AsyncCommandStream.outputs": "`timeout` of the call that made it ends it",
    "AsyncCommandStream.wait": "as outputs",
}
"""Coroutines of handles without ``timeout=``, and why."""

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "data": {"data": b"input"},
    "number": {"number": 15},
    "cols": {"cols": 80, "rows": 24},
    "metrics": {"metrics": {"loss": 0.5}},
    "traces": {"traces": [trace("t")]},
    "episodes": {"episodes": [{"id": "e", "traces": []}]},
    "samples": {"samples": [{"example_id": 1, "completion": "x" * 200}]},
    "error": {"error": "why"},
}
_NOT_GIVEN = {"AsyncRun.finish": {"error"}}


FUNCTIONS = ("init", "sync_runs", "watch_runs")
"""Public asynchronous functions that send something."""


class HandleCall:
    """One coroutine, or iteration, of one kind of handle."""

    def __init__(self, kind: type, name: str) -> None:
        self.kind = kind
        self.name = name
        self._parameters = list(inspect.signature(getattr(kind, name)).parameters)
        self.takes_timeout = "timeout" in self._parameters

    def __repr__(self) -> str:
        return f"{self.kind.__name__}.{self.name}"

    @property
    def of_traces(self) -> bool:
        """Whether all it raises is of the family that traces and runs have."""
        return self.kind is AsyncRun

    async def on(self, handle: Any, **more: Any) -> Any:
        """Carry it out; an iteration is read to its end."""
        given: dict[str, Any] = {}
        for name in self._parameters:
            if name not in _NOT_GIVEN.get(repr(self), ()):
                given |= _ARGUMENTS.get(name, {})
        made = getattr(handle, self.name)(**given, **more)
        if hasattr(made, "__aiter__"):
            return [item async for item in made]
        return await made


HANDLE_CALLS = [
    HandleCall(kind, name)
    for kind in HANDLES
    for name, member in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_")
    and (inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member))
]


def speaks_sandbox(stub: Stub, *written: bytes, ends: bool = False) -> None:
    """Let a stub have a sandbox whose commands write this, and then end, or run on in silence."""
    access = {
        "gateway_url": f"{stub.url}/gw",
        "user_ns": "ns",
        "job_id": SANDBOX,
        "token": "sandbox-token",
        "expires_at": "2100-01-01T00:00:00Z",
        "is_vm": True,
    }
    stub.route("POST", f"/api/v1/sandbox/{SANDBOX}/auth", Answer(json=access))
    events: list[Event] = [Started(7), *(Output("stdout", data) for data in written)]
    if ends:
        events.append(Ended(0, exited=True))
    pieces = [encode_envelope(encode_event(event)) for event in events]
    pieces += [encode_end()] if ends else []
    answer = Answer(
        headers={"Content-Type": STREAM_TYPE}, pieces=pieces, end="keep" if ends else "silent"
    )
    stub.route("POST", "/gw/.*/Start", answer)


@asynccontextmanager
async def opened(kind: type, face: Face, stub: Stub, **options: Any) -> AsyncIterator[Any]:
    """Give a handle that the stub has opened.

    Args:
        options: of ``init``, for a run; ``seconds`` is the time of a command.
    """
    if kind is AsyncRun:
        async with _run(face, stub, options) as run:
            yield run
        return
    speaks_sandbox(stub, b"line\n")
    async with face.AsyncSandboxClient() as client:
        if kind is AsyncCommandStream:
            seconds = options.get("seconds", 60)
            async with client.stream_command(SANDBOX, "true", timeout=seconds) as stream:
                yield stream
            return
        process = await client.open_process(SANDBOX, "true", pty=(80, 24))
        yield process if kind is AsyncSandboxProcess else process.stdout
        await process.detach()


class functions_of:
    """The functions of a face that runs are opened and delivered with, in their async form."""

    def __init__(self, face: Face) -> None:
        self._face = face

    def __getattr__(self, name: str) -> Any:
        if self._face.name == "async":
            return getattr(prime_async.runs, name)
        return awaited(getattr(prime_sync.runs, name))


def fill(run: Any) -> int:
    """Log to a run until its queue takes nothing more; return how many records it took."""
    while not run.dropped_records:
        run.log_metrics(_ARGUMENTS["metrics"]["metrics"])
    return int(run.stats().counts.queued)


async def plain(given: Any) -> Any:
    """Take what a plain function returned: the sync face is asked in a thread."""
    return await given if inspect.isawaitable(given) else given


@asynccontextmanager
async def _run(face: Face, stub: Stub, options: dict[str, Any]) -> AsyncIterator[Any]:
    PlatformDouble(stub)
    given = {"model": "m", "environments": ["math"], "retry": ONCE, **options}
    given.pop("seconds", None)
    run = await functions_of(face).init(**given)
    try:
        yield run
    finally:
        with contextlib.suppress(PrimeTracesError):
            await run.finish(timeout=0)
