"""Field reports, group D: sending much to a server that reads slowly, or stops.

The file transfers of the sandboxes come with step 3; pushes send much already.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_async.errors import APITimeoutError, PartialPushError
from prime_async.evals import AsyncEvalsClient
from tests import http1
from tests.evals.pushing import numbered, write_jsonl
from tests.official_stub import EVALUATION

SAMPLES = numbered(8, size=500_000)


class Reader:
    """A server that reads bodies at a pace of its own.

    Attributes:
        pace: bytes per read, with a pause after each; None stops reading at the first byte.
    """

    def __init__(self, pace: int | None) -> None:
        self.pace = pace
        self.bodies = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (head := await http1.read_head(reader)) is not None:
                await self._read(reader, int(head.headers.get("Content-Length", 0)))
                self.bodies += head.method == "POST"
                body = b'{"evaluation_id": "eval-1"}'
                lines = [("Content-Length", str(len(body)))]
                writer.write(http1.encode_head(http1.status_line(200), lines) + body)
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, left: int) -> None:
        while left:
            if self.pace is None:
                await asyncio.Event().wait()
            left -= len(await reader.read(min(left, self.pace or 0)))
            await asyncio.sleep(0.02)


@pytest.fixture
async def slow(request: pytest.FixtureRequest) -> AsyncIterator[Reader]:
    """The server, with a small window: what it does not read stays with the sender."""
    server = Reader(request.param)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(server.serve(reader, writer))
        tasks.add(task)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, limit=16_384)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    yield server
    listener.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("slow", [65_536], indirect=True)
@pytest.mark.parametrize("kind", ["list", "file"])
async def test_FR18_a_slow_reader_gets_everything(slow: Reader, kind: str, tmp_path: Path) -> None:
    """Some megabytes at a few megabytes a second: no limit of the connection cuts them off."""
    source = SAMPLES if kind == "list" else write_jsonl(tmp_path / "rows.jsonl", SAMPLES)
    async with AsyncEvalsClient("key", base_url=slow.url) as client:
        receipt = await client.push_samples(EVALUATION, source)
    assert receipt.complete
    assert slow.bodies == receipt.batches > 1


@pytest.mark.parametrize("slow", [None], indirect=True)
async def test_FR18_a_reader_that_stops_ends_it_in_time(slow: Reader, tmp_path: Path) -> None:
    """The limit ends it, and the error names the evaluation, the limit and how to go on."""
    path = write_jsonl(tmp_path / "rows.jsonl", SAMPLES)
    async with AsyncEvalsClient("key", base_url=slow.url) as client, asyncio.timeout(20):
        with pytest.raises(PartialPushError, match=r"eval-1.*did not end within 0\.5 s") as caught:
            await client.push_samples(EVALUATION, path, timeout=0.5)
    assert isinstance(caught.value.__cause__, APITimeoutError)
    assert not caught.value.receipt.samples_pushed
    assert caught.value.receipt.resume_token
