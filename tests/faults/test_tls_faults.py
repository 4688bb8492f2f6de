"""Every transport shape meets handshakes that fail: nothing was sent, all may be repeated."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_async.errors import APIConnectionError, APITimeoutError
from prime_async.transport import RetryBudget, Transport
from tests.certs import Authority
from tests.faults.conftest import QUICK
from tests.faults.plan import Break, FaultPlan, How, Moment, WrongCertificate, on
from tests.faults.proxy import FaultProxy
from tests.faults.shapes import SHAPES, Shape, ThingsPlatform

_SHORT = 0.3


@pytest.fixture
async def platform(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ThingsPlatform]:
    """A platform; its authority is trusted."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.write_pem(tmp_path / "ca.pem")))
    async with ThingsPlatform() as server:
        yield server


@pytest.fixture
async def proxy(platform: ThingsPlatform, authority: Authority) -> AsyncIterator[FaultProxy]:
    """A proxy in front of it that ends TLS."""
    address = ("127.0.0.1", platform.port)
    async with FaultProxy(address, ssl=authority.server_context()) as server:
        yield server


@pytest.fixture
async def transport(proxy: FaultProxy) -> AsyncIterator[Transport]:
    """A transport that repeats quickly."""
    client = Transport(base_url=proxy.url, api_key="k", retry=QUICK, budget=RetryBudget())
    yield client
    await client.aclose()


@pytest.fixture(params=["another authority", "another name"])
def wrong(request: pytest.FixtureRequest, authority: Authority) -> ssl.SSLContext:
    """A certificate that must not be believed."""
    if request.param == "another name":
        return authority.server_context("other.test")
    return Authority().server_context()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("how", ["reset", "cut"])
async def test_one_handshake_fails(
    shape: Shape, how: How, transport: Transport, proxy: FaultProxy, platform: ThingsPlatform
) -> None:
    """The call comes through at the second try, whatever it is."""
    proxy.plan = FaultPlan([Break(how, Moment.ACCEPT)])
    assert await shape.call(transport, 10.0) == shape.good
    assert sum(platform.carried_out.values()) == shape.writes


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("how", ["reset", "cut", "garbage"])
async def test_every_handshake_fails(
    shape: Shape, how: How, transport: Transport, proxy: FaultProxy, platform: ThingsPlatform
) -> None:
    """The call gives up with a connection error; nothing was sent, and the error knows it."""
    proxy.plan = FaultPlan([on(Break(how, Moment.ACCEPT), times=None)])
    with pytest.raises(APIConnectionError) as caught:
        await shape.call(transport, 10.0)
    assert not caught.value.ambiguous
    assert proxy.connections <= 4
    assert platform.requests == []


async def test_a_server_without_tls(transport: Transport, proxy: FaultProxy) -> None:
    """What does not speak TLS is not asked again, and the hint is about the address."""
    proxy.plan = FaultPlan([on(Break("garbage", Moment.ACCEPT), times=None)])
    with pytest.raises(APIConnectionError, match="does this address speak https"):
        await SHAPES[0].call(transport, 10.0)
    assert proxy.connections == 1


@pytest.mark.parametrize("shape", SHAPES, ids=str)
async def test_a_silent_handshake(shape: Shape, transport: Transport, proxy: FaultProxy) -> None:
    """The deadline ends it."""
    proxy.plan = FaultPlan([on(Break("silence", Moment.ACCEPT), times=None)])
    began = time.monotonic()
    with pytest.raises(APITimeoutError):
        await shape.call(transport, _SHORT)
    assert time.monotonic() - began < _SHORT + 2


@pytest.mark.parametrize("shape", SHAPES, ids=str)
async def test_a_wrong_certificate(
    shape: Shape,
    wrong: ssl.SSLContext,
    transport: Transport,
    proxy: FaultProxy,
    platform: ThingsPlatform,
) -> None:
    """Refused at the first try, with a word on the variables; nothing was sent."""
    proxy.plan = FaultPlan([on(WrongCertificate(wrong), times=None)])
    with pytest.raises(APIConnectionError, match="SSL_CERT_FILE") as caught:
        await shape.call(transport, 10.0)
    assert not caught.value.ambiguous
    assert proxy.connections == 1
    assert platform.requests == []
