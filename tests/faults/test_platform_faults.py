"""Every public call for sandboxes, jobs and images meets an outage and lost answers.

The calls are those of the classes, with the arguments of :mod:`tests.rules.arguments`: a new public
method is in the table by itself, and fails until an argument suits it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from prime_async import AsyncAPIClient, AsyncImageClient, AsyncSandboxClient, AsyncVolumes
from prime_async.errors import PrimeError, TransportError
from prime_async.transport import RetryBudget
from tests.faults.conftest import QUICK
from tests.faults.everything import Everything
from tests.faults.plan import Break, FaultPlan, Moment, Status, any_request, gets, on
from tests.faults.proxy import FaultProxy
from tests.http1 import Head
from tests.platform import KEY
from tests.rules.calls import PLATFORM_CALLS, TOLD_INSIDE, PublicCall

_CALLS = [
    call
    for call in PLATFORM_CALLS
    if call.kind in (AsyncSandboxClient, AsyncVolumes, AsyncImageClient)
]
_SECONDS, _FEW = 5.0, 1.5
_CLEANING = 20.0
_HARMLESS = re.compile(r"(:batchGet|/auth|/v1/sandbox)$")
"""POSTs that only read, and the one whose key is a part of its wire."""


@pytest.fixture
async def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FaultProxy]:
    """A platform with one of everything, behind a fault proxy."""
    monkeypatch.setattr("prime_async.transport.client.process_budget", RetryBudget())
    async with Everything(tmp_path) as double:
        double.fill()
        async with FaultProxy(("127.0.0.1", double.port)) as running:
            yield running


async def _failure(
    proxy: FaultProxy, call: PublicCall, seconds: float = _SECONDS
) -> PrimeError | None:
    """Carry a call out; it ends in time, with an error of ours or none."""
    async with AsyncAPIClient(KEY, base_url=proxy.url, retry=QUICK) as api:
        client = (AsyncImageClient if call.kind is AsyncImageClient else AsyncSandboxClient)(api)
        async with client:
            try:
                with anyio.fail_after(seconds + _CLEANING):
                    await call.on({call.owner: client}, timeout=seconds)
            except PrimeError as error:
                return error
    return None


@pytest.mark.parametrize("call", _CALLS, ids=repr)
async def test_the_platform_is_down(proxy: FaultProxy, call: PublicCall) -> None:
    """503 with Retry-After, always: the call ends in time, and its error says so."""
    proxy.plan = FaultPlan([on(Status(503, retry_after="0"), when=any_request, times=None)])
    failure = await _failure(proxy, call, _FEW)
    assert failure is not None or call.name in TOLD_INSIDE
    assert failure is None or "503" in str(failure) or isinstance(failure, TimeoutError)


def _writes(head: Head) -> bool:
    return head.method != "GET"


@pytest.mark.parametrize("call", _CALLS, ids=repr)
async def test_answers_are_lost(proxy: FaultProxy, call: PublicCall) -> None:
    """Carried out, answer lost, of the first read and the first write: done, answered after all, or
    said to be unknown.

    A POST or PATCH is sent once, but for those that only read and the one that carries its key.
    """
    lost = Break("reset", Moment.EXECUTED)
    proxy.plan = FaultPlan([on(lost, when=gets), on(lost, when=_writes)])
    failure = await _failure(proxy, call)
    lost_for_good = isinstance(failure, TransportError) and not failure.ambiguous
    assert not lost_for_good, repr(failure)
    sent = Counter(
        (each.method, each.target)
        for each in proxy.exchanges
        if each.method in ("POST", "PATCH") and not _HARMLESS.search(each.target)
    )
    assert [what for what, times in sent.items() if times > 1] == []
