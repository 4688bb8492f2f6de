"""Every transport shape meets every fault: it ends in time, rightly, and nothing is done twice.

Each fault is tried twice: once only, so that repeating helps where repeating is allowed, and
always, so that the call must give up. The platform counts what writes it really carried out.
"""

from __future__ import annotations

import asyncio
import email.utils
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from prime_async.errors import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    MethodNotAllowedError,
    NotFoundError,
    PayloadTooLargeError,
    PaymentRequiredError,
    ProtocolError,
    RateLimitError,
    ServerError,
    UnauthorizedError,
    ValidationError,
)
from prime_async.transport import RetryBudget, RetryPolicy, Transport
from tests.faults.plan import (
    BadGzip,
    Break,
    Delay,
    Fault,
    FaultPlan,
    Garbage,
    How,
    Moment,
    SlowBody,
    Status,
    WrongLength,
    on,
    path,
)
from tests.faults.proxy import FaultProxy
from tests.faults.shapes import SHAPES, Shape, ThingsPlatform

PATIENT, SHORT = 10.0, 0.2
"""Seconds a call gets: plenty where it must not matter, little where only time can end it."""

_SLACK = 2.0
"""Seconds by which a busy machine may be late."""

_Errors = tuple[type[APIError], ...]


@dataclass(frozen=True)
class Row:
    """A fault and what it must lead to; None is success.

    Attributes:
        repeated: outcome of one fault where the request may be repeated.
        plain: outcome of one fault where it may not.
        always: outcome when it never stops.
        in_body: it strikes after the head of the answer, where a stream cannot be repeated.
        needs_body: it needs a request that has a body.
    """

    name: str
    fault: Fault
    repeated: _Errors | None
    plain: _Errors | None
    always: _Errors | None
    in_body: bool = False
    needs_body: bool = False
    timeout: float = PATIENT

    def __str__(self) -> str:
        return self.name


_PAST = email.utils.formatdate(0, usegmt=True)
_BROKEN: dict[How, _Errors] = {
    "reset": (APIConnectionError,),
    "cut": (APIConnectionError,),
    # Noise is no HTTP, or noise in the place of a body's rest: either name is right.
    "garbage": (ProtocolError, APIConnectionError),
    "silence": (APITimeoutError,),
}


def _breaks() -> list[Row]:
    rows = []
    for moment in Moment:
        for how, errors in _BROKEN.items():
            if moment is Moment.RESPONSE_END:
                if how != "garbage":
                    rows.append(
                        Row(f"{how} after the answer", Break(how, moment), None, None, None)
                    )
                continue
            if (how, moment) == ("garbage", Moment.RESPONSE_BODY):
                continue  # noise of the right length is the body: no client can tell
            silent = how == "silence"
            rows.append(
                Row(
                    f"{how} at {moment.value}",
                    Break(how, moment, after=5),
                    errors if silent else None,
                    errors,
                    errors,
                    in_body=moment is Moment.RESPONSE_BODY,
                    needs_body=moment is Moment.REQUEST_BODY,
                    timeout=SHORT if silent else PATIENT,
                )
            )
    return rows


_PASSING: dict[int, type[APIError]] = {
    408: APIError,
    429: RateLimitError,
    502: ServerError,
    503: ServerError,
    504: ServerError,
}
_FINAL: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    402: PaymentRequiredError,
    403: ForbiddenError,
    404: NotFoundError,
    405: MethodNotAllowedError,
    409: ConflictError,
    410: APIError,
    413: PayloadTooLargeError,
    422: ValidationError,
    500: ServerError,
    501: ServerError,
}


def _statuses() -> list[Row]:
    rows = []
    for status, error in _PASSING.items():
        for wait, named in ((None, ""), ("0", ", wait 0 s"), (_PAST, ", wait till a date")):
            for executed in (False, True):
                if status == 429 and executed:
                    continue  # refused for its rate means that it was not carried out
                plain = None if status == 429 else (error,)
                name = f"{status}{named}{' after the work' if executed else ''}"
                fault = Status(status, wait, executed=executed)
                rows.append(Row(name, fault, None, plain, (error,)))
    locked = Status(409, "0")
    rows.append(Row("409, locked", locked, None, (ConflictError,), (ConflictError,)))
    for status, error in _FINAL.items():
        rows.append(Row(str(status), Status(status), (error,), (error,), (error,)))
    return rows


