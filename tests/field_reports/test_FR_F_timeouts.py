"""Field reports, group F: a stream that goes silent without closing."""

from __future__ import annotations

import asyncio
import time

import pytest

from prime_async.errors import APITimeoutError
from prime_async.transport import Transport
from tests.stub import Answer, Stub


async def test_FR24_a_silent_stream_is_dead(stub: Stub) -> None:
    """One chunk, then nothing: an error within the limit for silence, and nothing is retried."""
    stub.default = Answer(pieces=[b"first\n"], end="silent")
    transport = Transport(base_url=stub.url)
    lines = []

    async def follow() -> None:
        async with transport.stream("GET", "/log", idle_timeout=0.3) as stream:
            async for line in stream.iter_lines():
                lines.append(line)

    began = time.monotonic()
    with pytest.raises(APITimeoutError, match=r"0\.3 s") as caught:
        await asyncio.wait_for(follow(), 20)
    await transport.aclose()
    assert lines == [b"first"]
    assert caught.value.budget == "idle"
    assert time.monotonic() - began < 10
    assert len(stub.requests) == 1
