"""Client and platform die in turns, the network between them is bad: 0 lost, 0 doubled.

``make test-scale`` runs it for longer; the default run has a shorter one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from prime_async.api import AsyncAPIClient
from tests.faults.plan import Break, Delay, Fault, FaultPlan, Moment, SlowBody, Status
from tests.faults.proxy import FaultProxy
from tests.platform import KEY, ProcessPlatform
from tests.runs.opening import OpenRun

_CLIENT = """
import asyncio, json, os, sys, time
from dataclasses import asdict
from prime_async.runs import init
from prime_async.transport import RetryPolicy

URL, KEY, RUN, LIFE, SPOOL = sys.argv[1:]

async def main():
    run = await init(
        base_url=URL, api_key=KEY, id=RUN, kind="train", spool_dir=SPOOL, durable=True,
        retry=RetryPolicy(tries=2, first_delay=0.01, max_delay=0.05),
    )
    stopped = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    number = 0
    while not stopped.done():
        started = {"start": time.time()}
        run.log_trace({"id": f"{RUN}-{LIFE}-{number}", "timing": started, "text": "x" * 3000})
        if number % 10 == 0:
            run.log_metrics({"life": int(LIFE), "number": number}, step=number)
        number += 1
        os.write(1, b".")
        await asyncio.sleep(0.002)
    receipt = await run.finish()
    print()
    print(json.dumps({"calls": number + (number + 9) // 10, **asdict(receipt.counts)}))

asyncio.run(main())
"""


@dataclass
class Life:
    """One process that logs, from its start to its end.

    Attributes:
        returned: calls that had returned, as far as anybody could see.
    """

    process: asyncio.subprocess.Process
    returned: int = 0
    counts: dict[str, Any] = field(default_factory=dict)

    async def until(self, number: int) -> None:
        """Let it log so many."""
        assert self.process.stdout is not None
        while self.returned < number:
            self.returned += len(await self.process.stdout.readexactly(1))

    async def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        assert self.process.stdout is not None
        self.returned += len(await self.process.stdout.read())
        await self.process.wait()

    async def finish(self) -> None:
        """Let it finish its run, and read its account."""
        out, _ = await self.process.communicate(b"")
        dots, _, account = out.partition(b"\n")
        self.returned += len(dots)
        self.counts = json.loads(account)


class Storm:
    """A platform, a bad network, and one run that one process after the other logs to."""

    def __init__(self, platform: ProcessPlatform, spool: Path, seed: int) -> None:
        self.platform = platform
        self.plan = FaultPlan()
        self.proxy = FaultProxy(("127.0.0.1", platform.port), self.plan)
        self.spool = spool
        self.lives: list[Life] = []
        self.run_id = ""
        self._dice = random.Random(seed)

    async def begin(self) -> None:
        """Open the run that all processes log to."""
        await self.proxy.start()
        made = {"base_model": "m", "max_steps": 0, "environments": [{"id": "math"}]}
        async with AsyncAPIClient(KEY, base_url=self.proxy.url) as api:
            self.run_id = (await api.post("/rft/external-runs", json=made))["run"]["id"]

    def weather(self, number: int) -> None:
        """Let so many of the next requests meet a fault each."""
        for _ in range(number):
            self.plan.add(self._dice.choice(_FAULTS)(), when=lambda head: head.method == "POST")

    async def live(self) -> Life:
        """Start the next process."""
        arguments = (self.proxy.url, KEY, self.run_id, str(len(self.lives)), str(self.spool))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _CLIENT,
            *arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env=dict(os.environ),
        )
        self.lives.append(Life(process))
        return self.lives[-1]

    async def restart(self) -> None:
        """kill -9 of the platform; then it is there again."""
        await asyncio.to_thread(self.platform.kill)
        await asyncio.to_thread(self.platform.start)

    @contextlib.asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        """Nobody listens."""
        await self.proxy.aclose()
        yield
        await self.proxy.start()

    async def settle(self) -> None:
        """Deliver what is on disk, in good weather."""
        self.plan.rules.clear()
        opener = OpenRun(self.proxy.url, self.spool)
        for _ in range(3):
            if not opener.left():
                return
            await opener.sync()
        assert opener.left() == []

    async def stored(self) -> dict[str, int]:
        """How many copies the platform has of each trace of the run."""
        copies: dict[str, int] = {}
        async with AsyncAPIClient(KEY, base_url=self.platform.url) as api:
            cursor = None
            while True:
                query = {"run_id": self.run_id, "limit": 100, "cursor": cursor}
                page = await api.get("/traces", query)
                copies |= {item["trace_id"]: item["generation"] for item in page["items"]}
                cursor = page["next_cursor"]
                if cursor is None:
                    return copies

    async def check(self) -> None:
        """Every record whose call had returned is there, once; and at most one more per kill."""
        found = await self.stored()
        assert set(found.values()) == {1}
        for number, life in enumerate(self.lives):
            mine = {name for name in found if name.startswith(f"{self.run_id}-{number}-")}
            wanted = {f"{self.run_id}-{number}-{n}" for n in range(len(mine))}
            assert mine == wanted
            more = 0 if life.counts else 1  # a call may have written its record and not its dot
            assert life.returned <= len(mine) <= life.returned + more


_FAULTS: list[Callable[[], Fault]] = [
    lambda: Status(429, retry_after="0"),
    lambda: Status(503),
    lambda: Status(502, executed=True),
    lambda: Delay(0.1),
    lambda: Delay(0.1, executed=True),
    lambda: SlowBody(piece=40),
    lambda: Break("reset", Moment.REQUEST_HEAD),
    lambda: Break("reset", Moment.REQUEST_BODY, after=200),
    lambda: Break("reset", Moment.EXECUTED),
    lambda: Break("cut", Moment.RESPONSE_HEAD, after=5),
    lambda: Break("garbage", Moment.RESPONSE_HEAD),
]


@contextlib.asynccontextmanager
async def storm(tmp_path: Path, seed: int) -> AsyncIterator[Storm]:
    """A storm of its own, and no process left behind."""
    with ProcessPlatform(tmp_path) as platform:
        made = Storm(platform, tmp_path / "spool", seed)
        await made.begin()
        try:
            yield made
        finally:
            for life in made.lives:
                if life.process.returncode is None:
                    await life.kill()
            await made.proxy.aclose()


async def test_one_kill_each(tmp_path: Path) -> None:
    """The platform is killed, then the process that logs; the next one finishes the run."""
    async with storm(tmp_path, seed=1) as around:
        around.weather(4)
        first = await around.live()
        await first.until(60)
        await around.restart()
        await first.until(120)
        await first.kill()
        second = await around.live()
        await second.until(20)
        async with around.down():
            await second.until(60)
        await second.finish()
        await around.settle()
        await around.check()
        _check_account(second)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_many_lives(tmp_path: Path, seed: int) -> None:
    """Eight processes are killed, the platform four times, and every third request fails."""
    async with storm(tmp_path, seed) as around:
        for number in range(8):
            around.weather(8)
            life = await around.live()
            await life.until(200)
            if number % 2:
                await around.restart()
            else:
                async with around.down():
                    await life.until(400)
            await life.until(700)
            await life.kill()
        last = await around.live()
        await last.until(300)
        await last.finish()
        await around.settle()
        await around.check()
        _check_account(last)


def _check_account(life: Life) -> None:
    counts = life.counts
    assert counts["calls"] == counts["delivered"] + counts["spooled"]
    assert counts["queued"] == counts["lost"] == counts["dropped"] == counts["refused"] == 0
