"""The shim for aioresponses works, and is still needed."""

from __future__ import annotations

import aiohttp
import pytest
from aioresponses import core

from tests.aioresponses_shim import aioresponses as shimmed

URL = "http://platform.test/api/v1/evaluations/"


async def test_a_mocked_request_is_answered() -> None:
    """With the shim a mocked GET gives its payload."""
    with shimmed() as mocked:
        mocked.get(URL, payload={"total": 0})
        async with aiohttp.ClientSession() as session, session.get(URL) as response:
            assert await response.json() == {"total": 0}


async def test_the_shim_is_still_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the shim aioresponses fails; when this test fails, delete the shim."""
    monkeypatch.setattr(core, "ClientResponse", aiohttp.ClientResponse)
    with shimmed() as mocked:
        mocked.get(URL, payload={})
        async with aiohttp.ClientSession() as session:
            with pytest.raises(TypeError, match="stream_writer"):
                await session.get(URL)
