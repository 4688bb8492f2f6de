"""Many clients at work in one process, which reports every moment what it and the server hold.

``python -m tests.soak.load JSON`` with a :class:`Plan`; one :class:`Reading` per line comes out. A
process of its own, because the test process holds what earlier tests left behind.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import psutil

from prime_async.evals import AsyncEvalsClient

__all__ = ["Plan", "Reading"]

SAMPLES = [
    {
        "example_id": index,
        "reward": index / 100,
        "prompt": [{"role": "user", "content": f"question {index} " * 8}],
        "completion": [{"role": "assistant", "content": "an answer, é ☕ " * 16}],
    }
    for index in range(100)
]


class Plan(msgspec.Struct):
    """What the load is.

    Attributes:
        url, key: the platform.
        clients: how many work at the same time, each in a task of its own.
        seconds: for how long.
        every: seconds between two readings.
        server: process id of the platform.
    """

    url: str
    key: str
    clients: int
    seconds: float
    every: float
    server: int


class Reading(msgspec.Struct):
    """What was held at one moment.

    Attributes:
        at: seconds since the load began.
        lives: evaluations that were created, filled, read, closed and deleted by then.
        memory, server_memory: resident bytes.
        descriptors, server_descriptors: open files and sockets.
        threads, server_threads: running threads.
        tasks: tasks of the event loop of the clients.
    """

    at: float
    lives: int
    memory: int
    server_memory: int
    descriptors: int
    server_descriptors: int
    threads: int
    server_threads: int
    tasks: int


class Crowd:
    """The clients; counts the lives they have led evaluations through."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.began = time.monotonic()
        self._until = self.began + plan.seconds
        self.lives = 0

    async def run(self) -> None:
        """Let all clients work until the time is over."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._plan.clients):
                work = self._keep_one_client if number % 2 else self._make_clients
                group.create_task(work(number))

    async def _keep_one_client(self, number: int) -> None:
        async with self._client() as client:
            while time.monotonic() < self._until:
                await self._live(client, number)

    async def _make_clients(self, number: int) -> None:
        while time.monotonic() < self._until:
            async with self._client() as client:
                await self._live(client, number)

    def _client(self) -> AsyncEvalsClient:
        return AsyncEvalsClient(self._plan.key, base_url=self._plan.url)

    async def _live(self, client: AsyncEvalsClient, number: int) -> None:
        """Lead one evaluation from its creation to its end, through every kind of call."""
        made = await client.create_evaluation(f"soak {number}", dataset="soak")
        evaluation_id = made.evaluation_id
        assert evaluation_id is not None
        for source in (SAMPLES, iter(SAMPLES[:10]), _later(SAMPLES[:10])):
            receipt = await client.push_samples(evaluation_id, source)
            assert receipt.complete, receipt
        page = await client.get_samples(evaluation_id, limit=10)
        assert page.total == len(SAMPLES) + 20
        await client.list_evaluations(limit=5)
        await client.finalize_evaluation(evaluation_id, metrics={"accuracy": 0.5})
        await client.delete_evaluation(evaluation_id)
        self.lives += 1


async def _later(samples: list[Any]) -> AsyncIterator[Any]:
    for sample in samples:
        yield sample


async def readings(plan: Plan, crowd: Crowd) -> AsyncIterator[Reading]:
    """Take a reading every moment, for ever."""
    mine, server = psutil.Process(), psutil.Process(plan.server)
    while True:
        # Cycles that wait for the collector are not held by anybody.
        gc.collect()
        yield Reading(
            at=time.monotonic() - crowd.began,
            lives=crowd.lives,
            tasks=len(asyncio.all_tasks()),
            **dict(_held(mine, "")),
            **dict(_held(server, "server_")),
        )
        await asyncio.sleep(plan.every)


def _held(process: psutil.Process, prefix: str) -> Iterator[tuple[str, int]]:
    with process.oneshot():
        yield f"{prefix}memory", process.memory_info().rss
        yield f"{prefix}descriptors", process.num_fds()
        yield f"{prefix}threads", process.num_threads()


async def main(plan: Plan) -> None:
    """Run the load and print the readings."""
    crowd = Crowd(plan)

    async def report() -> None:
        async for reading in readings(plan, crowd):
            print(msgspec.json.encode(reading).decode(), flush=True)

    reporting = asyncio.create_task(report())
    await crowd.run()
    reporting.cancel()
    await asyncio.wait({reporting})
    # What is left when every client is closed.
    async for reading in readings(plan, crowd):
        print(msgspec.json.encode(reading).decode(), flush=True)
        break


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Plan)))
