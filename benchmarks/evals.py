"""Pushing samples: ours, the official async client, and a bare loop that does nothing else.

All talk to one server process that swallows and counts. The floor encodes with msgspec and posts
with aiohttp, same batch size and concurrency as ours: no retries, no value table, no receipt.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from benchmarks.harness import Contender, Figures, case, measured, race
from benchmarks.samples import make_samples
from benchmarks.server import Server

__all__ = ["run"]

COUNT = 20_000
STREAM_COUNT = 40_000
BATCH_BYTES = (1 << 20) - (16 << 10)
"""A batch of the floor ends once it is this long, below the 1 MiB of bytes aiohttp takes."""
CONCURRENCY = 4
_ROUNDS = 3


def run() -> dict[str, Any]:
    """Measure a list in memory, texts beyond ASCII, a stream ten times another, and a file."""
    with Server.start() as server:
        cases = {
            "push_20000": _push_list(server, COUNT),
            "push_unicode": _push_list(server, COUNT // 2, mark="é"),
            "push_stream": _push_stream(server),
            "push_file": _push_file(server),
        }
    return {"name": "evals", "cases": cases}


def _contenders(kind: str, **arguments: Any) -> list[Contender]:
    return [
        Contender(role, f"benchmarks.evals:{kind}_{role}", arguments)
        for role in ("ours", "peer", "floor")
    ]


def _push_list(server: Server, count: int, mark: str = "") -> dict[str, Any]:
    raced = race(_contenders("list", count=count, mark=mark), rounds=_ROUNDS, server=server)
    return _checked(raced, count)


def _push_stream(server: Server) -> dict[str, Any]:
    contenders = [
        Contender("ours", "benchmarks.evals:stream_ours", {"count": STREAM_COUNT}),
        Contender("small", "benchmarks.evals:stream_ours", {"count": STREAM_COUNT // 10}),
    ]
    raced = race(contenders, rounds=_ROUNDS, server=server)
    small = raced.pop("small")
    result = _checked(raced, STREAM_COUNT)
    result["counters"]["tenth_extra_rss_mb"] = small["extra_rss_mb"]
    return result


def _push_file(server: Server) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.jsonl"
        with path.open("w") as file:
            for sample in make_samples(COUNT):
                print(json.dumps(sample, separators=(",", ":")), file=file)
        raced = race(_contenders("file", path=str(path)), rounds=_ROUNDS, server=server)
    return _checked(raced, COUNT)


def _checked(raced: dict[str, Figures], count: int) -> dict[str, Any]:
    """Refuse figures of a run that lost or doubled samples."""
    for role, figures in raced.items():
        if figures["server_samples"] != count:
            raise RuntimeError(
                f"{role}: {figures['server_samples']:,.0f} of {count:,} samples arrived"
            )
    return case(raced)


async def list_ours(url: str, count: int, mark: str) -> Figures:
    """Contender: ours, from a list."""
    return await _ours(url, list(make_samples(count, mark=mark)))


async def stream_ours(url: str, count: int) -> Figures:
    """Contender: ours, from a generator that makes samples as they are wanted."""
    return await _ours(url, make_samples(count))


async def file_ours(url: str, path: str) -> Figures:
    """Contender: ours, from a file."""
    return await _ours(url, Path(path))


async def _ours(url: str, source: Any) -> Figures:
    from prime_async.evals import AsyncEvalsClient

    async with AsyncEvalsClient(api_key="bench", base_url=url) as client:
        return await measured(lambda: client.push_samples("bench", source))


async def list_peer(url: str, count: int, mark: str) -> Figures:
    """Contender: the official async client, from a list."""
    samples = list(make_samples(count, mark=mark))
    return await _peer(lambda: samples)


async def file_peer(url: str, path: str) -> Figures:
    """Contender: the official async client, the file read as the official command reads it."""

    def read() -> list[dict[str, Any]]:
        with open(path) as file:  # noqa: PTH123 - as the official command does
            return [json.loads(line) for line in file]

    return await _peer(read)


async def _peer(read: Any) -> Figures:
    from prime_evals import AsyncEvalsClient

    async with AsyncEvalsClient() as client:

        async def push() -> None:
            await client.push_samples("bench", read())

        return await measured(push)


async def list_floor(url: str, count: int, mark: str) -> Figures:
    """Contender: msgspec and aiohttp, from a list."""
    samples = list(make_samples(count, mark=mark))
    encode = msgspec.json.Encoder().encode
    return await measured(lambda: _post_all(url, (encode(sample) for sample in samples)))


async def file_floor(url: str, path: str) -> Figures:
    """Contender: each line checked by msgspec and sent on as it is."""
    decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

    def lines() -> Iterable[bytes]:
        with open(path, "rb") as file:  # noqa: PTH123 - the floor
            for line in file:
                decode(line)
                yield line[:-1]

    return await measured(lambda: _post_all(url, lines()))


async def _post_all(url: str, encoded: Iterable[bytes]) -> None:
    free = asyncio.Semaphore(CONCURRENCY)
    address = f"{url}/api/v1/evaluations/bench/samples"
    headers = {"Content-Type": "application/json", "Authorization": "Bearer bench"}
    async with aiohttp.ClientSession(headers=headers) as session, asyncio.TaskGroup() as group:

        async def post(batch: list[bytes]) -> None:
            body = b'{"samples":[' + b",".join(batch) + b"]}"
            async with session.post(address, data=body) as response:
                await response.read()
            free.release()

        async for batch in _batches(encoded):
            await free.acquire()
            group.create_task(post(batch))


async def _batches(encoded: Iterable[bytes]) -> AsyncIterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for item in encoded:
        batch.append(item)
        size += len(item) + 1
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
