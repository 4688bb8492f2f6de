"""What goes out and what comes back: paths, queries, headers, bodies, answers, deadlines."""

from __future__ import annotations

import asyncio
import math
import re
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_async._version import __version__
from prime_async.errors import (
    APIError,
    APITimeoutError,
    ProtocolError,
    RateLimitError,
    ServerError,
    UsageError,
    ValidationError,
    ValueEncodingError,
)
from prime_async.transport import (
    Replay,
    RetryBudget,
    RetryPolicy,
    Transport,
    check_timeout,
    path_segment,
)
from prime_async.transport.responses import error_from_response
from tests.stub import Answer, Stub
from tests.transport.conftest import QUICK


@settings(deadline=None)
@given(st.text(min_size=1))
def test_any_id_is_one_segment(text: str) -> None:
    """An id is refused, or stays exactly one segment of the path and can be read back."""
    try:
        segment = path_segment(text, "evaluation_id")
    except UsageError:
        return
    assert re.fullmatch(r"[A-Za-z0-9_.~%-]+", segment)
    assert segment not in (".", "..")
    assert unquote(segment) == text


@pytest.mark.parametrize(
    "wrong", ["", " ", ".", "..", "a/b", "../x", "a\\b", None, 5, b"a", "\ud800"]
)
def test_what_is_no_id(wrong: Any) -> None:
    """Empty, not text, or a way out of its place: named, before any request."""
    with pytest.raises(UsageError) as caught:
        path_segment(wrong, "evaluation_id")
    assert caught.value.field == "evaluation_id"


@pytest.mark.parametrize("odd", ["a%2Fb", "a b?c#d", "ü☕", "a%", "%2e%2e", "a;b&c=d", "~a"])
async def test_an_odd_id_arrives_as_it_is(stub: Stub, transport: Transport, odd: str) -> None:
    """Nothing on the way takes an escaped id for part of the path."""
    await transport.request("GET", f"/things/{path_segment(odd, 'id')}/x")
    (request,) = stub.requests
    prefix, name, end = request.target.rsplit("/", 2)
    assert (prefix, unquote(name), end) == ("/api/v1/things", odd, "x")


@pytest.mark.parametrize("wrong", [0, -1, math.nan, True, "5", [1]])
def test_timeouts_are_positive_numbers(wrong: Any) -> None:
    """Zero, negative, NaN and what is no number are refused; None is the default."""
    with pytest.raises(UsageError) as caught:
        check_timeout(wrong, 60.0)
    assert caught.value.field == "timeout"
    assert check_timeout(None, 60.0) == 60.0
    assert check_timeout(math.inf, 60.0) == math.inf


async def test_what_a_request_carries(stub: Stub, transport: Transport) -> None:
    """Prefix, key, agent and JSON; None leaves a parameter out, lists repeat it."""
    await transport.request(
        "POST",
        "/things",
        params={"a": 1, "b": None, "c": [1, 2], "d": True, "e": "x y&z=ü"},
        json={"score": np.float32(0.5), "nan": math.nan},
    )
    (request,) = stub.requests
    assert request.path == "/api/v1/things"
    assert request.target.count("c=") == 2
    assert request.query == {"a": "1", "c": "2", "d": "true", "e": "x y&z=ü"}
    assert request.json() == {"score": 0.5, "nan": None}
    assert request.headers["Authorization"] == "Bearer key-1"
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["User-Agent"].startswith(f"prime-async/{__version__} python/3.")
    assert "Idempotency-Key" not in request.headers


async def test_no_key_no_header(stub: Stub, transport: Transport) -> None:
    """Without a key, or where none is wanted, no header claims one."""
    await transport.request("GET", "/a", auth=False)
    async with _closing(Transport(base_url=f"{stub.url}/")) as keyless:
        await keyless.request("GET", "/b")
    assert all("Authorization" not in request.headers for request in stub.requests)
    assert [request.path for request in stub.requests] == ["/api/v1/a", "/api/v1/b"]


async def test_a_body_that_cannot_be_written_is_not_sent(stub: Stub, transport: Transport) -> None:
    """The path of the value is named, and nothing goes out."""
    with pytest.raises(ValueEncodingError) as caught:
        await transport.request("POST", "/things", json={"metadata": {"model": object()}})
    assert caught.value.path == "body.metadata.model"
    assert stub.requests == []


@pytest.mark.parametrize(
    ("body", "expected"), [(b"", {}), (b"{}", {}), (b'{"a":[1]}', {"a": [1]}), (b" {} \n", {})]
)
async def test_answers(
    stub: Stub, transport: Transport, body: bytes, expected: dict[str, Any]
) -> None:
    """A JSON object, or nothing, which is the empty object."""
    stub.script(Answer(body=body))
    assert (await transport.request("GET", "/a")).json() == expected


