"""Rule 3: cancel. What was started ends, nothing is left running, and it can be gone on with."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from prime_async import AsyncRun, AsyncSandboxProcess
from tests.cli.harness import COMMAND
from tests.evals.pushing import numbered, write_jsonl
from tests.official_stub import EVALUATION, OfficialStub
from tests.rules.calls import ALL_CALLS
from tests.rules.handles import HANDLE_CALLS, fill, functions_of, opened
from tests.rules.surfaces import PythonSurface, Surface, leave_on_disk
from tests.rules.table import scenario
from tests.stub import Answer, Request

SILENT = Answer(status=0, end="silent")
IN_TIME = 15.0
"""Seconds: a process has to start, on a busy machine."""


@dataclass
class Ended:
    """How a program ended that got a Ctrl-C."""

    code: int | None
    out: str
    err: str


@scenario(3, shows=("eval push",))
async def test_a_push_that_is_interrupted_can_be_gone_on_with(
    surface: Surface, indexed: OfficialStub, tmp_path: Path
) -> None:
    """It ends at once, sends nothing more, and ``sync`` delivers what is missing, once."""
    path = write_jsonl(tmp_path / "samples.jsonl", numbered(6, size=700_000))

    stuck = asyncio.Event()

    def first_only(request: Request) -> Answer:
        if not indexed.stored:
            return indexed.push(request)
        stuck.set()
        return SILENT

    indexed.route("POST", ".*/samples", first_only)
    async with asyncio.timeout(IN_TIME):
        await INTERRUPT[surface.name](indexed, stuck, path)
    sent = len(indexed.requests)
    async with asyncio.timeout(IN_TIME):
        while indexed.open_connections:
            await asyncio.sleep(0)
    assert len(indexed.requests) == sent
    assert 0 < len(indexed.stored) < 6

    indexed.route("POST", ".*/samples", indexed.push)
    assert (await surface.sync()).ok
    assert indexed.ids == list(range(6))


async def _cancel_a_task(stub: OfficialStub, stuck: asyncio.Event, path: Path) -> None:
    from prime_async import AsyncEvalsClient

    others = asyncio.all_tasks()
    async with AsyncEvalsClient() as client:
        push = asyncio.create_task(client.push_samples(EVALUATION, path))
        await stuck.wait()
        push.cancel()
        with pytest.raises(asyncio.CancelledError):
            await push
        assert push.cancelled()
        of_the_stub = set(stub._tasks)
        assert asyncio.all_tasks() - others - of_the_stub == set(), "tasks are left running"


SCRIPT = """
    import asyncio, sys
    from prime_sync import EvalsClient
    from prime_sync._bridge import BRIDGE

    async def tasks():
        return len(asyncio.all_tasks())

    client = EvalsClient()
    idle = BRIDGE.call(tasks())
    try:
        client.push_samples(sys.argv[1], sys.argv[2])
    except KeyboardInterrupt:
        print("interrupted,", BRIDGE.call(tasks()) - idle, "tasks left")
        client.close()
        raise
"""


async def _interrupt_a_script(stub: OfficialStub, stuck: asyncio.Event, path: Path) -> None:
    script = [sys.executable, "-c", textwrap.dedent(SCRIPT), EVALUATION, str(path)]
    ended = await _ctrl_c(stuck, *script)
    assert ended.code == -signal.SIGINT, "Python ends by the signal it did not handle"
    assert ended.out == "interrupted, 0 tasks left\n"
    assert ended.err.splitlines()[-1] == "KeyboardInterrupt"
    assert "Task" not in ended.err


async def _interrupt_a_command(stub: OfficialStub, stuck: asyncio.Event, path: Path) -> None:
    words = ["--eval-id", EVALUATION, "--env", "env", "--no-finalize"]
    ended = await _ctrl_c(stuck, COMMAND, "eval", "push", str(path), *words)
    assert (ended.code, ended.out) == (130, "")
    what, then = ended.err.splitlines()
    assert what == "error: interrupted"
    assert f"go on with `prime-async eval push {path} --no-finalize --resume`" in then


INTERRUPT = {
    "async": _cancel_a_task,
    "sync": _interrupt_a_script,
    "command": _interrupt_a_command,
}


async def _ctrl_c(stuck: asyncio.Event, *program: str) -> Ended:
    """Run a program, interrupt it when its push is stuck, and wait for its end."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *program, stdout=pipe, stderr=pipe, env=dict(os.environ)
    )
    try:
        await stuck.wait()
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ended(process.returncode, out.decode(), err.decode())


