"""Field reports, group H: company proxies and private authorities, on every code path."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prime_async.errors import APIConnectionError, PrimeError
from prime_async.evals import AsyncEvalsClient
from prime_async.transport import Transport
from prime_sync import EvalsClient
from tests.certs import Authority
from tests.cli.harness import run_command
from tests.official_stub import EVALUATION, OfficialStub
from tests.stub import Stub, stub_in_thread

LOGIN = ("u", "p@ss")
SAMPLES = [{"example_id": 1}]


def _async_call(url: str) -> None:
    async def main() -> None:
        async with AsyncEvalsClient("key", base_url=url) as client:
            # Twice: the second request goes over the connection that is there already.
            for _ in range(2):
                assert (await client.get_evaluation(EVALUATION)).name == "e"

    asyncio.run(main())


def _async_push(url: str) -> None:
    async def main() -> None:
        async with AsyncEvalsClient("key", base_url=url) as client:
            assert (await client.push_samples(EVALUATION, SAMPLES)).complete

    asyncio.run(main())


def _async_stream(url: str) -> None:
    async def main() -> None:
        transport = Transport(base_url=url, api_key="key")
        async with transport.stream("GET", f"/evaluations/{EVALUATION}") as stream:
            assert [piece async for piece in stream.iter_bytes()]
        await transport.aclose()

    asyncio.run(main())


def _sync_call(url: str) -> None:
    with EvalsClient(api_key="key", base_url=url) as client:
        assert client.get_evaluation(EVALUATION).name == "e"


def _sync_push(url: str) -> None:
    with EvalsClient(api_key="key", base_url=url) as client:
        assert client.push_samples(EVALUATION, SAMPLES).complete


def _command(url: str) -> None:
    env = {"PRIME_API_KEY": "key", "PRIME_API_BASE_URL": url}
    ran = run_command("eval", "get", EVALUATION, "--output", "json", env=env)
    assert LOGIN[1] not in ran.everything
    if ran.code:
        raise PrimeError(ran.err)


Way = Callable[[str], None]
WAYS = [
    pytest.param(way, id=way.__name__.strip("_"))
    for way in (_async_call, _async_push, _async_stream, _sync_call, _sync_push, _command)
]


@pytest.fixture
def origin(authority: Authority) -> Iterator[OfficialStub]:
    """A platform that speaks TLS under a name that exists only behind the proxy."""
    context = authority.server_context("platform.test", "localhost", "127.0.0.1")
    with stub_in_thread(OfficialStub(ssl=context)) as server:
        assert isinstance(server, OfficialStub)
        yield server


@pytest.fixture
def proxy(origin: OfficialStub) -> Iterator[Stub]:
    """A proxy that wants a login; what it is asked for in the clear it answers as a platform."""
    server = OfficialStub()
    server.proxy_login = LOGIN
    server.tunnel_to = ("127.0.0.1", origin.port)
    with stub_in_thread(server):
        yield server


def _address(proxy: Stub) -> str:
    return f"http://u:p%40ss@127.0.0.1:{proxy.port}"


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Every log line; none may hold the password."""
    caplog.set_level(logging.DEBUG)
    yield caplog
    for form in ("p@ss", "p%40ss", "dTpwQHNz"):
        assert form not in caplog.text


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.usefixtures("logs")
def test_FR30_https_through_the_proxy(
    way: Way,
    variable: str,
    proxy: Stub,
    origin: OfficialStub,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every client tunnels through the proxy, with name and password decoded."""
    monkeypatch.setenv(variable, _address(proxy))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.write_pem(tmp_path / "ca.pem")))
    way("https://platform.test")
    assert proxy.requests
    assert {request.target for request in proxy.requests} == {"platform.test:443"}
    assert {request.proxy_login for request in proxy.requests} == {LOGIN}
    assert origin.requests
    assert not any("Proxy-Authorization" in request.headers for request in origin.requests)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
@pytest.mark.usefixtures("logs")
def test_FR30_http_through_the_proxy(
    way: Way, variable: str, proxy: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the clear as well, on the first request of a connection and on later ones."""
    if variable == "HTTP_PROXY":
        # Python ignores the upper-case name where it could come from a request header (CGI).
        monkeypatch.delenv("REQUEST_METHOD", raising=False)
    monkeypatch.setenv(variable, _address(proxy))
    way("http://platform.test")
    assert proxy.requests
    assert all(r.target.startswith("http://platform.test/") for r in proxy.requests)
    assert {request.proxy_login for request in proxy.requests} == {LOGIN}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
def test_FR30_no_proxy_hosts_go_direct(
    way: Way, variable: str, proxy: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts that NO_PROXY names are reached without the proxy."""
    monkeypatch.setenv("HTTP_PROXY", _address(proxy))
    monkeypatch.setenv(variable, "example.test,localhost")
    with stub_in_thread(OfficialStub()) as direct:
        way(f"http://localhost:{direct.port}")
        assert direct.requests
    assert proxy.requests == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.usefixtures("logs")
def test_FR30_a_refused_login_is_said(
    way: Way, scheme: str, proxy: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that refuses the login is an error that says 407, soon, without the password."""
    proxy.proxy_login = ("other", "login")
    monkeypatch.setenv(f"{scheme.upper()}_PROXY", _address(proxy))
    with pytest.raises(PrimeError, match="407") as caught:
        way(f"{scheme}://platform.test")
    assert "p@ss" not in str(caught.value)
    assert "p%40ss" not in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_FR31_an_unknown_authority_is_refused(way: Way, origin: OfficialStub) -> None:
    """Without the variables the call fails, and the message names them."""
    with pytest.raises(PrimeError) as caught:
        way(origin.url)
    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"):
        assert variable in _everything(caught.value)
    assert origin.requests == []


def _everything(error: BaseException) -> str:
    cause = error.__cause__
    return f"{error} {_everything(cause) if cause else ''}"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "variable", ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "PRIME_CA_BUNDLE"]
)
def test_FR31_the_variables_are_obeyed(
    way: Way,
    variable: str,
    origin: OfficialStub,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With any of them set, every code path works."""
    folder = variable == "SSL_CERT_DIR"
    write = authority.write_folder if folder else authority.write_pem
    monkeypatch.setenv(variable, str(write(tmp_path / ("certs" if folder else "ca.pem"))))
    way(origin.url)
    assert origin.requests


async def test_FR31_another_name_is_refused(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trusted authority does not make up for a certificate of another host."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.write_pem(tmp_path / "ca.pem")))
    async with (
        Stub(ssl=authority.server_context("other.test")) as server,
        AsyncEvalsClient("key", base_url=server.url) as client,
    ):
        with pytest.raises(APIConnectionError, match="certificate"):
            await client.get_evaluation(EVALUATION)
    assert server.requests == []
