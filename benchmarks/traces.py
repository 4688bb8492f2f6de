"""Uploading rollouts of about 0.56 MiB, compressed: ours, the official async client, a bare loop.

All talk to one server process that keeps the bodies and counts what is in them afterwards. The
floor encodes with msgspec, compresses as we do in threads, four batches at a time, and posts with
aiohttp: no retries, no value table, no receipts.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import aiohttp
import msgspec

from benchmarks.harness import Contender, Figures, case, measured, race
from benchmarks.rollouts import make_rollouts
from benchmarks.server import Server

__all__ = ["post_all", "run"]

COUNT = 100
CONCURRENCY = 4
BATCH_BYTES = 30 * 2**20
"""The default of every contender."""

_ROUNDS = 2
_FORM = {"Content-Type": "multipart/form-data; boundary=bench"}
_HEAD = (
    b'--bench\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{"schema_version":1}\r\n'
    b'--bench\r\nContent-Disposition: form-data; name="traces"; filename="traces.jsonl"\r\n'
    b"Content-Encoding: %b\r\n\r\n"
)
_TAIL = b"\r\n--bench--\r\n"


def run() -> dict[str, Any]:
    """Measure against a platform that knows Zstandard, and one that knows gzip only."""
    cases: dict[str, Any] = {}
    for name, features in (("bulk", True), ("bulk_gzip", False)):
        with Server.start(features=features) as server:
            cases[name] = bulk(server, COUNT, rounds=_ROUNDS, zstd=features)
    return {"name": "traces", "cases": cases}


def bulk(server: Server, count: int, *, rounds: int, zstd: bool) -> dict[str, Any]:
    """Race all contenders with so many rollouts."""
    contenders = [
        Contender("ours", "benchmarks.traces:bulk_ours", {"count": count}),
        Contender("peer", "benchmarks.traces:bulk_peer", {"count": count}),
        Contender("peer_sync", "benchmarks.traces:bulk_peer_sync", {"count": count}),
        Contender("floor", "benchmarks.traces:bulk_floor", {"count": count, "zstd": zstd}),
    ]
    raced = race(contenders, rounds=rounds, server=server)
    for role, figures in raced.items():
        if figures["server_samples"] != count:
            arrived = f"{figures['server_samples']:,.0f} of {count:,}"
            raise RuntimeError(f"{role}: {arrived} rollouts arrived")
    size = raced["floor"].pop("plain_mib")
    result = case(raced, {"plain_mib": size})
    for role in ("ours", "peer", "peer_sync", "floor"):
        result["counters"][f"{role}_mib_per_s"] = size / raced[role]["wall_s"]
    return result


async def bulk_ours(url: str, count: int) -> Figures:
    """Contender: ours."""
    from prime_async.traces import AsyncTracesClient

    rollouts = list(make_rollouts(count))
    async with AsyncTracesClient(api_key="bench", base_url=url) as client:
        return await measured(lambda: client.upload_records(rollouts))


async def bulk_peer(url: str, count: int) -> Figures:
    """Contender: the official async client."""
    from prime_traces import AsyncTracesAPIClient, AsyncTracesClient

    rollouts = list(make_rollouts(count))
    api = AsyncTracesAPIClient(api_key="bench", base_url=url)
    async with AsyncTracesClient(api) as client:
        return await measured(lambda: client.upload_records(rollouts))


async def bulk_peer_sync(url: str, count: int) -> Figures:
    """Contender: the official client without asyncio, which is the faster of the two."""
    from prime_traces import TracesAPIClient, TracesClient

    rollouts = list(make_rollouts(count))
    with TracesClient(TracesAPIClient(api_key="bench", base_url=url)) as client:
        return await measured(lambda: asyncio.to_thread(client.upload_records, rollouts))


async def bulk_floor(url: str, count: int, zstd: bool) -> Figures:
    """Contender: what cannot be left out: encode, digest, compress, send."""
    rollouts = list(make_rollouts(count))
    encode = msgspec.json.Encoder().encode
    size = sum(len(encode(rollout)) + 1 for rollout in rollouts)
    lines = (encode(rollout) + b"\n" for rollout in rollouts)
    figures = await measured(lambda: post_all(url, lines, zstd))
    return {**figures, "plain_mib": size / 2**20}


async def post_all(
    url: str, lines: Iterable[bytes], zstd: bool, batch_bytes: int = BATCH_BYTES
) -> None:
    """Upload lines with nothing that could be left out; an iterator is read in a thread."""
    free = asyncio.Semaphore(CONCURRENCY)
    headers = {"Authorization": "Bearer bench"}
    batches = _batches(lines, batch_bytes)
    async with aiohttp.ClientSession(headers=headers) as session, asyncio.TaskGroup() as group:

        async def post(batch: list[bytes]) -> None:
            digest, body = await asyncio.to_thread(_prepared, batch, zstd)
            key = {**_FORM, "Idempotency-Key": f"sha256:{digest}"}
            data = _HEAD % (b"zstd" if zstd else b"gzip") + body + _TAIL
            async with session.post(f"{url}/api/v1/traces", data=data, headers=key) as response:
                await response.read()
            free.release()

        while batch := await asyncio.to_thread(next, batches, None):
            await free.acquire()
            group.create_task(post(batch))


def _batches(lines: Iterable[bytes], batch_bytes: int) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for line in lines:
        if size + len(line) > batch_bytes:
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield batch


def _prepared(batch: list[bytes], zstd: bool) -> tuple[str, bytes]:
    data = b"".join(batch)
    return hashlib.sha256(data).hexdigest(), _compressed(data, zstd)


def _compressed(data: bytes, zstd: bool) -> bytes:
    if zstd:
        from backports.zstd import compress

        return compress(data, 1)
    import gzip

    return gzip.compress(data, 1, mtime=0)
