"""The egress policy of running sandboxes: what is answered is what holds, at once and later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_async.server.runtimes.bubblewrap import BubblewrapRuntime
from prime_async.server.runtimes.dialing import GuardedDialer
from tests.platform import running_platform
from tests.server.sandboxes.boxes import Boxes
from tests.server.sandboxes.double import DoubleRuntime
from tests.server.sandboxes.usable import needs_bubblewrap

_FETCH = "python -c \"import urllib.request as u; print(u.urlopen('http://{}/').read().decode())\""


class World:
    """A server that every name and address leads to."""

    def __init__(self) -> None:
        self.port = 0

    async def resolve(self, name: str, port: int) -> Sequence[str]:
        return ["203.0.114.5"]

    async def connect(
        self, address: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        await writer.drain()
        writer.close()

    def runtime(self, folder: Path) -> BubblewrapRuntime:
        dialer = GuardedDialer(resolve=self.resolve, connect=self.connect, own=frozenset())
        return BubblewrapRuntime(folder, dialer=dialer)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """All there is outside."""
    made = World()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()


async def reaches(boxes: Boxes, box: str, name: str) -> bool:
    """Whether a sandbox reaches a host."""
    seen = await boxes.sh(box, f"{_FETCH.format(name)} 2>&1 || true")
    assert ("hi" in seen) != ("403" in seen), seen
    return "hi" in seen


async def put(boxes: Boxes, box: str, allow: Any, deny: Any) -> dict[str, Any]:
    """Replace a policy; the answer says that it holds."""
    body = {"allowlist": allow, "denylist": deny}
    reply = await boxes.put(f"/sandbox/{box}/egress-policy", body)
    assert reply.status == 200, reply
    told: dict[str, Any] = reply.json
    assert told["policy"] == body
    assert told["applied"]
    return told


@needs_bubblewrap
async def test_a_policy_holds_at_once_and_after_a_restart(tmp_path: Path, world: World) -> None:
    """Each kind of list, in a sandbox that runs; a new server enforces the last one."""
    folder = tmp_path / "boxes"
    options: dict[str, Any] = {"runtime": lambda: world.runtime(folder)}
    async with running_platform(tmp_path, **options) as running, Boxes(running) as boxes:
        box = await boxes.running(network_allowlist=["a.test"], timeout_minutes=5)
        assert await reaches(boxes, box, "a.test")
        assert not await reaches(boxes, box, "b.test")
        await put(boxes, box, None, ["a.test"])
        assert await reaches(boxes, box, "b.test")
        assert not await reaches(boxes, box, "a.test")
        await put(boxes, box, [], None)
        assert not await reaches(boxes, box, "b.test")
        await put(boxes, box, None, [])
        assert await reaches(boxes, box, "a.test")
        assert (await put(boxes, box, ["b.test"], None))["generation"] == 4
    async with running_platform(tmp_path, **options) as running, Boxes(running) as boxes:
        await boxes.reach(box)
        assert await reaches(boxes, box, "b.test")
        assert not await reaches(boxes, box, "a.test")
        told = (await boxes.get(f"/sandbox/{box}/egress-policy")).json
        assert (told["generation"], told["applied_generation"]) == (4, 4)
        await boxes.end_all()


async def test_a_policy_set_before_the_sandbox_runs(boxes: Boxes, runtime: DoubleRuntime) -> None:
    """It waits, says that it does, and holds from the start on."""
    runtime.gate.clear()
    box = await boxes.create()
    await boxes.until(box, "PROVISIONING")
    body = {"allowlist": ["a.com"], "denylist": None}
    told = (await boxes.put(f"/sandbox/{box}/egress-policy", body)).json
    assert (told["generation"], told["applied_generation"], told["applied"]) == (1, -1, False)
    runtime.gate.set()
    await boxes.until(box, "RUNNING")
    with anyio.fail_after(20):
        while not (told := (await boxes.get(f"/sandbox/{box}/egress-policy")).json)["applied"]:
            await anyio.sleep(0.01)
    assert (told["generation"], told["applied_generation"]) == (1, 1)
    policy = boxes.box(box).policy
    assert policy is not None
    assert policy.allow == ("a.com",)


async def test_changes_at_the_same_time_are_counted_one_by_one(boxes: Boxes) -> None:
    """Every one has a generation of its own; the last one holds."""
    box = await boxes.running()
    path = f"/sandbox/{box}/egress-policy"

    async def change(number: int) -> None:
        body = {"allowlist": [f"host{number}.com"], "denylist": None}
        assert (await boxes.put(path, body)).status == 200

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(change, number)
    told = (await boxes.get(path)).json
    assert (told["generation"], told["applied_generation"]) == (20, 20)
    policy = boxes.box(box).policy
    assert policy is not None
    assert list(policy.allow or ()) == told["policy"]["allowlist"]


@pytest.mark.parametrize(
    "body",
    [
        {"allowlist": ["a.com"], "denylist": ["b.com"]},
        {"allowlist": ["http://a.com"], "denylist": None},
        {"allowlist": None, "denylist": ["*"]},
        {"allowlist": ["a.com"] * 1025, "denylist": None},
        {"allowlist": "a.com", "denylist": None},
    ],
)
async def test_bad_policies_change_nothing(boxes: Boxes, body: dict[str, Any]) -> None:
    """Both lists, entries that are none, too many."""
    box = await boxes.running()
    path = f"/sandbox/{box}/egress-policy"
    before = (await boxes.get(path)).json
    assert (await boxes.put(path, body)).status == 422
    assert (await boxes.get(path)).json == before
