"""Rule 1: deadlines. Every public call ends, by the time it was given or by its default."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from prime_async import AsyncCommandStream, AsyncProcessStream, AsyncRun
from prime_async.errors import (
    APIConnectionError,
    APITimeoutError,
    CommandTimeoutError,
    PrimeError,
    UsageError,
)
from prime_async.requests import DAY
from prime_async.transport import DEFAULT_TIMEOUT
from prime_sync._generate import PLAN
from tests.official_stub import EVALUATION, OfficialStub
from tests.rules.calls import ALL_CALLS, CALLS, NO_DEADLINE, PLATFORM_CALLS, PublicCall, clients
from tests.rules.handles import (
    FUNCTIONS,
    HANDLE_CALLS,
    NO_SECONDS,
    fill,
    functions_of,
    opened,
    plain,
)
from tests.rules.surfaces import CommandSurface, PythonSurface, Surface, leave_on_disk
from tests.rules.table import scenario
from tests.stub import Answer

SHORT = 0.15
LATE = 3.0
"""Seconds beyond the deadline that a busy machine may need."""

SILENT = Answer(status=0, end="silent")

NO_OPTION = "no command takes a deadline: those of the calls below end it"


def test_every_public_call_takes_a_timeout() -> None:
    """But for those with a reason; the sync names are generated from these."""
    assert [call for call in ALL_CALLS if not call.takes_timeout] == []
    assert {call.name for call in ALL_CALLS} & set(NO_DEADLINE) == set()
    without = {str(call) for call in HANDLE_CALLS if not call.takes_timeout}
    assert without == set(NO_SECONDS)


@pytest.mark.usefixtures("quick_cleaning")
@scenario(1, shows=ALL_CALLS, not_command=NO_OPTION)
async def test_every_call_ends_by_its_timeout(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """Against silence, some at a time: each ends in time, its cleaning up included, and says so;
    plain ones and pushes say which limit ended them.
    """
    await leave_on_disk(official)
    official.route("*", ".*", SILENT)
    turns = asyncio.Semaphore(8)

    async def one(call: PublicCall, on: Mapping[type, Any]) -> None:
        async with turns:
            began = time.monotonic()
            if call.name == "get_error_context":
                assert (await call.on(on, timeout=SHORT)).status is None
            else:
                with pytest.raises(PrimeError) as caught:
                    await call.on(on, timeout=SHORT)
                late = _lateness(caught.value)
                assert late is not None, f"{call}: {caught.value!r}"
                if call in CALLS:
                    assert isinstance(late, APITimeoutError)
                    assert late.budget == "total"
                    assert 0 < late.seconds <= 1.5 * SHORT
            assert time.monotonic() - began < SHORT + LATE, f"{call} is late"

    async with clients(surface.face) as on, asyncio.TaskGroup() as group:
        for call in ALL_CALLS:
            group.create_task(one(call, on))


def _lateness(error: BaseException | None) -> BaseException | None:
    """Find what says that time was over: the error itself or one of its causes."""
    if error is None or isinstance(error, TimeoutError):
        return error
    return _lateness(error.__cause__)


TIMED = [call for call in HANDLE_CALLS if call.takes_timeout]


@pytest.mark.usefixtures("quick_ends")
@scenario(1, shows=TIMED, not_command=NO_OPTION)
async def test_every_call_of_runs_and_processes_ends_by_its_timeout(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """Against silence: the caller is told, or gets an account in which the record is kept."""
    for call in TIMED:
        async with opened(call.kind, surface.face, official) as handle:
            if call.kind is AsyncProcessStream:
                assert await handle.read() == b"line\n"
            official.route("*", ".*", SILENT)
            began = time.monotonic()
            if call.kind is AsyncRun:
                await plain(handle.log_trace({"id": "t"}))
                told = await call.on(handle, timeout=SHORT)
                assert told is False or told.counts.spooled == 1, call
            else:
                with pytest.raises(APITimeoutError):
                    await call.on(handle, timeout=SHORT)
            assert time.monotonic() - began < 2 * SHORT + LATE, f"{call} is late"


@pytest.mark.usefixtures("quick_ends")
@scenario(1, shows=NO_SECONDS, not_command=NO_OPTION)
async def test_what_takes_no_timeout_ends_by_the_one_of_its_maker(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """Room is waited for as long as the run says; a stream ends with its command; ends end."""
    for call in (call for call in HANDLE_CALLS if not call.takes_timeout):
        if surface.name == "sync" and str(call) in PLAN.async_only:
            continue
        options = TIGHT if call.name != "aclose" else {}
        async with opened(call.kind, surface.face, official, **options) as handle:
            if str(call) == "AsyncCommandStream.aclose":
                lines = aiter(handle)
                assert (await anext(lines)).text == "line"
            began = time.monotonic()
            official.route("*", ".*", SILENT)
            if call.kind is AsyncRun:
                fill(handle)
                await call.on(handle)
                assert time.monotonic() - began >= SHORT, "it waits for room"
            elif call.kind is not AsyncCommandStream or call.name == "aclose":
                await call.on(handle)
            else:
                with pytest.raises(CommandTimeoutError):
                    await call.on(handle)
            assert time.monotonic() - began < 4 * SHORT + LATE, f"{call} is late"


TIGHT: dict[str, Any] = {"queue_bytes": 1000, "put_timeout": SHORT, "seconds": SHORT}
"""A run whose queue takes little, and a command that has little time."""


@scenario(1, shows=FUNCTIONS, not_command=NO_OPTION)
async def test_every_function_ends_by_its_timeout(
    surface: PythonSurface, official: OfficialStub, tmp_path: Path
) -> None:
    """Opening a run, and delivering what runs kept."""
    runs = functions_of(surface.face)
    official.route("*", ".*", SILENT)
    described = {"model": "m", "environments": ["math"]}
    with pytest.raises(APITimeoutError):
        await runs.init(**described, timeout=SHORT)
    with pytest.raises(UsageError, match="number of seconds"):
        await runs.init(**described, timeout="5")
    for bad in (0, -1, math.nan, "5"):
        with pytest.raises(UsageError, match=r"interval is .* positive number of seconds"):
            await anext(aiter(runs.watch_runs(surface.face.AsyncAPIClient(), interval=bad)))


@scenario(1)
async def test_every_call_ends_by_its_default(
    surface: Surface, official: OfficialStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody said how long: the documented defaults count, and they are finite."""
    assert (DEFAULT_TIMEOUT, DAY) == (60, 86_400)
    for place in ("transport", "evals.client"):
        monkeypatch.setattr(f"prime_async.{place}.DEFAULT_TIMEOUT", SHORT)
    monkeypatch.setattr("prime_async.evals.pushing.DAY", SHORT)
    official.route("*", ".*", SILENT)
    for name, call in surface.calls().items():
        began = time.monotonic()
        outcome = await call()
        assert time.monotonic() - began < SHORT + LATE, f"{name} is late"
        assert outcome.kind in ("APITimeoutError", "PartialPushError"), name
        assert f"did not end within {SHORT:g} s" in outcome.said