@pytest.mark.parametrize(
    "body", [b"[]", b"5", b'"text"', b"null", b"<html>", b"{", b"\xff", b"[" * 9999]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_answers_that_are_none(
    stub: Stub, transport: Transport, method: str, body: bytes
) -> None:
    """Anything else is named with the address; a write that got it may have been carried out."""
    stub.script(Answer(body=body, headers={"X-Request-Id": "r-9"}))
    response = await transport.request(method, "/a")
    with pytest.raises(ProtocolError, match=r"the answer to .*/api/v1/a is ") as caught:
        response.json()
    assert caught.value.request_id == "r-9"
    assert caught.value.ambiguous is (method == "POST")


@pytest.mark.parametrize(
    ("body", "code", "detail", "message"),
    [
        (b'{"detail":"gone"}', None, "gone", "gone"),
        (b'{"detail":"d","error":{"code":"c","message":"m"}}', "c", "d", "m"),
        (b'{"error":{"code":"c","message":"m"}}', "c", "m", "m"),
        (b'{"error":"plain"}', None, "plain", "plain"),
        (b'{"message":"m"}', None, None, "m"),
        (b'{"detail":{"a":1}}', None, {"a": 1}, "{'a': 1}"),
        (b'{"error":{"code":7,"message":null}}', None, None, '{"error"'),
        (b"[1]", None, [1], "[1]"),
        (b"plain text", None, "plain text", "plain text"),
        (b"", None, "", "no explanation"),
        (b"\xff\xfe", None, "��", "��"),
    ],
)
def test_faults_are_read_in_every_form(
    body: bytes, code: str | None, detail: Any, message: str
) -> None:
    """Whatever form a refusal has, its words are in the message."""
    error = error_from_response(
        status=404, headers={}, body=body, method="GET", url="http://p/x", replayable=True
    )
    assert (error.code, error.detail, error.status, error.status_code) == (code, detail, 404, 404)
    assert error.message.startswith("HTTP 404 for GET http://p/x: ")
    assert message in error.message


@settings(deadline=None)
@given(st.binary(max_size=80), st.integers(300, 599))
def test_any_refusal_is_an_error(body: bytes, status: int) -> None:
    """No content of a refused answer breaks the reading of it."""
    error = error_from_response(
        status=status, headers={}, body=body, method="POST", url="http://p", replayable=False
    )
    assert isinstance(error, APIError)
    assert len(str(error)) < 1000


def test_fields_at_fault_are_listed() -> None:
    """A 422 says which field and why, in words and as data."""
    body = b'{"detail":[{"loc":["body","name"],"msg":"too long","type":"v"},{"msg":"m"},"odd"]}'
    error = error_from_response(
        status=422, headers={}, body=body, method="POST", url="http://p", replayable=False
    )
    assert isinstance(error, ValidationError)
    assert error.message.endswith("name: too long; m; odd")
    assert [entry["msg"] for entry in error.errors] == ["too long", "m"]


async def test_a_pause_holds_every_call_of_the_client(stub: Stub) -> None:
    """Retry-After of one call: the others of that client wait too, a second client does not."""
    limited = Answer(429, headers={"Retry-After": "0.3"})
    stub.script(limited)
    budget = RetryBudget()
    async with (
        _closing(Transport(base_url=stub.url, retry=QUICK, budget=budget)) as one,
        _closing(Transport(base_url=stub.url, retry=QUICK, budget=budget)) as other,
        asyncio.TaskGroup() as group,
    ):
        first = group.create_task(one.request("GET", "/first"))
        while not one._gate._until:
            await asyncio.sleep(0.001)
        await other.request("GET", "/other")
        await one.request("GET", "/second")
        await first
    times = {request.path.rsplit("/", 1)[1]: request.time for request in stub.requests}
    begun = stub.requests[0].time
    assert times["other"] - begun < 0.25
    assert times["first"] - begun >= 0.3
    assert times["second"] - begun >= 0.25


async def test_a_pause_beyond_a_minute_is_said_at_once(stub: Stub, transport: Transport) -> None:
    """Nobody waits for an hour: the error says how long the platform asks for."""
    stub.script(Answer(429, headers={"Retry-After": "3600"}))
    with pytest.raises(RateLimitError, match="3600 s") as caught:
        await transport.request("GET", "/a")
    assert caught.value.retry_after == 3600
    assert len(stub.requests) == 1


async def test_a_pause_beyond_the_deadline_is_not_begun(stub: Stub, transport: Transport) -> None:
    """A wait that cannot end in time is an error now, not at the deadline."""
    stub.script(Answer(503, headers={"Retry-After": "30"}))
    async with asyncio.timeout(5):
        with pytest.raises(ServerError):
            await transport.request("GET", "/a", timeout=10)
    assert len(stub.requests) == 1


async def test_an_empty_budget_ends_the_repeats(stub: Stub) -> None:
    """In an outage the process does not answer with a storm; the error says why it gave up."""
    stub.default = Answer(503)
    async with _closing(
        Transport(base_url=stub.url, retry=QUICK, budget=RetryBudget(2, per_second=0))
    ) as made:
        for _ in range(5):
            with pytest.raises(ServerError) as caught:
                await made.request("GET", "/a")
    assert len(stub.requests) == 5 + 2
    assert "budget" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "tries"),
    [
        ({"method": "GET"}, 4),
        ({"method": "POST"}, 1),
        ({"method": "POST", "replay": Replay.SAFE}, 4),
        ({"method": "GET", "replay": Replay.NEVER}, 1),
        ({"method": "PUT"}, 4),
        ({"method": "PATCH"}, 1),
    ],
)
async def test_how_often_an_outage_is_asked(
    stub: Stub, transport: Transport, options: dict[str, Any], tries: int
) -> None:
    """Four tries where a repeat is harmless; one where it might do the work twice."""
    stub.default = Answer(502)
    with pytest.raises(ServerError) as caught:
        await transport.request(path="/a", **options)
    assert len(stub.requests) == tries
    assert caught.value.ambiguous is (tries == 1)


