"""Many sandboxes on one machine: what an idle one costs."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from prime_async.server.runtimes import launchers
from prime_async.server.runtimes.bubblewrap import BubblewrapRuntime
from prime_async.server.runtimes.sandbox import Sandbox
from tests.runtimes.boxes import MIB, sh, spec, until

COUNT = 300

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.scale
@pytest.mark.timeout(600)
async def test_three_hundred_idle_sandboxes(
    isolating: BubblewrapRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All answer; afterwards each holds less than 1 MB, server and spawner in it."""
    monkeypatch.setattr(launchers, "IDLE_SECONDS", 0.1)
    first = await isolating.start(spec(memory_bytes=64 * MIB))
    before = _resident("self") + _resident(isolating.spawner.pid)
    boxes = [first]
    limit = anyio.CapacityLimiter(16)

    async def one() -> None:
        async with limit:
            box = await isolating.start(spec(memory_bytes=64 * MIB))
            boxes.append(box)
            assert (await sh(box, "echo $((6 * 7))")).stdout == "42\n"

    async with anyio.create_task_group() as group:
        for _ in range(COUNT - 1):
            group.start_soon(one)

    async def idle() -> bool:
        return not any(box.launchers for box in boxes)

    await until(idle)
    ours = _resident("self") + _resident(isolating.spawner.pid) - before
    theirs = [(await box.stats()).memory_bytes for box in boxes]
    each = (sum(theirs) + ours) / COUNT
    print(f"an idle sandbox holds {each / 1024:.0f} KiB, {ours / COUNT / 1024:.0f} of them here")
    assert each < MIB
    await _stop(boxes)


async def _stop(boxes: list[Sandbox]) -> None:
    async with anyio.create_task_group() as group:
        for box in boxes:
            group.start_soon(box.stop)


def _resident(pid: object) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no such process")
