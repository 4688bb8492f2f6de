"""`local stop` and the sandboxes of the daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_async import local
from tests.server.sandboxes.usable import needs_bubblewrap
from tests.server.wire import Wire

pytestmark = needs_bubblewrap


@pytest.fixture
async def daemon(home: Path) -> AsyncIterator[Path]:
    """A home whose platform, and whatever lives in it, is gone in the end."""
    yield home
    await local.ensure_running()
    await local.stop(all=True)


async def made(address: local.LocalAddress) -> str:
    async with Wire(address.base_url, address.api_key) as wire:
        reply = await wire.post("/sandbox", {"name": "x", "docker_image": "ubuntu:24.04"})
        assert reply.status == 200, reply
        sandbox_id: str = reply.json["id"]
        while (status := await told(address, sandbox_id)) in ("PENDING", "PROVISIONING"):
            continue
        assert status == "RUNNING", (await wire.get(f"/sandbox/{sandbox_id}")).json["errorMessage"]
        return sandbox_id


async def told(address: local.LocalAddress, sandbox_id: str) -> str:
    async with Wire(address.base_url, address.api_key) as wire:
        status: str = (await wire.get(f"/sandbox/{sandbox_id}")).json["status"]
        return status


async def test_a_stop_leaves_sandboxes_to_be_adopted_and_all_ends_them(daemon: Path) -> None:
    """Status counts them; after a plain stop and a start they run; after --all they are gone."""
    address = await local.ensure_running()
    box = await made(address)
    assert (await local.status()).live == 1
    stopped = await local.stop()
    assert (stopped.was_running, stopped.killed, stopped.ended) == (True, False, None)
    assert stopped.sandboxes == (box,)
    address = await local.ensure_running()
    assert await told(address, box) == "RUNNING"
    assert (await local.status()).live == 1
    stopped = await local.stop(all=True)
    assert (stopped.killed, stopped.ended, stopped.sandboxes) == (False, 1, (box,))
    address = await local.ensure_running()
    assert await told(address, box) == "TERMINATED"
    assert (await local.status()).live == 0