async def test_one_try_by_policy(stub: Stub) -> None:
    """A policy of one try is kept to."""
    stub.default = Answer(503)
    async with _closing(Transport(base_url=stub.url, retry=RetryPolicy(tries=1))) as made:
        with pytest.raises(ServerError):
            await made.request("GET", "/a")
    assert len(stub.requests) == 1


async def test_the_deadline_counts_all_tries(stub: Stub) -> None:
    """Silence, repeats and pauses together stay within the seconds of the call."""
    stub.default = Answer(status=0, end="silent")
    async with _closing(Transport(base_url=stub.url, retry=QUICK, timeout=0.2)) as made:
        async with asyncio.timeout(5):
            with pytest.raises(APITimeoutError, match=r"within 0\.2 s") as caught:
                await made.request("POST", "/a", json={})
    assert isinstance(caught.value, TimeoutError)
    assert (caught.value.budget, caught.value.seconds) == ("total", 0.2)
    assert caught.value.ambiguous


async def test_features_are_learned_and_kept(stub: Stub, transport: Transport) -> None:
    """What the platform can do is what its latest word says; answers without the word keep it."""
    assert transport.features == frozenset()
    stub.script(Answer(json={}, headers={"X-Prime-Features": " idempotency , sample-ranges,"}))
    stub.script(Answer(json={}))
    for _ in range(2):
        await transport.request("GET", "/a")
        assert transport.features == {"idempotency", "sample-ranges"}


async def test_nothing_secret_in_words(stub: Stub) -> None:
    """No key in reprs, nor in an error whose answer sends it back in every place."""
    key = "CANARY-KEY"
    fault = {"detail": [{"loc": [key], "msg": key}], "error": {"code": key, "message": key}}
    async with _closing(Transport(base_url=stub.url, api_key=key)) as made:
        for answer in (Answer(401, json=fault), Answer(500, body=f"<p>{key}".encode())):
            headers = {"X-Request-Id": key}
            stub.script(Answer(answer.status, headers=headers, body=answer.encoded()))
            with pytest.raises(APIError, match=r"\*\*\*") as caught:
                await made.request("GET", "/a")
            error = caught.value
            for words in (repr(made), repr(error), str(error), str(vars(error))):
                assert "CANARY" not in words


async def test_redirects_are_followed_with_the_key_on_the_same_host_only(stub: Stub) -> None:
    """A platform that moves a path is followed; another host never sees the key."""
    async with Stub() as elsewhere, _closing(Transport(base_url=stub.url, api_key="k")) as made:
        stub.route("GET", "/api/v1/old", Answer(307, headers={"Location": "/api/v1/new"}))
        stub.route("GET", "/api/v1/away", Answer(307, headers={"Location": f"{elsewhere.url}/x"}))
        await made.request("GET", "/old")
        assert stub.requests[-1].path == "/api/v1/new"
        assert stub.requests[-1].headers["Authorization"] == "Bearer k"
        await made.request("GET", "/away")
        assert "Authorization" not in elsewhere.requests[-1].headers


class _closing:
    """Closes a transport at the end of a block."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    async def __aenter__(self) -> Transport:
        return self.transport

    async def __aexit__(self, *_: object) -> None:
        await self.transport.aclose()
