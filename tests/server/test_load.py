"""What load does to the platform: the loop stays responsive, memory bounded, deep pages cheap."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sqlalchemy import event

from tests.meters import LoopLag
from tests.platform import ProcessPlatform, RunningPlatform, running_platform
from tests.server.wire import Wire

MIB = 1024 * 1024


def big_body(size: int) -> bytes:
    """A push of samples of about 8 KB with many small values, ``size`` bytes in all."""
    sample = b'{"prompt": [%s], "text": "%s"}' % (
        b", ".join([b'{"role": "user", "n": [1, 2.5, null]}'] * 40),
        b"quick \\n brown " * 430,
    )
    count = size // (len(sample) + 2)
    return b'{"samples": [' + b", ".join([sample] * count) + b"]}"


async def test_the_largest_bodies_do_not_hold_the_loop(tmp_path: Path) -> None:
    """25 MiB in one request: other requests go on being answered meanwhile."""
    body = big_body(25 * MIB)
    with ProcessPlatform(tmp_path) as platform:
        async with Wire(platform.url) as wire:
            evaluation = await wire.evaluation()
            path = f"/evaluations/{evaluation}/samples"
            await wire.post(path, raw=big_body(MIB))
            push = asyncio.ensure_future(wire.post(path, raw=body))
            answered = 0
            while not push.done():
                assert (await wire.get("//healthz")).status == 200
                answered += 1
            assert (await push).status == 200
    # A quarter of a second of work in one piece would leave room for one or two.
    assert answered >= 10


async def test_deep_pages_cost_what_first_pages_cost(platform: RunningPlatform, wire: Wire) -> None:
    """Reading 20,000 samples by small pages touches each chunk's row about as often as it must."""
    evaluation = await wire.evaluation()
    for start in range(0, 20_000, 1000):
        await wire.push(
            evaluation, [{"i": start + n} for n in range(1000)], "p1", f"{start}-{start + 1000}"
        )
    statements = 0

    def count(*_: object) -> None:
        nonlocal statements
        statements += 1

    event.listen(platform.parts.database.engine, "before_cursor_execute", count)
    for page in (1, 100, 200):
        reply = await wire.get(
            f"/evaluations/{evaluation}/samples", params={"page": page, "limit": 100}
        )
        assert reply.json["samples"][0]["i"] == (page - 1) * 100
    # Two for the caller's right, one for the directory once, two per page for its only chunk.
    assert statements < 20


async def test_bodies_in_memory_are_bounded(tmp_path: Path) -> None:
    """Thirty large pushes at once wait for each other: the budget is never exceeded."""
    limits = {"bodies_in_memory_bytes": 8 * MIB}
    async with running_platform(tmp_path, limits=limits) as platform, Wire(platform.url) as wire:
        evaluation = await wire.evaluation()
        body = big_body(2 * MIB)
        highest = 0
        done = asyncio.Event()

        async def watch() -> None:
            nonlocal highest
            while not done.is_set():
                highest = max(highest, platform.parts.bodies.used)
                await asyncio.sleep(0)

        watching = asyncio.ensure_future(watch())
        replies = await asyncio.gather(
            *(wire.post(f"/evaluations/{evaluation}/samples", raw=body) for _ in range(30))
        )
        done.set()
        await watching
        assert {reply.status for reply in replies} == {200}
        assert 2 * MIB <= highest <= 8 * MIB
        assert platform.parts.bodies.used == 0


async def test_many_clients_at_once_are_all_answered(platform: RunningPlatform, wire: Wire) -> None:
    """200 clients that push and read together: everything is stored, the loop keeps turning."""
    evaluation = await wire.evaluation()

    async def client(number: int) -> None:
        async with Wire(platform.url) as own:
            assert (await own.push(evaluation, [{"n": number}], f"p{number}")).status == 200
            assert (await own.get(f"/evaluations/{evaluation}")).status == 200
            assert (await own.get(f"/evaluations/{evaluation}/pushes/p{number}")).status == 200

    async with LoopLag() as lag:
        await asyncio.gather(*(client(number) for number in range(200)))
    assert lag.worst < 2.0
    stored = await wire.samples(evaluation, 1000)
    assert sorted(sample["n"] for sample in stored) == list(range(200))
