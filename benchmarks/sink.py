"""Logging to a run from a coroutine: ours, the official sink, and a bare upload of the same.

`stream_65k` logs records of 65 KB one by one as fast as the loop allows, `stream_65k_durable` with
a write to the disk in each call, `metrics_20ms` rows of metrics over a round trip of 20 ms, and
`server_down` to a platform that answers 503, with policy ``spool``. The official sink has no
durable mode and no spool: it takes part as it is, with fewer records where it takes minutes.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Literal

import msgspec

from benchmarks.harness import Contender, Figures, case, measured, race
from benchmarks.rollouts import SMALL, make_rollouts
from benchmarks.server import Server
from benchmarks.traces import post_all

__all__ = ["run"]

STREAM_COUNT = 1000
ROW_COUNT, PEER_ROW_COUNT = 20_000, 200
DOWN_BYTES, PEER_DOWN_COUNT = 2_000_000_000, 600
ROUND_TRIP = 0.02
_ROUNDS = 2
_DIFFERENT = 200
"""Records that are made; a longer stream repeats them under other names."""

KEY = "pit_5f0c1d9ab27e4683bd10f2c77ae9564e81b3d0ac"
"""As long as a real one, and nowhere in the records: log calls look for it."""

_FLOOR_BATCH = 4 * 2**20
_FINISH_SECONDS = 600.0


CASES = ("stream_65k", "stream_65k_durable", "metrics_20ms", "server_down")


def run(only: str | None = None) -> dict[str, Any]:
    """Measure every case, or one."""
    wanted = CASES if only is None else (only,)
    cases: dict[str, Any] = {}
    if streams := [name for name in wanted if name in _STREAMS]:
        with Server.start(features=True) as server:
            cases |= stream(server, STREAM_COUNT, rounds=_ROUNDS, cases=streams)
    if "metrics_20ms" in wanted:
        with Server.start(features=True, delay=ROUND_TRIP) as server:
            cases["metrics_20ms"] = metrics(server, ROW_COUNT, PEER_ROW_COUNT, rounds=_ROUNDS)
    if "server_down" in wanted:
        with Server.start(features=True, down=True) as server:
            cases["server_down"] = server_down(server, DOWN_BYTES // 65_000, PEER_DOWN_COUNT)
    return {"name": "sink", "cases": cases}


_STREAMS = {"stream_65k": {}, "stream_65k_durable": {"durable": True}}


def stream(
    server: Server, count: int, *, rounds: int, cases: Collection[str] = tuple(_STREAMS)
) -> dict[str, Any]:
    """Race over so many records; return the cases of streams."""
    contenders = [
        Contender(name, "benchmarks.sink:stream_ours", {"count": count, **_STREAMS[name]})
        for name in cases
    ]
    contenders += [
        Contender(role, f"benchmarks.sink:stream_{role}", {"count": count})
        for role in ("peer", "floor")
    ]
    raced = race(contenders, rounds=rounds, server=server)
    others = {role: raced[role] for role in ("peer", "floor")}
    return {name: _counted({"ours": raced[name], **others}, count, count) for name in cases}


def metrics(server: Server, count: int, peer_count: int, *, rounds: int) -> dict[str, Any]:
    """Race over rows of metrics, fewer for the official sink."""
    contenders = [
        Contender("ours", "benchmarks.sink:metrics_ours", {"count": count}),
        Contender("peer", "benchmarks.sink:metrics_peer", {"count": peer_count}),
    ]
    return _counted(race(contenders, rounds=rounds, server=server), count, peer_count)


def server_down(server: Server, count: int, peer_count: int) -> dict[str, Any]:
    """Log while nothing can be delivered, once each.

    The official sink waits 5 s in every call once its queue is full, and so has fewer.
    """
    contenders = [
        Contender("ours", "benchmarks.sink:down_ours", {"count": count}),
        Contender("peer", "benchmarks.sink:down_peer", {"count": peer_count}),
    ]
    return _counted(race(contenders, rounds=1, server=server), count, peer_count)


def _counted(raced: dict[str, Figures], count: int, peer_count: int) -> dict[str, Any]:
    """Put figures in shape; refuse those of a run of ours that lost or doubled records."""
    counters: Figures = {}
    for role, figures in raced.items():
        logged = peer_count if role == "peer" else count
        kept = figures.get("kept", 0.0)
        lost = logged - kept - figures["server_samples"]
        if lost and role != "peer":
            raise RuntimeError(f"{role}: {lost:,.0f} of {logged:,} records are lost or doubled")
        counters |= {f"{role}_lost": lost, f"{role}_logged": float(logged)}
        counters[f"{role}_records_per_s"] = logged / figures["wall_s"]
        counters |= {f"{role}_{name}": figures[name] for name in _COUNTS if name in figures}
    shown = {
        role: {name: value for name, value in figures.items() if name not in _COUNTS}
        | {"record_ms": figures["wall_s"] / (peer_count if role == "peer" else count) * 1e3}
        for role, figures in raced.items()
    }
    return case(shown, counters)


_COUNTS = ("kept", "queue_limit_mb", "logged_mb")


async def stream_ours(url: str, count: int, durable: bool = False) -> Figures:
    """Contender: ours."""
    rollouts = _records(count)
    run = await _ours(url, durable=durable)
    return await _logging(run.log_trace, rollouts, run.finish)


async def stream_peer(url: str, count: int) -> Figures:
    """Contender: the official sink, a record a call, from the loop."""
    run = _peer(url)
    calls = ([rollout] for rollout in _records(count))
    return await _logging(run.log_traces, list(calls), _finish_of(run))


async def stream_floor(url: str, count: int) -> Figures:
    """Contender: each call encodes and does nothing else; when all are done they are sent."""
    rollouts = _records(count)
    encode = msgspec.json.Encoder().encode
    lines: list[bytes] = []

    def log(rollout: Any) -> None:
        lines.append(encode(rollout) + b"\n")

    async def send() -> None:
        await post_all(url, lines, zstd=True, batch_bytes=_FLOOR_BATCH)

    return await _logging(log, rollouts, send)


async def metrics_ours(url: str, count: int) -> Figures:
    """Contender: ours."""
    run = await _ours(url, kind="train")
    return await _logging(run.log_metrics, _rows(count), run.finish)


async def metrics_peer(url: str, count: int) -> Figures:
    """Contender: the official sink, one request a row."""
    run = _peer(url, kind="train")
    return await _logging(run.log_metrics, _rows(count), _finish_of(run))


async def down_ours(url: str, count: int) -> Figures:
    """Contender: ours, what cannot be queued going to the disk."""
    rollouts = _records(min(count, _DIFFERENT))
    run = await _ours(url, queue_policy="spool", spool_bytes=2**33)
    calls = (rollouts[number % len(rollouts)] for number in range(count))
    figures = await _logging(run.log_trace, calls, run.finish)
    stats = run.stats()
    return {
        **figures,
        "kept": stats.counts.spooled,
        "queue_limit_mb": stats.queue_limit_bytes / 1e6,
        "logged_mb": count * 0.066,
    }


async def down_peer(url: str, count: int) -> Figures:
    """Contender: the official sink, which tries, waits, and gives up."""
    run = _peer(url)
    calls = [[rollout] for rollout in _records(count)]
    return await _logging(run.log_traces, calls, _finish_of(run))


async def _ours(url: str, kind: str = "eval", **options: Any) -> Any:
    from prime_async.runs import init

    return await init(
        api_key=KEY,
        base_url=url,
        kind=kind,
        model="bench",
        environments=[{"id": "bench"}],
        finish_timeout=_FINISH_SECONDS,
        **options,
    )


def _peer(url: str, kind: Literal["eval", "train"] = "eval") -> Any:
    from prime_runs import init

    os.environ["PRIME_TRACES_URL"] = url
    return init(
        api_key=KEY,
        base_url=url,
        team_id="bench",
        kind=kind,
        model="bench",
        environments=[{"id": "bench"}],
        finish_timeout=_FINISH_SECONDS,
    )


def _finish_of(run: Any) -> Callable[[], Any]:
    return lambda: asyncio.to_thread(run.finish)


def _records(count: int) -> list[dict[str, Any]]:
    made = list(make_rollouts(min(count, _DIFFERENT), SMALL))
    return [
        {**made[number % len(made)], "id": f"{number:032x}", "info": {"example_id": number}}
        for number in range(count)
    ]


def _rows(count: int) -> list[dict[str, Any]]:
    return [
        {"example_id": n, "step": n, "loss": 1 / (n + 1), "reward": n % 7} for n in range(count)
    ]


async def _logging(
    log: Callable[[Any], object], calls: Iterable[Any], finish: Callable[[], Any]
) -> Figures:
    """Log from a coroutine, giving the loop its turn after each call; then finish.

    ``log_cpu_p99_ms`` leaves out what a call waited for: the processor, the interpreter, the disk.
    """
    took: list[float] = []
    worked: list[float] = []

    async def work() -> None:
        for record in calls:
            before, cpu = time.perf_counter(), time.thread_time()
            log(record)
            worked.append(time.thread_time() - cpu)
            took.append(time.perf_counter() - before)
            await asyncio.sleep(0)
        await finish()

    figures = await measured(work)
    return {
        **figures,
        "log_p50_ms": statistics.median(took) * 1e3,
        "log_p99_ms": statistics.quantiles(took, n=100)[98] * 1e3,
        "log_max_ms": max(took) * 1e3,
        "log_cpu_p99_ms": statistics.quantiles(worked, n=100)[98] * 1e3,
    }
