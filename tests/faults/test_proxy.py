"""The fault proxy does to an exchange exactly what its plan says."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.certs import Authority
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
    WrongCertificate,
    WrongLength,
    gets,
    on,
    path,
    posts,
)
from tests.faults.proxy import FaultProxy
from tests.stub import Answer, Stub

BODY = b'{"answer": "all of it"}'


@pytest.fixture
async def proxy(stub: Stub) -> AsyncIterator[FaultProxy]:
    """A proxy without faults in front of the stub."""
    stub.default = Answer(body=BODY)
    async with FaultProxy(("127.0.0.1", stub.port)) as server:
        yield server


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that gives up after a third of a second."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.3)) as client:
        yield client


async def _post(session: aiohttp.ClientSession, url: str, **kwargs: Any) -> tuple[int, bytes]:
    async with session.post(url, data=b"request body", **kwargs) as response:
        return response.status, await response.read()


async def test_without_a_plan_it_changes_nothing(
    stub: Stub, proxy: FaultProxy, session: aiohttp.ClientSession
) -> None:
    """Requests, sized and chunked, and answers, sized and chunked, go through unchanged."""
    stub.script(Answer(body=BODY), Answer(pieces=[b"one ", b"two"]), Answer(204))

    async def pieces() -> AsyncIterator[bytes]:
        yield b"chunk"
        yield b"ed"

    assert await _post(session, f"{proxy.url}/a?b=c") == (200, BODY)
    async with session.post(proxy.url, data=pieces()) as response:
        assert await response.read() == b"one two"
    assert (await session.get(proxy.url)).status == 204
    assert [request.body for request in stub.requests] == [b"request body", b"chunked", b""]
    assert stub.requests[0].target == "/a?b=c"
    assert [(e.executed, e.forwarded) for e in proxy.exchanges] == [
        (True, 12),
        (True, 7),
        (True, 0),
    ]
    assert proxy.connections == stub.connections == 1


@pytest.mark.parametrize("how", ["reset", "cut", "silence", "garbage"])
@pytest.mark.parametrize("moment", list(Moment))
async def test_breaks_at_every_moment(
    stub: Stub, proxy: FaultProxy, session: aiohttp.ClientSession, moment: Moment, how: How
) -> None:
    """The client fails, unless it had the whole answer; the server knows what the moment says."""
    proxy.plan.add(Break(how, moment, after=5))
    if moment is Moment.RESPONSE_END:
        # Noise right behind a whole answer may spoil it in the client: it is read as the next one.
        with contextlib.suppress(aiohttp.ClientResponseError):
            assert await _post(session, proxy.url) == (200, BODY)
    else:
        with pytest.raises((aiohttp.ClientError, ConnectionError, TimeoutError)) as caught:
            await _post(session, proxy.url)
        assert isinstance(caught.value, TimeoutError) == (how == "silence")
    executed = [exchange.executed for exchange in proxy.exchanges]
    assert executed == ([] if moment is Moment.ACCEPT else [moment.executed])
    assert [r.complete for r in stub.requests] == _known_to_server(moment)
    async with aiohttp.ClientSession() as another:  # the first may hold the broken connection
        assert await _post(another, proxy.url) == (200, BODY)


def _known_to_server(moment: Moment) -> list[bool]:
    if moment in (Moment.ACCEPT, Moment.REQUEST_HEAD):
        return []
    return [moment is not Moment.REQUEST_BODY]


async def test_reset_and_cut_differ(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """A reset is an RST on the wire, a cut an orderly end."""
    proxy.plan = FaultPlan([Break("reset", Moment.EXECUTED), Break("cut", Moment.EXECUTED)])
    with pytest.raises(aiohttp.ClientOSError, match="reset by peer"):
        await _post(session, proxy.url)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await _post(session, proxy.url)


@pytest.mark.parametrize("executed", [False, True])
@pytest.mark.parametrize("retry_after", [None, "7", "Mon, 01 Dec 2036 10:00:00 GMT"])
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504])
async def test_answers_with_a_status(
    proxy: FaultProxy,
    session: aiohttp.ClientSession,
    status: int,
    retry_after: str | None,
    executed: bool,
) -> None:
    """Any status, with either form of Retry-After, before or after the server's work."""
    proxy.plan.add(Status(status, retry_after, executed=executed))
    async with session.post(proxy.url, data=b"x") as response:
        assert response.status == status
        assert response.headers.get("Retry-After") == retry_after
        assert await response.json() == {"detail": "made up by the fault proxy"}
    assert proxy.exchanges[0].executed is executed
    assert proxy.exchanges[0].forwarded == (1 if executed else 0)
    assert proxy.connections == 1


@pytest.mark.parametrize("executed", [False, True])
async def test_delays(proxy: FaultProxy, session: aiohttp.ClientSession, executed: bool) -> None:
    """The answer comes late, whole."""
    proxy.plan.add(Delay(0.05, executed=executed))
    before = time.monotonic()
    assert await _post(session, proxy.url) == (200, BODY)
    assert time.monotonic() - before >= 0.05


