"""Rule 1: deadlines. Every public call ends, by the time it was given or by its default."""

from __future__ import annotations

import asyncio
import math
import time

import pytest

from prime_async.errors import (
    APIConnectionError,
    APITimeoutError,
    PartialPushError,
    PrimeError,
    UsageError,
)
from prime_async.requests import DAY
from prime_async.transport import DEFAULT_TIMEOUT
from tests.official_stub import EVALUATION, OfficialStub
from tests.rules.calls import CALLS, NO_DEADLINE, PLATFORM_CALLS, PublicCall
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
    calls = [*CALLS, *PLATFORM_CALLS]
    assert [call for call in calls if not call.takes_timeout] == []
    assert {call.name for call in calls} & set(NO_DEADLINE) == set()


@scenario(1, not_command=NO_OPTION)
async def test_every_call_ends_by_its_timeout(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """Against silence: each ends in time and says which limit ended it."""
    await leave_on_disk(official)
    official.route("*", ".*", SILENT)
    for call in CALLS:
        began = time.monotonic()
        with pytest.raises((APITimeoutError, PartialPushError)) as caught:
            await call.make(surface.face, timeout=SHORT)
        assert time.monotonic() - began < SHORT + LATE, f"{call} is late"
        error = caught.value
        cause = error if isinstance(error, APITimeoutError) else error.__cause__
        assert isinstance(cause, APITimeoutError), call
        assert cause.budget == "total"
        assert cause.seconds == pytest.approx(SHORT, rel=0.5)


@pytest.mark.usefixtures("quick_cleaning")
@scenario(1, not_command=NO_OPTION)
async def test_calls_of_the_platform_end_by_their_timeout(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """Sandboxes, jobs, images and traces against silence, some at a time; cleaning up included."""
    official.route("*", ".*", SILENT)
    turns = asyncio.Semaphore(8)

    async def one(call: PublicCall) -> None:
        async with turns:
            began = time.monotonic()
            if call.name == "get_error_context":
                assert (await call.make(surface.face, timeout=SHORT)).status is None
            else:
                with pytest.raises(PrimeError) as caught:
                    await call.make(surface.face, timeout=SHORT)
                assert _is_late(caught.value), f"{call}: {caught.value!r}"
            assert time.monotonic() - began < SHORT + LATE, f"{call} is late"

    async with asyncio.TaskGroup() as group:
        for call in PLATFORM_CALLS:
            group.create_task(one(call))


def _is_late(error: BaseException | None) -> bool:
    """Tell whether an error says that time was over, by itself or by its cause."""
    return error is not None and (isinstance(error, TimeoutError) or _is_late(error.__cause__))


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
    for call in CALLS:
        for bad in (0, -1, math.nan, True, "5"):
            with pytest.raises(UsageError, match="positive number of seconds") as caught:
                await call.make(surface.face, timeout=bad)
            assert caught.value.field == "timeout"
    for call in PLATFORM_CALLS:
        for bad in (-1, "5"):
            with pytest.raises(UsageError, match="number of seconds") as caught:
                await call.make(surface.face, timeout=bad)
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