@pytest.mark.usefixtures("quick_cleaning")
@scenario(
    3,
    shows=ALL_CALLS,
    not_sync="a thread cannot be cancelled: Ctrl-C is what ends a call, see above",
    not_command="the same: Ctrl-C, see above",
)
async def test_cancelling_is_cancelling(surface: PythonSurface, official: OfficialStub) -> None:
    """Every public call, once its request is there: cancelled, not failed; no task is left."""
    await leave_on_disk(official)
    official.route("*", ".*", SILENT)
    for call in ALL_CALLS:
        others = asyncio.all_tasks()
        async with getattr(surface.face, call.owner.__name__)() as client:
            running = asyncio.create_task(call.on({call.owner: client}))
            await official.wait_for(len(official.requests) + 1)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert running.cancelled(), f"{call} makes something else of it"
        assert asyncio.all_tasks() - others - set(official._tasks) == set(), call


CANCELLED = [
    *(call for call in HANDLE_CALLS if call.kind is AsyncSandboxProcess and call.takes_timeout),
    *(call for call in HANDLE_CALLS if call.kind is AsyncRun),
]


@pytest.mark.usefixtures("quick_ends")
@scenario(
    3,
    shows=[*CANCELLED, "init", "sync_runs", "watch_runs"],
    not_sync="a thread cannot be cancelled: Ctrl-C is what ends a call, see above",
    not_command="the same: Ctrl-C, see above",
)
async def test_cancelling_calls_of_runs_and_processes(
    surface: PythonSurface, official: OfficialStub, tmp_path: Path
) -> None:
    """The call is cancelled, not failed; the process can be told again, the run keeps its record
    and comes to its end.
    """
    for call in CANCELLED:
        full = {"queue_bytes": 1000, "put_timeout": 60.0} if call.name.startswith("alog") else {}
        async with opened(call.kind, surface.face, official, **full) as handle:
            official.route("*", ".*", SILENT)
            kept = 0
            if call.kind is AsyncRun and full:
                kept = fill(handle)
            elif call.kind is AsyncRun:
                handle.log_trace({"id": "t"})
                kept = 1
            # An end that has begun goes on: who asks again joins it.
            brief = {"timeout": 0.3} if call.name in ("fail", "finish") else {}
            await _cancelled(call.on(handle, **brief), call)
            if call.kind is AsyncRun:
                receipt = await handle.finish(timeout=0)
                assert receipt.counts.spooled == kept, call
    runs = functions_of(surface.face)
    await _cancelled(runs.init(model="m", environments=["math"]))
    async with surface.face.AsyncAPIClient() as api:
        await _cancelled(runs.sync_runs(api))
        await _cancelled(anext(aiter(runs.watch_runs(api))))
        official.route("*", ".*", Answer(503))
        left = await runs.sync_runs(api)
        assert left
        assert sum(one.delivered for one in left) == 0, "what is cancelled is kept"


async def _cancelled(call: Coroutine[Any, Any, Any], what: object = None) -> None:
    """Cancel a call that has begun to wait."""
    running = asyncio.ensure_future(call)
    for _ in range(20):  # whatever it does before it waits for the platform
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled(), what


@scenario(
    3,
    not_sync="scopes belong to asynchronous code",
    not_command="scopes belong to asynchronous code",
)
async def test_the_callers_own_limits_end_a_call(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """``asyncio.timeout`` around a call ends it, whatever its own deadline; the client goes on."""
    official.script(SILENT)
    async with surface.face.AsyncEvalsClient() as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.get_evaluation(EVALUATION, timeout=60)
        assert (await client.get_evaluation(EVALUATION)).evaluation_id == EVALUATION