async def test_drips_the_body(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """A slow body arrives in small pieces, whole."""
    proxy.plan.add(SlowBody(piece=5, pause=0.001))
    async with session.get(proxy.url) as response:
        pieces = [piece async for piece in response.content.iter_any()]
    assert b"".join(pieces) == BODY
    assert len(pieces) > 2


async def test_promises_too_much(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """A Content-Length that is too long leaves the client waiting on an open connection."""
    proxy.plan.add(WrongLength(+3))
    with pytest.raises(TimeoutError):
        await _post(session, proxy.url)


async def test_promises_too_little(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """A Content-Length that is too short shows the client a part, or noise after the answer."""
    proxy.plan.add(WrongLength(-3))
    with contextlib.suppress(aiohttp.ClientResponseError):
        assert await _post(session, proxy.url) == (200, BODY[:-3])


@pytest.mark.parametrize("kind", ["damaged", "short", "plain"])
async def test_damages_gzip(proxy: FaultProxy, session: aiohttp.ClientSession, kind: Any) -> None:
    """What claims to be gzip cannot be unpacked."""
    proxy.plan.add(BadGzip(kind))
    try:
        status, body = await _post(session, proxy.url)
    except aiohttp.ClientError:
        return
    # aiohttp takes a stream whose end is missing for a whole one.
    assert (kind, status) == ("short", 200)
    assert body != BODY


async def test_answers_with_garbage(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """What is not HTTP is a client error."""
    proxy.plan.add(Garbage())
    with pytest.raises(aiohttp.ClientError):
        await _post(session, proxy.url)
    assert proxy.exchanges[0].executed


async def test_rules_pick_their_requests(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """Each request meets the first rule that matches and is not used up."""
    proxy.plan = FaultPlan(
        [
            on(Status(503), when=posts, times=2),
            on(Status(404), when=path("/gone", "GET"), times=None),
            on(Status(502), when=gets),
        ]
    )
    got = [(await session.get(f"{proxy.url}/gone")).status for _ in range(3)]
    sent = [(await session.post(proxy.url)).status for _ in range(3)]
    assert (got, sent) == ([404, 404, 404], [503, 503, 200])
    assert not proxy.plan.spent
    assert (await session.get(proxy.url)).status == 502
    assert proxy.plan.spent


async def test_refuses_connections_when_closed_and_comes_back(
    proxy: FaultProxy, session: aiohttp.ClientSession
) -> None:
    """Closed, connecting is refused; started again, it serves on the same port."""
    url = proxy.url
    await proxy.aclose()
    with pytest.raises(aiohttp.ClientConnectorError):
        await session.get(url)
    await proxy.start()
    assert (await session.get(url)).status == 200


async def test_closing_is_no_failure(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """With connections open, nothing is said of it."""
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    proxy.plan = FaultPlan([on(Delay(60))])

    async def get() -> None:
        await session.get(proxy.url)

    waiting = asyncio.create_task(get())
    while not proxy.exchanges:
        await asyncio.sleep(0)
    await proxy.aclose()
    with pytest.raises(aiohttp.ClientError):
        await waiting
    await asyncio.sleep(0)
    assert failures == []


async def test_an_early_refusal_gets_through(stub: Stub, session: aiohttp.ClientSession) -> None:
    """A server that answers before it has read the body, and hangs up, is still heard."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.write_eof()
        while await reader.read(65536):
            pass
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with (
        server,
        FaultProxy(server.sockets[0].getsockname()) as proxy,
        session.post(proxy.url, data=b"x" * 1000) as response,
    ):
        assert response.status == 413


async def test_talks_to_a_unix_socket(session: aiohttp.ClientSession, tmp_path: Path) -> None:
    """The server behind may listen on a unix socket."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, tmp_path / "s")
    async with server, FaultProxy(str(tmp_path / "s")) as proxy:
        assert await (await session.get(proxy.url)).read() == b"ok"


@pytest.fixture
def trust(authority: Authority, tmp_path: Path) -> ssl.SSLContext:
    """A client context that believes the authority of the tests."""
    return ssl.create_default_context(cafile=authority.write_pem(tmp_path / "ca.pem"))


@pytest.mark.parametrize("how", ["reset", "cut", "garbage", "silence"])
async def test_breaks_the_tls_handshake(
    stub: Stub, authority: Authority, trust: ssl.SSLContext, how: How
) -> None:
    """A handshake may be cut, reset, answered with noise or not at all; the next one works."""
    plan = FaultPlan([Break(how, Moment.ACCEPT)])
    address = ("127.0.0.1", stub.port)
    timeout = aiohttp.ClientTimeout(total=0.3)
    async with (
        FaultProxy(address, plan, ssl=authority.server_context()) as proxy,
        aiohttp.ClientSession(timeout=timeout) as session,
    ):
        with pytest.raises((aiohttp.ClientError, TimeoutError)):
            await session.get(proxy.url, ssl=trust)
        assert (await session.get(proxy.url, ssl=trust)).status == 200


async def test_shows_a_wrong_certificate(
    stub: Stub, authority: Authority, trust: ssl.SSLContext, session: aiohttp.ClientSession
) -> None:
    """The certificate of another authority, and one for another name, are refused by the client."""
    plan = FaultPlan(
        [
            WrongCertificate(Authority().server_context()),
            WrongCertificate(authority.server_context("other.test")),
        ]
    )
    address = ("127.0.0.1", stub.port)
    async with FaultProxy(address, plan, ssl=authority.server_context()) as proxy:
        for _ in range(2):
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await session.get(proxy.url, ssl=trust)
        assert (await session.get(proxy.url, ssl=trust)).status == 200


def test_faults_are_told_apart() -> None:
    """Faults are values: equal ones are equal, so that a table can name them."""
    fault: Fault = Break("cut", Moment.EXECUTED)
    assert fault == Break("cut", Moment.EXECUTED) != Break("reset", Moment.EXECUTED)
