"""Memory: an upload five times as long needs no more, and batches are never joined."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_async.traces import AsyncTracesClient
from tests.meters import PeakRss

MEBIBYTE = 2**20

_SINK = """
import asyncio
from tests.stub import Answer, Stub

def committed(request):
    return Answer(201, json={"upload_id": "x", "status": "committed"})

async def main():
    async with Stub(keep_bodies=False) as stub:
        stub.default = committed
        print(stub.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def sink() -> AsyncIterator[str]:
    """A service in another process that takes everything and keeps nothing."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _SINK,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    yield (await process.stdout.readline()).decode().strip()
    process.kill()
    await process.communicate()


def _records(mebibytes: int) -> Iterator[dict[str, Any]]:
    # Built anew each time: a shared text would hide what is kept.
    return ({"id": f"t{n}", "text": f"{n:016}" * 4096} for n in range(mebibytes * 16))


async def _asynchronous(mebibytes: int) -> AsyncIterator[dict[str, Any]]:
    for record in _records(mebibytes):
        yield record


@pytest.mark.parametrize("source", [_records, _asynchronous])
@pytest.mark.slow
async def test_memory_does_not_grow_with_the_upload(sink: str, source: Any) -> None:
    """What is held are the batches on their way and one besides, each less than one and a half
    times.
    """
    batch = 2 * MEBIBYTE
    async with AsyncTracesClient("key", base_url=sink) as client:
        for compress in (True, False):
            await client.upload_records(source(4), target_batch_bytes=batch, compress=compress)
            with PeakRss() as peak:
                receipts = await client.upload_records(
                    source(40), target_batch_bytes=batch, compress=compress
                )
            assert len(receipts) >= 20
            assert peak.growth < 5 * 1.5 * batch + 8 * MEBIBYTE
