"""Every public call of the evaluations client meets a lost answer, an outage and a silence.

A new public call must enter the table: the first test compares it with the class.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from prime_async.errors import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    PartialPushError,
    PrimeError,
    ServerError,
)
from prime_async.evals import AsyncEvalsClient
from tests.faults.conftest import Setting
from tests.faults.plan import Break, FaultPlan, Moment, Status, on, path

_SILENCE = 0.3
_RUN = "the run of the one test that counts evaluations"


@dataclass(frozen=True)
class Call:
    """One public call.

    Attributes:
        repeatable: sending it twice does no harm on any platform.
        target: pattern of the request that the faults hit.
        local: False where the embedded platform answers that it cannot do this yet.
    """

    name: str
    make: Callable[[AsyncEvalsClient, str, float], Awaitable[Any]]
    target: str
    repeatable: bool = True
    local: bool = True

    def __str__(self) -> str:
        return self.name


async def _drain(items: Any) -> list[Any]:
    return [item async for item in items]


_SAMPLES = [{"example_id": 1}]

CALLS = [
    Call(
        "create_evaluation",
        lambda c, _, t: c.create_evaluation("made", run_id=_RUN, timeout=t),
        "/evaluations/$",
        repeatable=False,
    ),
    Call(
        "push_samples",
        lambda c, e, t: c.push_samples(e, _SAMPLES, timeout=t),
        "/samples$",
        repeatable=False,
    ),
    Call(
        "finalize_evaluation",
        lambda c, e, t: c.finalize_evaluation(e, {"accuracy": 1.0}, timeout=t),
        "/finalize$",
        repeatable=False,
    ),
    Call("get_evaluation", lambda c, e, t: c.get_evaluation(e, timeout=t), "/evaluations/"),
    Call("list_evaluations", lambda c, _, t: c.list_evaluations(timeout=t), "/evaluations/"),
    Call("iter_evaluations", lambda c, _, t: _drain(c.iter_evaluations()), "/evaluations/"),
    Call(
        "update_evaluation",
        lambda c, e, t: c.update_evaluation(e, name="new", timeout=t),
        "/evaluations/",
    ),
    Call("delete_evaluation", lambda c, e, t: c.delete_evaluation(e, timeout=t), "/evaluations/"),
    Call("get_samples", lambda c, e, t: c.get_samples(e, timeout=t), "/samples"),
    Call("iter_samples", lambda c, e, t: _drain(c.iter_samples(e)), "/samples"),
    Call(
        "wait_for_evaluation",
        lambda c, e, t: c.wait_for_evaluation(e, timeout=t),
        "/evaluations/",
    ),
    Call(
        "create_hosted_evaluation",
        lambda c, _, t: c.create_hosted_evaluation(["env-1"], "m", {}, timeout=t),
        "/hosted-evaluations$",
        repeatable=False,
        local=False,
    ),
    Call(
        "cancel_hosted_evaluation",
        lambda c, e, t: c.cancel_hosted_evaluation(e, timeout=t),
        "/cancel$",
        local=False,
    ),
    Call(
        "get_hosted_logs",
        lambda c, e, t: c.get_hosted_logs(e, timeout=t),
        "/logs$",
        local=False,
    ),
]


def test_the_table_is_complete() -> None:
    """Every public coroutine and asynchronous generator of the client is in the table."""
    public = {
        name
        for name, member in inspect.getmembers(AsyncEvalsClient)
        if not name.startswith("_")
        and (inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member))
    }
    assert public - {"aclose", "sync_pushes"} == {call.name for call in CALLS}


async def _prepare(setting: Setting, call: Call) -> str:
    if setting.by_index and not call.local:
        pytest.skip("the embedded platform runs no hosted evaluations yet")
    evaluation_id = await setting.create()
    if call.name == "wait_for_evaluation":
        await setting.direct.finalize_evaluation(evaluation_id)
    return evaluation_id


@pytest.mark.parametrize("call", CALLS, ids=str)
async def test_the_answer_is_lost(setting: Setting, call: Call) -> None:
    """Carried out, answer lost: repeated without harm, or "it may have been carried out"."""
    evaluation_id = await _prepare(setting, call)
    setting.proxy.plan = FaultPlan([on(Break("reset", Moment.EXECUTED), when=path(call.target))])
    if setting.by_index or call.repeatable:
        await call.make(setting.client, evaluation_id, 10.0)
    else:
        with pytest.raises(APIError) as caught:
            await call.make(setting.client, evaluation_id, 10.0)
        _is_honest(caught.value)
        hits = [e for e in setting.proxy.exchanges if e.fault is not None]
        assert len(hits) == 1
    if setting.by_index and call is CALLS[0]:
        made = [e.run_id async for e in setting.direct.iter_evaluations()]
        assert made.count(_RUN) == 1
    if call.name == "push_samples":
        assert await setting.stored(evaluation_id) == [1]


def _is_honest(error: PrimeError) -> None:
    if isinstance(error, PartialPushError):
        assert error.receipt.unknown == ((0, 1),)
    else:
        assert isinstance(error, APIConnectionError)
        assert error.ambiguous
        assert "may have been carried out" in str(error)


@pytest.mark.parametrize("call", CALLS, ids=str)
async def test_the_platform_is_down(setting: Setting, call: Call) -> None:
    """503 with Retry-After, always: a server error after four tries at most."""
    evaluation_id = await _prepare(setting, call)
    down = on(Status(503, retry_after="0"), when=path(call.target), times=None)
    setting.proxy.plan = FaultPlan([down])
    with pytest.raises((ServerError, PartialPushError)) as caught:
        await call.make(setting.client, evaluation_id, 10.0)
    assert caught.value.status == 503
    assert down.used <= 4
    if isinstance(caught.value, PartialPushError):
        receipt = caught.value.receipt
        assert not receipt.samples_pushed
        assert receipt.undelivered or receipt.unknown


@pytest.mark.parametrize("call", CALLS, ids=str)
async def test_the_platform_is_silent(setting: Setting, call: Call) -> None:
    """No answer at all: the call ends by its deadline."""
    if call.name.startswith("iter_"):
        pytest.skip("a page has the client's own deadline")
    evaluation_id = await _prepare(setting, call)
    silence = Break("silence", Moment.REQUEST_HEAD)
    setting.proxy.plan = FaultPlan([on(silence, when=path(call.target), times=None)])
    began = time.monotonic()
    with pytest.raises((APITimeoutError, PartialPushError)) as caught:
        await call.make(setting.client, evaluation_id, _SILENCE)
    assert time.monotonic() - began < _SILENCE + 2
    if isinstance(caught.value, APITimeoutError):
        assert caught.value.seconds == pytest.approx(_SILENCE, rel=0.5)


async def _leave_on_disk(setting: Setting, evaluation_id: str) -> None:
    """Push from a generator to a platform that refuses everything for now."""
    busy = on(Status(429), when=path("/samples$", "POST"), times=None)
    setting.proxy.plan = FaultPlan([busy])
    with pytest.raises(PartialPushError) as caught:
        await setting.client.push_samples(evaluation_id, iter([{"example_id": 1}]))
    assert caught.value.receipt.spooled == 1


async def test_sync_pushes_loses_an_answer(setting: Setting) -> None:
    """A spooled sample whose answer is lost is repeated by index, or stays on disk as unknown."""
    evaluation_id = await setting.create()
    await _leave_on_disk(setting, evaluation_id)
    lost = Break("reset", Moment.EXECUTED)
    setting.proxy.plan = FaultPlan([on(lost, when=path("/samples$", "POST"))])
    [result] = await setting.client.sync_pushes()
    assert (result.problem is None) is setting.by_index
    assert await setting.stored(evaluation_id) == [1]
    setting.proxy.plan = FaultPlan()
    again = await setting.client.sync_pushes()
    assert await setting.stored(evaluation_id) == [1]
    assert len(again) == (0 if setting.by_index else 1)


async def test_sync_pushes_meets_an_outage(setting: Setting) -> None:
    """What cannot be delivered now stays on disk, and is delivered when the platform is back."""
    evaluation_id = await setting.create()
    await _leave_on_disk(setting, evaluation_id)
    [result] = await setting.client.sync_pushes()
    assert result.problem is not None
    assert result.push.path.exists()
    setting.proxy.plan = FaultPlan()
    [result] = await setting.client.sync_pushes()
    assert result.problem is None
    assert await setting.stored(evaluation_id) == [1]
    assert await setting.client.sync_pushes() == []
