"""Programs that are ended in the middle leave no sandbox: the sync face, and many clients."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prime_async import AsyncSandboxClient, CreateSandboxRequest
from tests.meters import open_descriptors
from tests.sandbox_double import SandboxDouble

REQUEST = CreateSandboxRequest(name="x", docker_image="i")

SCRIPT = """
import sys, time
from prime_sync import CreateSandboxRequest, SandboxClient

request = CreateSandboxRequest(name="x", docker_image="i")
with SandboxClient(api_key="k", base_url=sys.argv[1]) as client, client.sandbox(request) as box:
    print("up", flush=True)
    if sys.argv[2] == "command":
        client.execute_command(box.id, "sleep 60")
    time.sleep(60)
"""


@pytest.mark.parametrize("busy", ["idle", "command"])
@pytest.mark.parametrize(
    ("number", "codes"), [(signal.SIGINT, {130, -signal.SIGINT}), (signal.SIGTERM, {143})]
)
async def test_a_sync_program_that_is_told_to_end(
    double: SandboxDouble, number: signal.Signals, codes: set[int], busy: str
) -> None:
    """Ctrl-C and SIGTERM, between two calls and inside one: the sandbox is deleted at once."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SCRIPT,
        double.url,
        busy,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    async with asyncio.timeout(60):
        await child.stdout.readline()
        while len(double.requests("POST", "/Start")) < (2 if busy == "command" else 1):
            await asyncio.sleep(0.01)
        child.send_signal(number)
        assert await child.wait() in codes
    assert double.live == []
    assert len(double.sandboxes) == 1


async def test_FR07_many_blocks_leave_no_descriptor(double: SandboxDouble) -> None:
    """Clients and sandboxes that were closed hold nothing."""
    async with (
        AsyncSandboxClient(api_key="k", base_url=double.url) as client,
        client.sandbox(REQUEST, wait=False),
    ):
        pass
    before = open_descriptors()
    for _ in range(30):
        async with (
            AsyncSandboxClient(api_key="k", base_url=double.url) as client,
            client.sandbox(REQUEST) as box,
        ):
            await client.execute_command(box.id, "true")
    # The double keeps what its commands needed for a moment.
    async with asyncio.timeout(10):
        while open_descriptors() > before + 5:
            await asyncio.sleep(0.05)
    assert double.live == []


def test_FR02_one_client_on_many_loops(tmp_path: Path) -> None:
    """A client goes from loop to loop; its tokens, limits and writer come along."""
    double = SandboxDouble(tmp_path)

    async def one(client: AsyncSandboxClient | None) -> AsyncSandboxClient:
        async with double:
            client = client or AsyncSandboxClient(api_key="k", base_url=double.url, max_live=1)
            async with client.sandbox(REQUEST) as box:
                assert (await client.execute_command(box.id, "echo x")).stdout == "x\n"
            return client

    client = None
    for _ in range(5):
        client = asyncio.run(one(client))
    assert double.live == []
