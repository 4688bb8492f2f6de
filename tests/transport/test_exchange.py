"""One try: redirects, refusals without end, sources that fail, and what a broken try shows."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from prime_async.errors import (
    APIError,
    APITimeoutError,
    BadRequestError,
    ProtocolError,
    RateLimitError,
    ServerError,
    TransportError,
    UnauthorizedError,
    UsageError,
)
from prime_async.transport import Transport
from tests.stub import NOTHING, Answer, Stub
from tests.transport.conftest import QUICK

CANARY = "sk-CANARY-0123456789"


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_post_never_becomes_a_get(stub: Stub, status: int) -> None:
    """A redirect that drops the body is an error: the answer to a GET would pass for its own."""
    stub.route("POST", ".*", Answer(status, headers={"Location": "/api/v1/elsewhere"}))
    transport = Transport(base_url=stub.url, retry=QUICK)
    with pytest.raises(ProtocolError, match="drops the body") as caught:
        await transport.request("POST", "/x", json={"n": 1})
    await transport.aclose()
    assert caught.value.status == status
    assert caught.value.ambiguous is (status == 303)
    assert stub.url in str(caught.value.hint)


async def test_a_redirect_that_keeps_the_body(stub: Stub) -> None:
    """307 is followed with method and body, as servers that mind a trailing slash need it."""
    stub.script(Answer(307, headers={"Location": "/api/v1/x/"}))
    transport = Transport(base_url=stub.url, api_key=CANARY, retry=QUICK)
    await transport.request("POST", "/x", json={"n": 1})
    await transport.aclose()
    last = stub.requests[-1]
    assert (last.method, last.path, last.json()) == ("POST", "/api/v1/x/", {"n": 1})
    assert last.headers["Authorization"] == f"Bearer {CANARY}"


async def test_a_redirect_to_another_host_says_why_the_key_is_missing(stub: Stub) -> None:
    """The key stays with the address it was given for; the 401 that follows names the cure."""
    async with Stub() as other:
        other.default = Answer(401)
        stub.default = Answer(302, headers={"Location": f"{other.url}/api/v1/x"})
        transport = Transport(base_url=stub.url, api_key=CANARY, retry=QUICK)
        with pytest.raises(UnauthorizedError, match="redirects to") as caught:
            await transport.request("GET", "/x")
        await transport.aclose()
        assert other.url in str(caught.value.hint)
        assert "Authorization" not in other.requests[0].headers


@pytest.mark.parametrize(
    "answer",
    [
        NOTHING,
        Answer(200, length=100, body=b"x", end="cut"),
        Answer(200, headers={"Content-Length": "x"}),
        Answer(200, headers={"Content-Encoding": "gzip"}, body=b"no gzip"),
        Answer(302, headers={"Location": "/api/v1/x"}),
        Answer(302, headers={"Location": "ftp://x/"}),
    ],
)
async def test_the_key_is_in_no_cause(stub: Stub, answer: Answer) -> None:
    """Neither in what aiohttp's errors hold, nor in the variables of any frame on their way."""
    stub.default = answer
    transport = Transport(base_url=stub.url, api_key=CANARY, retry=QUICK)
    with pytest.raises(APIError) as caught:
        await transport.request("GET", "/x")
    await transport.aclose()
    known: BaseException | None = caught.value
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert CANARY not in "".join(told.format())
    while known is not None:
        assert CANARY not in f"{known!r} {vars(known)!r}"
        known = known.__cause__ or known.__context__


async def test_time_that_ends_before_anything_was_sent(stub: Stub) -> None:
    """At the gate a POST was certainly not carried out; on a connection it may have been."""
    stub.script(Answer(429, headers={"Retry-After": "30"}), Answer())
    transport = Transport(base_url=stub.url, retry=QUICK)
    with pytest.raises(RateLimitError):
        await transport.request("GET", "/x", timeout=5)
    with pytest.raises(APITimeoutError) as caught:
        await transport.request("POST", "/x", json={}, timeout=0.02)
    assert (caught.value.ambiguous, caught.value.hint) == (False, None)
    assert len(stub.requests) == 1
    await transport.aclose()
    fresh = Transport(base_url=stub.url, retry=QUICK)
    await fresh.request("GET", "/x")  # there is a connection then
    stub.default = Answer(status=0, end="silent")
    with pytest.raises(APITimeoutError, match="may have been carried out") as caught:
        await fresh.request("POST", "/x", json={}, timeout=0.05)
    assert caught.value.ambiguous
    await fresh.aclose()


