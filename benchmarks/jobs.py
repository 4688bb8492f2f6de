"""Background jobs by the thousand: ours beside the official clients, cases of ``sandboxes``.

``poll_1000``: 1,000 running jobs are looked at for three rounds, a hundred in a request. Ours are
1,000 tasks that each wait for one job; the official client has no call for that and is asked for
its statuses directly; the floor is aiohttp with the same requests. All pause between rounds, as a
poller does: after a pause the same work costs a processor about twice as much. The figures are CPU
time per request, and the worst stall of the loop.

``hydrate_100_sync``: 100 jobs that have ended, with their output, by the sync clients.

``hydrate_40x20mb``: 40 jobs with 10 MiB on each stream, by the async clients; the memory is beside
the 839 MB that the results themselves hold.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import msgspec

from benchmarks.harness import Contender, Figures, case, measured, race
from benchmarks.jobserver import JobServer
from benchmarks.platform import become_official
from tests.meters import LoopLag

__all__ = ["cases"]

_BATCH = 100
_JOBS = 1000
_LOOKS = 3
_PAUSE = 0.3
_FINISHED = 100
_LONG = 40
_SANDBOXES = 7
_TICK = 0.001


def cases() -> dict[str, Any]:
    """Measure them."""
    with JobServer.start() as url:
        return {
            "poll_1000": _raced("poll", url, rounds=3),
            "hydrate_100_sync": _raced("hydrate_sync", url, rounds=2),
            "hydrate_40x20mb": _raced("hydrate_long", url, rounds=2),
        }


def _raced(name: str, url: str, rounds: int) -> dict[str, Any]:
    roles = ("ours", "peer", "floor") if name == "poll" else ("ours", "peer")
    contenders = [Contender(role, f"benchmarks.jobs:{name}_{role}", {"url": url}) for role in roles]
    return case(race(contenders, rounds=rounds))


def _handles(made: type[Any], count: int, kind: str) -> list[Any]:
    handles = []
    for number in range(count):
        job_id, box = f"{kind}{number:07x}", f"box{number % _SANDBOXES}"
        stem = f"/tmp/job_{job_id}"
        handles.append(
            made(
                job_id=job_id,
                sandbox_id=box,
                stdout_log_file=f"{stem}.stdout.log",
                stderr_log_file=f"{stem}.stderr.log",
                exit_file=f"{stem}.exit",
            )
        )
    return handles


async def poll_ours(url: str) -> Figures:
    """Contender: 1,000 tasks that wait."""
    from prime_async.sandboxes import AsyncSandboxClient, BackgroundJob

    jobs = _handles(BackgroundJob, _JOBS, "0")
    async with AsyncSandboxClient(api_key="bench", base_url=url) as client:
        await client.get_background_job_statuses(jobs[:_BATCH])
        wait = client.wait_background_jobs
        tasks = [asyncio.create_task(wait([job], output=False)) for job in jobs]
        while not client.stats().batches:
            await asyncio.sleep(0.001)

        async def rounds() -> int:
            begun = client.stats().batches
            while (batches := client.stats().batches - begun) < _LOOKS * _JOBS / _BATCH:
                await asyncio.sleep(_PAUSE)
            return batches

        figures = await _per_call(rounds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        figures["keys"] = client.stats().max_keys_per_batch
    return figures


async def poll_peer(url: str) -> Figures:
    """Contender: the official client's statuses."""
    become_official(url, "bench")
    from prime_sandboxes import AsyncSandboxClient, BackgroundJob

    jobs = _handles(BackgroundJob, _JOBS, "0")
    groups = [jobs[start : start + _BATCH] for start in range(0, _JOBS, _BATCH)]
    async with AsyncSandboxClient() as client:
        await client.get_background_job_statuses(groups[0])

        async def rounds() -> int:
            for _ in range(_LOOKS):
                await asyncio.gather(*map(client.get_background_job_statuses, groups))
                await asyncio.sleep(_PAUSE)
            return _LOOKS * len(groups)

        return await _per_call(rounds)


async def poll_floor(url: str) -> Figures:
    """Contender: the same requests by aiohttp, their answers decoded and forgotten."""
    where = f"{url}/api/v1/sandbox/background-jobs/status:batchGet"
    jobs = [{"sandbox_id": "box", "job_id": f"{number:08x}"} for number in range(_BATCH)]
    body = msgspec.json.encode({"jobs": jobs})
    async with aiohttp.ClientSession() as session:

        async def ask() -> None:
            async with session.post(where, data=body) as response:
                msgspec.json.decode(await response.read())

        async def rounds() -> int:
            for _ in range(_LOOKS):
                await asyncio.gather(*(ask() for _ in range(_JOBS // _BATCH)))
                await asyncio.sleep(_PAUSE)
            return _LOOKS * _JOBS // _BATCH

        await ask()
        return await _per_call(rounds)


async def _per_call(rounds: Callable[[], Awaitable[int]]) -> Figures:
    """Run the rounds to warm up, for the CPU time of a request, and under a watch on the loop."""
    await rounds()
    cpu = time.process_time()
    calls = await rounds()
    cpu = time.process_time() - cpu
    async with LoopLag(_TICK) as lag:
        await rounds()
    return {"cpu_us_per_call": cpu / calls * 1e6, "stall_ms": lag.worst * 1e3}


def hydrate_sync_ours(url: str) -> Figures:
    """Contender: the generated sync client."""
    from prime_sync.sandboxes import BackgroundJob, SandboxClient

    with SandboxClient(api_key="bench", base_url=url) as client:
        return _hydrated(client, _handles(BackgroundJob, _FINISHED, "1"))


def hydrate_sync_peer(url: str) -> Figures:
    """Contender: the official sync client."""
    become_official(url, "bench")
    from prime_sandboxes import APIClient, BackgroundJob, SandboxClient

    return _hydrated(SandboxClient(APIClient()), _handles(BackgroundJob, _FINISHED, "1"))


def _hydrated(client: Any, jobs: list[Any]) -> Figures:
    wall, cpu = time.perf_counter(), time.process_time()
    found = client.get_background_jobs(jobs)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if any(not status.stdout or not status.stderr for status in found):
        raise RuntimeError("an output is missing")
    return {"wall_s": wall, "cpu_s": cpu}


async def hydrate_long_ours(url: str) -> Figures:
    """Contender: ours."""
    from prime_async.sandboxes import AsyncSandboxClient, BackgroundJob

    async with AsyncSandboxClient(api_key="bench", base_url=url) as client:
        return await _hydrated_long(client, _handles(BackgroundJob, _LONG, "2"))


async def hydrate_long_peer(url: str) -> Figures:
    """Contender: the official async client."""
    become_official(url, "bench")
    from prime_sandboxes import AsyncSandboxClient, BackgroundJob

    async with AsyncSandboxClient() as client:
        return await _hydrated_long(client, _handles(BackgroundJob, _LONG, "2"))


async def _hydrated_long(client: Any, jobs: list[Any]) -> Figures:
    held: list[Any] = []

    async def work() -> None:
        held.extend(await client.get_background_jobs(jobs))

    figures = await measured(work)
    size = sum(len(status.stdout or "") + len(status.stderr or "") for status in held)
    if size != _LONG * 20 * 2**20:
        raise RuntimeError(f"{size:,} characters arrived")
    figures["beside_results_mb"] = figures["extra_rss_mb"] - size / 1e6
    return figures
