"""The stub does what the tests that stand on it believe."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests import stub as stubs
from tests.certs import Authority
from tests.loopback import OutsideConnectionError
from tests.stub import Answer, Request, Stub, stub_in_thread


async def test_logs_what_arrived(stub: Stub) -> None:
    """Method, path, query, headers, body and connection number of each request are kept."""
    async with aiohttp.ClientSession() as session:
        for number in (1, 2):
            await (await session.post(f"{stub.url}/a/b?x={number}", json={"n": number})).read()
    assert [(r.method, r.path, r.query, r.json()) for r in stub.requests] == [
        ("POST", "/a/b", {"x": "1"}, {"n": 1}),
        ("POST", "/a/b", {"x": "2"}, {"n": 2}),
    ]
    assert {request.connection for request in stub.requests} == {1}
    assert stub.connections == 1


async def test_script_then_routes_then_default(stub: Stub) -> None:
    """The script goes first, once each; then the newest route that matches; then the default."""

    async def echo(request: Request) -> Answer:
        return Answer(201, json={"path": request.path})

    stub.route("GET", "/things/.*", echo)
    stub.script(Answer(429, headers={"Retry-After": "3"}))
    async with aiohttp.ClientSession() as session:
        statuses = [
            (await session.get(stub.url + path)).status for path in ("/things/1", "/things/1", "/")
        ]
    assert statuses == [429, 201, 200]
    assert len(stub.seen("GET", "/things/1")) == 2


async def test_reads_chunked_uploads(stub: Stub) -> None:
    """A body sent in chunks is put together."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    async with aiohttp.ClientSession() as session:
        await session.post(stub.url, data=pieces())
    assert stub.requests[0].body == b"one two"


@pytest.mark.parametrize("end", ["cut", "reset"])
async def test_breaks_off_in_the_body(stub: Stub, end: str) -> None:
    """A cut or reset in the body reaches the client as a payload error."""
    stub.script(Answer(body=b"12345", length=10, end=end))  # type: ignore[arg-type]
    async with aiohttp.ClientSession() as session:
        response = await session.get(stub.url)
        with pytest.raises(aiohttp.ClientError):
            await response.read()


@pytest.mark.parametrize("end", ["cut", "reset"])
async def test_closes_without_an_answer(stub: Stub, end: str) -> None:
    """No answer at all is possible too."""
    stub.script(Answer(status=0, end=end))  # type: ignore[arg-type]
    async with aiohttp.ClientSession() as session:
        with pytest.raises((aiohttp.ClientError, ConnectionResetError)):
            await session.post(stub.url, data=b"x")
    assert stub.requests[0].body == b"x"
    assert stubs.NOTHING.end == "cut"


async def test_stays_silent(stub: Stub) -> None:
    """A silent stub keeps the connection and says nothing."""
    stub.script(Answer(status=0, end="silent"))
    timeout = aiohttp.ClientTimeout(total=0.05)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        with pytest.raises(TimeoutError):
            await session.get(stub.url)


async def test_sends_pieces(stub: Stub) -> None:
    """A body in pieces goes out chunked, with pauses."""
    stub.script(Answer(pieces=[b"a", 0.001, b"bc"]))
    async with aiohttp.ClientSession() as session:
        assert await (await session.get(stub.url)).read() == b"abc"


async def test_serves_tls(authority: Authority, tmp_path: Path) -> None:
    """With a server context the stub speaks TLS and only its authority is believed."""
    trust = ssl.create_default_context(cafile=authority.write_pem(tmp_path / "ca.pem"))
    async with Stub(ssl=authority.server_context()) as stub, aiohttp.ClientSession() as session:
        assert (await session.get(stub.url, ssl=trust)).status == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(stub.url)


async def test_is_a_proxy_for_plain_requests(stub: Stub) -> None:
    """An absolute target is answered here, with the login checked."""
    stub.proxy_login = ("u", "p@ss")
    stub.route("GET", "/a", Answer(json={"proxied": True}))
    proxy = f"http://127.0.0.1:{stub.port}"
    async with aiohttp.ClientSession() as session:
        assert (await session.get("http://platform.test/a", proxy=proxy)).status == 407
        login = {"Proxy-Authorization": aiohttp.encode_basic_auth("u", "p@ss")}
        allowed = await session.get("http://platform.test/a", proxy=proxy, headers=login)
        assert await allowed.json() == {"proxied": True}
    assert stub.requests[-1].target == "http://platform.test/a"
    assert stub.requests[-1].proxy_login == ("u", "p@ss")


async def test_is_a_proxy_for_tls(stub: Stub, authority: Authority, tmp_path: Path) -> None:
    """CONNECT leads to the chosen server; names that do not exist are never looked up here."""
    trust = ssl.create_default_context(cafile=authority.write_pem(tmp_path / "ca.pem"))
    context = authority.server_context("platform.test")
    async with Stub(ssl=context) as origin, aiohttp.ClientSession() as session:
        stub.tunnel_to = ("127.0.0.1", origin.port)
        answer = await session.get("https://platform.test/x", proxy=stub.url, ssl=trust)
        assert answer.status == 200
    assert stub.requests[0].target == "platform.test:443"
    assert origin.requests[0].path == "/x"


def test_serves_from_a_thread() -> None:
    """Sync clients use a stub in its own thread."""
    with stub_in_thread() as stub:
        connection = http.client.HTTPConnection("127.0.0.1", stub.port)
        connection.request("GET", "/sync")
        assert connection.getresponse().status == 200
        connection.close()
    assert stub.requests[0].path == "/sync"


async def test_nothing_leaves_this_machine() -> None:
    """Names and addresses other than loopback are refused before a packet goes out."""
    with pytest.raises(OutsideConnectionError):
        socket.getaddrinfo("example.com", 80)
    with socket.socket() as sock, pytest.raises(OutsideConnectionError):
        sock.connect(("192.0.2.1", 80))
