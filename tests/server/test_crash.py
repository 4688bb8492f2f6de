"""kill -9 of the platform: what it acknowledged is there, and a push goes on where it was."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import aiohttp
import pytest

from tests.platform import ProcessPlatform
from tests.server.wire import Wire

BATCH = 50


def batch(start: int) -> list[dict[str, object]]:
    return [{"i": index, "text": "x" * 2000} for index in range(start, start + BATCH)]


async def push_all(platform: ProcessPlatform, evaluation: str, starts: list[int]) -> list[int]:
    """Push batches, four at a time, until the platform is gone; return what was acknowledged."""
    acknowledged: list[int] = []
    todo = list(starts)

    async def work(wire: Wire) -> None:
        while todo:
            start = todo.pop(0)
            try:
                reply = await wire.push(evaluation, batch(start), "p1", f"{start}-{start + BATCH}")
            except (aiohttp.ClientError, ConnectionError):
                return
            assert reply.status == 200
            acknowledged.append(start)

    async with Wire(platform.url) as wire:
        await asyncio.gather(*(work(wire) for _ in range(4)))
    return acknowledged


async def kill_when(platform: ProcessPlatform, evaluation: str, total: int) -> None:
    """kill -9 as soon as so many samples are stored."""
    async with Wire(platform.url) as wire:
        while (await wire.get(f"/evaluations/{evaluation}")).json["total_samples"] < total:
            await asyncio.sleep(0.005)
    platform.kill()


@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.slow)])
async def test_a_killed_platform_loses_nothing_it_acknowledged(tmp_path: Path, rounds: int) -> None:
    """Killed in the middle of a push and started again: every sample exactly once."""
    starts = list(range(0, 2_500 * rounds + 1_500, BATCH))
    with ProcessPlatform(tmp_path) as platform:
        async with Wire(platform.url) as wire:
            evaluation = await wire.evaluation()
        known: set[int] = set()
        for number in range(1, rounds + 1):
            missing = [start for start in starts if start not in known]
            acknowledged, _ = await asyncio.gather(
                push_all(platform, evaluation, missing),
                kill_when(platform, evaluation, 2_500 * number),
            )
            platform.start()
            async with Wire(platform.url) as wire:
                stored = (await wire.get(f"/evaluations/{evaluation}/pushes/p1")).json
            indexes = {index for start, stop in stored["ranges"] for index in range(start, stop)}
            known |= set(acknowledged)
            assert {index for start in known for index in range(start, start + BATCH)} <= indexes
            # A batch is stored whole or not at all.
            assert len(indexes) % BATCH == 0
        await push_all(platform, evaluation, starts)
        async with Wire(platform.url) as wire:
            samples = await wire.samples(evaluation, 1000)
        assert [sample["i"] for sample in samples] == list(range(len(starts) * BATCH))
        platform.stop()
    with sqlite3.connect(tmp_path / "platform" / "platform.sqlite3") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


async def test_a_delete_that_was_cut_short_is_finished_at_the_next_start(tmp_path: Path) -> None:
    """Samples whose evaluation is gone do not stay on the disk."""
    with ProcessPlatform(tmp_path) as platform:
        async with Wire(platform.url) as wire:
            evaluation = await wire.evaluation()
            await wire.push(evaluation, batch(0), "p1", f"0-{BATCH}")
        platform.kill()
        file = tmp_path / "platform" / "platform.sqlite3"
        connection = sqlite3.connect(file)
        # What a crash between the two halves of a delete leaves behind.
        connection.execute("DELETE FROM evaluations")
        connection.commit()
        connection.close()
        platform.start()
        connection = sqlite3.connect(file)
        for table in ("sample_chunks", "pushes"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
        connection.close()


async def test_a_terminated_platform_ends_cleanly(tmp_path: Path) -> None:
    """SIGTERM: the socket is gone, the write-ahead log is folded in, nothing is lost."""
    with ProcessPlatform(tmp_path) as platform:
        async with Wire(platform.url) as wire:
            evaluation = await wire.evaluation()
            await wire.push(evaluation, batch(0), "p1", f"0-{BATCH}")
        platform.stop()
        assert not Path(platform.unix_socket).exists()
        left = {file.name for file in (tmp_path / "platform").iterdir() if file.is_file()}
        assert left == {"gateway_key", "platform.lock", "platform.sqlite3"}
        platform.start()
        async with Wire(platform.url) as wire:
            assert len(await wire.samples(evaluation)) == BATCH