class _Failing:
    """A body whose file cannot be read any more."""

    content_type = "application/octet-stream"
    size = 100

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def stream(self) -> AsyncGenerator[bytes, None]:
        yield b"abc"
        raise self._error


@pytest.mark.parametrize("error", [OSError(5, "became shorter"), ValueError("of the user")])
async def test_what_the_source_of_a_body_raises(stub: Stub, error: Exception) -> None:
    """It is raised as it is, and no fault of the connection: nothing is sent again."""
    transport = Transport(base_url=stub.url, retry=QUICK)
    with pytest.raises(type(error)) as caught:
        await transport.request("PUT", "/x", body=_Failing(error))
    await transport.aclose()
    assert caught.value is error
    assert stub.connections == 1


async def test_a_refusal_without_end(stub: Stub) -> None:
    """Of the body of a refusal so much is read as helps, and its status counts."""
    stub.default = Answer(500, pieces=[b"x" * 2**20] * 5, end="silent")
    transport = Transport(base_url=stub.url, retry=QUICK)
    with pytest.raises(ServerError) as caught:
        await transport.request("POST", "/x", json={})
    await transport.aclose()
    assert caught.value.status == 500


async def test_the_resolver_is_part_of_connecting(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is never found ends with the limit for connections, and nothing was sent."""

    async def never(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
    monkeypatch.setattr("prime_async.transport.sessions.CONNECT_TIMEOUT", 0.01)
    transport = Transport(base_url="http://platform.test", retry=QUICK)
    with pytest.raises(APITimeoutError) as caught:
        await transport.request("POST", "/x", json={})
    await transport.aclose()
    assert (caught.value.budget, caught.value.ambiguous) == ("connect", False)


async def test_a_proxy_that_never_answers_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way through a proxy is part of connecting too."""
    silent = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
    monkeypatch.setattr("prime_async.transport.sessions.CONNECT_TIMEOUT", 0.02)
    transport = Transport(base_url="https://platform.test", retry=QUICK)
    try:
        with pytest.raises(APITimeoutError) as caught:
            await transport.request("POST", "/x", json={})
    finally:
        silent.set()
        await transport.aclose()
        server.close()
    assert (caught.value.budget, caught.value.ambiguous) == ("connect", False)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"headers": {"X-A": "b\r\nX-Evil: 1"}}, "headers"),
        ({"headers": {"X A": "b"}}, "headers"),
        ({"headers": {"X-A": 5}}, "headers"),
        ({"idempotency_key": "b\nX-Evil: 1"}, "headers"),
        ({"method": "GET / HTTP/1.1\r\nX:"}, "method"),
    ],
)
async def test_nothing_is_smuggled_into_a_head(stub: Stub, wrong: Any, field: str) -> None:
    """What would end a line of the head is refused by name; nothing is sent."""
    transport = Transport(base_url=stub.url, retry=QUICK)
    with pytest.raises(UsageError) as caught:
        await transport.request(**{"method": "POST", "path": "/x", **wrong})
    await transport.aclose()
    assert caught.value.field == field
    assert stub.requests == []


async def test_what_a_platform_says_does_not_steer_a_terminal(stub: Stub) -> None:
    """Colours and carriage returns stay out of the message; the detail is as it was sent."""
    stub.default = Answer(400, json={"detail": "\x1b[31mred\r\x9b1mloud"})
    transport = Transport(base_url=stub.url, retry=QUICK)
    with pytest.raises(BadRequestError) as caught:
        await transport.request("GET", "/x")
    await transport.aclose()
    assert str(caught.value).isprintable()
    assert caught.value.detail == "\x1b[31mred\r\x9b1mloud"


@pytest.mark.parametrize("status", [101, 304])
async def test_only_2xx_is_an_answer(stub: Stub, status: int) -> None:
    """What is neither an answer nor a redirect is refused, and not taken for an empty object."""
    stub.default = Answer(status)
    transport = Transport(base_url=stub.url, retry=QUICK)
    with pytest.raises(APIError) as caught:
        await transport.request("GET", "/x")
    await transport.aclose()
    assert caught.value.status == status
    assert not isinstance(caught.value, TransportError)