def _answers() -> list[Row]:
    odd = (ProtocolError, APIConnectionError)
    html = Status(200, body=b"<html>log in</html>", content_type="text/html")
    return [
        Row("late request", Delay(0.03), None, None, None),
        Row("late answer", Delay(0.03, executed=True), None, None, None),
        Row(
            "too late",
            Delay(5.0),
            (APITimeoutError,),
            (APITimeoutError,),
            (APITimeoutError,),
            timeout=SHORT,
        ),
        Row("slow body", SlowBody(500, 0.001), None, None, None, in_body=True),
        Row(
            "length too long",
            WrongLength(3),
            (APITimeoutError,),
            (APITimeoutError,),
            (APITimeoutError,),
            in_body=True,
            timeout=SHORT,
        ),
        Row("damaged gzip", BadGzip("damaged"), None, odd, odd, in_body=True),
        Row("short gzip", BadGzip("short"), odd, odd, odd, in_body=True),
        Row("no gzip", BadGzip("plain"), None, odd, odd, in_body=True),
        Row("no HTTP", Garbage(), None, odd, odd),
        Row("a page in place of JSON", html, (ProtocolError,), (ProtocolError,), (ProtocolError,)),
    ]


ROWS = [*_breaks(), *_statuses(), *_answers()]


@pytest.fixture
async def platform() -> AsyncIterator[ThingsPlatform]:
    """The platform behind the proxy."""
    async with ThingsPlatform() as server:
        yield server


@pytest.fixture
async def proxy(platform: ThingsPlatform) -> AsyncIterator[FaultProxy]:
    """The proxy in front of it."""
    async with FaultProxy(("127.0.0.1", platform.port)) as server:
        yield server


@pytest.fixture
async def transport(proxy: FaultProxy) -> AsyncIterator[Transport]:
    """A transport that repeats quickly, with a budget of its own."""
    quick = RetryPolicy(first_delay=0.001, max_delay=0.002)
    client = Transport(base_url=proxy.url, api_key="k", retry=quick, budget=RetryBudget())
    yield client
    await client.aclose()


async def _outcome(
    shape: Shape, transport: Transport, timeout: float
) -> tuple[Any, APIError | None]:
    began = time.monotonic()
    try:
        result = await asyncio.wait_for(shape.call(transport, timeout), timeout + _SLACK)
    except APIError as error:
        assert time.monotonic() - began < timeout + _SLACK
        return None, error
    return result, None


def _check(shape: Shape, expected: _Errors | None, got: tuple[Any, APIError | None]) -> None:
    result, error = got
    if expected is None:
        assert error is None
        assert result == shape.good
        return
    assert isinstance(error, expected), f"wanted {expected}, got {error!r} / {result!r}"
    assert error.method is not None
    assert error.url is not None
    assert "/api/v1/things" in str(error)


def _expected_once(shape: Shape, row: Row) -> _Errors | None:
    if shape.streams and row.in_body and row.always is not None:
        return row.always
    if shape.streams and isinstance(row.fault, Status) and row.fault.status == 200:
        return None  # whatever bytes come are the stream
    return row.repeated if shape.repeatable else row.plain


def _applies(shape: Shape, row: Row) -> bool:
    if row.needs_body:
        return shape.writes
    return not (shape.streams and row.name == "a page in place of JSON")


CELLS = [
    pytest.param(shape, row, id=f"{shape} - {row}")
    for shape in SHAPES
    for row in ROWS
    if _applies(shape, row)
]


_THINGS = path("/api/v1/things")


@pytest.mark.parametrize(("shape", "row"), CELLS)
async def test_one_fault(
    shape: Shape, row: Row, transport: Transport, proxy: FaultProxy, platform: ThingsPlatform
) -> None:
    """One fault: repeated where allowed, reported where not, carried out once at most."""
    proxy.plan = FaultPlan([on(row.fault, when=_THINGS)])
    got = await _outcome(shape, transport, row.timeout)
    _check(shape, _expected_once(shape, row), got)
    assert sum(platform.carried_out.values()) <= 1
    if shape.writes and got[1] is None:
        assert sum(platform.carried_out.values()) == 1
    if shape.writes and not shape.repeatable and got[1] is not None and platform.carried_out:
        assert got[1].ambiguous, (
            "it was carried out and the error does not say that it may have been"
        )


@pytest.mark.parametrize(("shape", "row"), CELLS)
async def test_the_same_fault_always(
    shape: Shape, row: Row, transport: Transport, proxy: FaultProxy, platform: ThingsPlatform
) -> None:
    """The fault never stops: the call gives up in time, after four tries, with the right error."""
    proxy.plan = FaultPlan([on(row.fault, when=_THINGS, times=None)])
    got = await _outcome(shape, transport, row.timeout)
    _check(shape, row.always, got)
    assert sum(platform.carried_out.values()) <= 1
    tries = [exchange for exchange in proxy.exchanges if "/things" in exchange.target]
    assert len(tries) <= 4


async def test_afterwards_the_transport_still_works(
    transport: Transport, proxy: FaultProxy
) -> None:
    """No fault that ends an exchange spoils the next one."""
    for row in ROWS:
        if row.always is None or row.timeout is SHORT:
            continue
        proxy.plan = FaultPlan([on(row.fault, when=_THINGS, times=4)])
        await _outcome(SHAPES[0], transport, PATIENT)
        proxy.plan = FaultPlan()
        assert await _outcome(SHAPES[0], transport, PATIENT) == (SHAPES[0].good, None), row.name
