"""200 clients for two minutes on two cores: memory, sockets, threads and tasks do not grow.

``make test-scale`` runs it whole; the default run has a few clients for some seconds. Growth is
what the median of the last part lies above the median of the part before, once everything that is
filled once (pools, page caches, compiled statements) has been filled.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from tests.platform import KEY, ProcessPlatform
from tests.soak.load import Plan, Reading

MIB = 2**20

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="what is held is read from /proc"
)


@dataclass(frozen=True)
class Scale:
    """How much.

    Attributes:
        warm: share of the time that does not count: until everything is filled that is filled once.
        memory: bytes by which the resident memory may differ between the parts.
    """

    clients: int
    seconds: float
    every: float
    warm: float
    memory: int

    def __str__(self) -> str:
        return f"{self.clients} clients, {self.seconds:g} s"


FEW = Scale(clients=16, seconds=6, every=0.1, warm=0.5, memory=6 * MIB)
MANY = Scale(clients=200, seconds=120, every=0.5, warm=0.3, memory=4 * MIB)

SCALES = [
    pytest.param(FEW, id="few"),
    pytest.param(MANY, id="many", marks=[pytest.mark.scale, pytest.mark.timeout(400)]),
]


@pytest.mark.parametrize("scale", SCALES)
def test_clients_at_work_hold_no_more_and_more(scale: Scale, tmp_path: Path) -> None:
    """Neither in their process nor in the platform's; and when they are closed nothing is left."""
    with ProcessPlatform(tmp_path) as platform:
        taken = _readings(scale, platform)
    *busy, last = taken
    first = busy[0]
    print(f"{scale}: {last.lives} lives, {len(busy)} readings\n{_summary(busy)}")
    assert last.lives >= scale.clients, "they hardly worked"

    for name in ("memory", "server_memory"):
        assert _growth(busy, name, scale.warm) <= scale.memory, _summary(busy)
    # Each client has a few tasks and a connection; how many at one moment is chance.
    chance = scale.clients / 4
    for name in ("descriptors", "server_descriptors", "tasks"):
        assert _growth(busy, name, scale.warm) <= chance, _summary(busy)
    for name in ("threads", "server_threads"):
        assert _growth(busy, name, scale.warm) <= 2, _summary(busy)

    assert last.tasks <= 2
    assert last.descriptors <= first.descriptors + 2
    assert last.server_descriptors <= first.server_descriptors + scale.clients


def _readings(scale: Scale, platform: ProcessPlatform) -> list[Reading]:
    """Let the clients work, in a process of their own."""
    plan = Plan(
        url=platform.url,
        key=KEY,
        clients=scale.clients,
        seconds=scale.seconds,
        every=scale.every,
        server=platform.pid,
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak.load", msgspec.json.encode(plan).decode()],
        capture_output=True,
        cwd=Path(__file__).parents[2],
        env=dict(os.environ),
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return msgspec.json.decode(b"[%s]" % b",".join(done.stdout.splitlines()), type=list[Reading])


def _growth(taken: Sequence[Reading], name: str, warm: float) -> float:
    """How much more was held in the second half of what counts than in the first."""
    counted = [getattr(reading, name) for reading in taken[int(len(taken) * warm) :]]
    middle = len(counted) // 2
    return statistics.median(counted[middle:]) - statistics.median(counted[:middle])


def _summary(taken: Sequence[Reading]) -> str:
    """Every tenth of the readings, in a line."""
    step = max(1, len(taken) // 10)
    return "\n".join(
        f"{reading.at:6.1f} s {reading.lives:6} lives"
        f" | {reading.memory / MIB:6.1f} MiB {reading.descriptors:4} files"
        f" {reading.threads:3} threads {reading.tasks:4} tasks"
        f" | platform {reading.server_memory / MIB:6.1f} MiB {reading.server_descriptors:4} files"
        f" {reading.server_threads:3} threads"
        for reading in taken[::step]
    )
