"""Rule 6: the loop. Whatever is pushed or read, nothing holds it for more than 20 ms at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prime_async import AsyncRun, AsyncSandboxClient
from tests.evals.pushing import write_jsonl
from tests.meters import LoopLag
from tests.official_stub import EVALUATION
from tests.rules.calls import ALL_CALLS, clients
from tests.rules.conftest import point_at
from tests.rules.handles import opened, speaks_sandbox
from tests.rules.steps import Steps, measured_steps
from tests.rules.surfaces import PythonSurface
from tests.rules.table import scenario
from tests.rules.test_rule_05_memory import COMMANDS_READ, DOWN, LINE, LINES, STREAMED
from tests.stub import Answer, Request, Stub, stub_in_thread

MOST = 0.020
NO_LOOP = "its loop serves nobody else; that Ctrl-C gets through at once is shown under rule 3"

LOOP_OF = {"async": "MainThread", "sync": "prime_sync"}

TEXT = "the quick brown fox " * 50
ROWS: dict[str, list[Any]] = {
    "plain": [{"example_id": n, "reward": 0.5, "completion": TEXT} for n in range(10_000)],
    "small": [{"example_id": n} for n in range(100_000)],
    "of the table": [{"example_id": n, "logits": np.arange(100.0)} for n in range(5_000)],
    "large": [{"example_id": n, "completion": TEXT * 1000} for n in range(20)],
    "refused": [{"example_id": n, "model": object()} for n in range(2_000)],
}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """A platform whose own work is on another thread."""
    server = Stub(keep_bodies=False)
    server.route("POST", ".*/samples", Answer(json={}))
    server.route("GET", ".*/samples", _page)
    with stub_in_thread(server):
        point_at(monkeypatch, server.url)
        yield server


_ROW = json.dumps({"example_id": 1, "completion": TEXT * 2, "numbers": list(range(30))})


def _page(request: Request) -> Answer:
    number, count = int(request.query["page"]), int(request.query["limit"])
    samples = ",".join([_ROW] * count if number <= 3 else [])
    return Answer(body=f'{{"samples": [{samples}], "total": {3 * count}}}'.encode())


@pytest.mark.parametrize("kind", ROWS)
@scenario(6, shows=("AsyncEvalsClient.push_samples",), not_command=NO_LOOP)
async def test_pushing_a_list(surface: PythonSurface, elsewhere: Stub, kind: str) -> None:
    """Many, small, large, of the table of values, refused: encoded in slices."""
    with measured_steps() as steps:
        outcome = await surface.push(EVALUATION, ROWS[kind])
    assert outcome.ok, outcome.said
    _assert_short(steps, surface)


@scenario(6, not_command=NO_LOOP)
async def test_pushing_a_file_and_an_iterable(
    surface: PythonSurface, elsewhere: Stub, tmp_path: Path
) -> None:
    """Read and checked in threads."""
    path = write_jsonl(tmp_path / "samples.jsonl", ROWS["plain"])

    async def later() -> AsyncIterator[Any]:
        for row in ROWS["plain"]:
            yield row

    for source in (path, iter(ROWS["plain"]), later()):
        with measured_steps() as steps:
            outcome = await surface.push(EVALUATION, source)
        assert outcome.ok, outcome.said
        _assert_short(steps, surface)


@scenario(6, shows=("AsyncEvalsClient.iter_samples",), not_command=NO_LOOP)
async def test_reading_large_pages(surface: PythonSurface, elsewhere: Stub) -> None:
    """Pages of 1,000 samples, some megabytes each, are decoded in slices."""
    with measured_steps() as steps:
        async with surface.face.AsyncEvalsClient() as client:
            samples = client.iter_samples(EVALUATION, page_size=1000)
            assert sum([1 async for _ in samples]) == 3000
    _assert_short(steps, surface)


def _assert_short(steps: Steps, surface: PythonSurface, most: float = MOST) -> None:
    name = LOOP_OF[surface.name]
    assert 0 < steps.longest[name] < most, steps.what[name]


@scenario(
    6,
    not_sync="its loop is its own: the steps above are all there is to it",
    not_command=NO_LOOP,
)
async def test_others_are_served_meanwhile(surface: PythonSurface, elsewhere: Stub) -> None:
    """A task of the trainer that wants to run every 5 ms does, all through a push."""
    for _ in range(3):  # the best of three: a wall clock measures the neighbours too
        async with LoopLag() as lag:
            assert (await surface.push(EVALUATION, ROWS["plain"])).ok
        assert lag.ticks
        if lag.worst < 0.1:
            return
    raise AssertionError(f"held for {lag.worst:.3f} s")


READ = (
    "AsyncProcessStream.read",
    "AsyncSandboxClient.execute_command",
    "AsyncSandboxClient.stream_command",
)


@scenario(6, shows=[*DOWN, *READ], not_sync="the same steps on another thread", not_command=NO_LOOP)
async def test_what_comes_in_pieces(surface: PythonSurface, elsewhere: Stub) -> None:
    """Files, and what commands write: 24 MiB in windows and lines."""
    speaks_sandbox(elsewhere, *[LINE] * LINES, ends=True)
    elsewhere.route("GET", ".*/(traces|trace-1|trace-1/raw|download)", STREAMED)
    async with clients(surface.face) as on:
        for call in (call for call in ALL_CALLS if str(call) in DOWN):
            with measured_steps() as steps:
                await call.on(on)
                await asyncio.sleep(0)
            _assert_short(steps, surface)
        for name in READ:
            with measured_steps() as steps:
                await COMMANDS_READ[name](on[AsyncSandboxClient])
                await asyncio.sleep(0)
            # What a command wrote becomes one text in the end: new pages, dear on a full machine.
            _assert_short(steps, surface, 2 * MOST)


MOST_IN_THE_SINK = 0.010
ALOGGED = ("log_traces", "log_episodes", "log_samples", "log_metrics")
LOGGED = {
    "log_trace": {"id": "t", "text": TEXT * 1000},
    "log_traces": [{"id": "t", "text": TEXT * 1000}],
    "log_episode": {"id": "e", "traces": [], "text": TEXT * 1000},
    "log_episodes": [{"id": "e", "traces": [], "text": TEXT * 1000}],
    "log_samples": [{"example_id": 1, "completion": TEXT * 1000}],
    "log_metrics": {f"m{number}": 0.5 for number in range(10_000)},
    "log_distributions": {"reward": [0.5] * 40_000},
    "update_summary": {f"m{number}": 0.5 for number in range(10_000)},
}
IN_THE_SINK = [
    *(f"AsyncRun.{name}" for name in LOGGED),
    *(f"AsyncRun.a{name}" for name in LOGGED if name in ALOGGED),
    *("AsyncRun.flush", "AsyncRun.finish", "AsyncRun.fail", "AsyncRun.begin_finish"),
    "init",
    "stream_results",
]


@scenario(
    6, shows=IN_THE_SINK, not_sync="the same code in the caller's thread", not_command=NO_LOOP
)
async def test_a_record_of_a_mebibyte_is_logged_in_time(
    surface: PythonSurface, elsewhere: Stub
) -> None:
    """Whatever is logged, and the end of it: the loop of the caller is not held for 10 ms."""
    elsewhere.keep_bodies = True
    for durable in (False, True):
        with measured_steps() as steps:
            async with opened(AsyncRun, surface.face, elsewhere, durable=durable) as run:
                for name, value in LOGGED.items():
                    getattr(run, name)(value)
                    await asyncio.sleep(0)
                    if name in ALOGGED:
                        await getattr(run, f"a{name}")(value)
                await run.flush()
                await run.finish()
        assert steps.longest["MainThread"] < MOST_IN_THE_SINK, steps.what["MainThread"]