@scenario(1, not_command=NO_OPTION)
async def test_a_bad_timeout_is_refused(surface: PythonSurface, official: OfficialStub) -> None:
    """Zero, negative, not a number, not a number at all: by every call, before any request."""
    async with clients(surface.face) as on:
        for call in CALLS:
            for bad in (0, -1, math.nan, True, "5"):
                with pytest.raises(UsageError, match="positive number of seconds") as caught:
                    await call.on(on, timeout=bad)
                assert caught.value.field == "timeout"
        for call in PLATFORM_CALLS:
            for bad in (-1, "5"):
                with pytest.raises(UsageError, match="number of seconds") as caught:
                    await call.on(on, timeout=bad)
                assert caught.value.field == "timeout", call
    for bad in (0, math.nan, True, "5"):
        with pytest.raises(UsageError, match="positive number of seconds"):
            surface.face.AsyncAPIClient(timeout=bad)
    assert official.requests == []


@scenario(1, not_async="a number is checked above", not_sync="a number is checked above")
async def test_bad_seconds_are_a_usage_error(
    surface: CommandSurface, official: OfficialStub
) -> None:
    """The one option that takes seconds refuses what is none: exit 2, before any request."""
    for bad in ("0", "-1", "nan", "inf", "1e9", "soon", ""):
        outcome = await surface.run(
            "eval", "logs", EVALUATION, "--follow", f"--poll-interval={bad}"
        )
        assert (outcome.kind, outcome.exit_code) == ("UsageError", 2), bad
    assert official.requests == []


@scenario(1, not_command=NO_OPTION)
async def test_unlimited_is_said_with_infinity(
    surface: PythonSurface, official: OfficialStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``math.inf`` outlives the default."""
    monkeypatch.setattr("prime_async.transport.DEFAULT_TIMEOUT", 0.05)
    official.route("GET", ".*", Answer(json={"evaluation_id": EVALUATION}, delay=0.3))
    async with surface.face.AsyncEvalsClient() as client:
        with pytest.raises(APITimeoutError):
            await client.get_evaluation(EVALUATION)
        found = await client.get_evaluation(EVALUATION, timeout=math.inf)
    assert found.evaluation_id == EVALUATION


@scenario(1, not_command="a command closes its client when its calls have ended")
async def test_closing_ends_what_is_under_way(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """A call that waits when its client is closed ends at once, and is not sent again."""
    official.route("GET", ".*", SILENT)
    client = surface.face.AsyncEvalsClient()
    waiting = asyncio.create_task(client.get_evaluation(EVALUATION, timeout=30))
    await official.wait_for(1)
    began = time.monotonic()
    await client.aclose()
    with pytest.raises(APIConnectionError, match="closed while"):
        await waiting
    assert time.monotonic() - began < LATE
    assert len(official.requests) == 1
