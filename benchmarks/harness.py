"""Races contenders: each in a fresh process, in turn, several rounds, the best of each figure kept.

A contender is a function ``module:name`` that takes keyword arguments and returns its figures. It
runs in a process of its own, so that nobody inherits another's heap, imports or warm caches; rounds
are interleaved, so that a busy minute of the machine hits everybody alike.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.server import Server
from tests.meters import LoopLag, PeakRss

__all__ = ["CaseResult", "Contender", "Figures", "case", "measured", "race", "run_command"]

Figures = dict[str, float]
CaseResult = dict[str, Any]

_TICK = 0.001
"""Seconds between two looks at the event loop."""


@dataclass(frozen=True)
class Contender:
    """A function to measure.

    Attributes:
        role: "ours", "peer" or "floor"; other roles are reported among the counters.
        function: ``module:name``.
    """

    role: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def race(
    contenders: list[Contender], *, rounds: int = 3, server: Server | None = None
) -> dict[str, Figures]:
    """Run every contender ``rounds`` times, in turn; return the lowest of each figure by role.

    What the server counted is returned beside the figures, from the latest round.
    """
    best: dict[str, Figures] = {}
    for _ in range(rounds):
        for contender in contenders:
            if server is not None:
                server.reset()
            figures = _in_fresh_process(contender, server)
            known = best.setdefault(contender.role, {})
            for name, value in figures.items():
                known[name] = min(value, known.get(name, value))
            if server is not None:
                counted = vars(server.counters())
                known.update({f"server_{name}": float(value) for name, value in counted.items()})
    return best


def _in_fresh_process(contender: Contender, server: Server | None) -> Figures:
    arguments = dict(contender.arguments)
    if server is not None:
        arguments["url"] = server.url
    command = [
        sys.executable,
        "-m",
        "benchmarks.harness",
        contender.function,
        json.dumps(arguments),
    ]
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            command, env=_environment(home, server), capture_output=True, text=True
        )
    if done.returncode:
        raise RuntimeError(f"{contender.role} ({contender.function}) failed:\n{done.stderr}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def _environment(home: str, server: Server | None) -> dict[str, str]:
    """An empty home, no settings from outside, the official packages pointed at our server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PRIME_")}
    kept |= {"HOME": home, "PRIME_API_KEY": "bench", "PRIME_DISABLE_VERSION_CHECK": "1"}
    if server is not None:
        kept["PRIME_API_BASE_URL"] = server.url
    return kept


async def measured(work: Callable[[], Awaitable[object]]) -> Figures:
    """Await ``work()``; return its time, the worst stall of the loop, the growth of peak memory."""
    with PeakRss() as peak:
        async with LoopLag(_TICK) as lag:
            wall, cpu = time.perf_counter(), time.process_time()
            await work()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "wall_s": wall,
        "cpu_s": cpu,
        "stall_ms": lag.worst * 1e3,
        "extra_rss_mb": peak.growth / 1e6,
    }


def run_command(argv: list[str]) -> Figures:
    """Run a program to its end, its output thrown away; return its wall and CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall = time.perf_counter() - wall
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": wall, "cpu_s": cpu}


def case(raced: Mapping[str, Figures], counters: Mapping[str, float] | None = None) -> CaseResult:
    """Put a race into the shape that ``python -m benchmarks --json`` promises.

    ``ratios`` are peer ÷ ours: larger is better. What the server saw of each goes to ``counters``.
    """
    result: CaseResult = {}
    counted: Figures = dict(counters or {})
    for role in ("ours", "peer", "floor"):
        figures = raced.get(role, {})
        result[role] = {k: v for k, v in figures.items() if not k.startswith("server_")}
        for name, value in figures.items():
            if name.startswith("server_"):
                counted[f"{role}_{name.removeprefix('server_')}"] = value
    result["ratios"] = {
        name: value / result["ours"][name]
        for name, value in result["peer"].items()
        if result["ours"].get(name)
    }
    result["counters"] = counted
    return result


def main() -> None:
    """Run one contender in this process and print its figures."""
    module, _, name = sys.argv[1].partition(":")
    function = getattr(importlib.import_module(module), name)
    figures = function(**json.loads(sys.argv[2]))
    if inspect.isawaitable(figures):
        figures = asyncio.run(_await(figures))
    print(json.dumps(figures))


async def _await(figures: Awaitable[Figures]) -> Figures:
    return await figures


if __name__ == "__main__":
    main()
