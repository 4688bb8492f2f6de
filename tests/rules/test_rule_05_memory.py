"""Rule 5: memory. Ten times the data takes no more memory, up or down, on any face."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.official_stub import EVALUATION
from tests.rules.conftest import point_at
from tests.rules.surfaces import Surface
from tests.rules.table import scenario
from tests.stub import Answer, Request, Stub

MIB = 2**20
LITTLE, MUCH = 4, 40
"""Megabytes. The little fills every buffer there is once."""

MOST_MORE = 16 * MIB
"""What an allocator may keep of its own accord; the data is 36 MB more."""

SAMPLE = '{"example_id": 1, "completion": "%s"}' % ("words and words " * 640)
PER_PAGE = 100

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak is read from /proc"
)

PRELUDE = """
    import asyncio, sys

    def peak():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
"""

PEAKS = """
    peaks = []
    for what in sys.argv[2:]:
        work(what)
        peaks.append(peak())
    print(*peaks, file=sys.stderr)
"""

PUSH = {
    "async": """
        from prime_async import AsyncEvalsClient

        async def push(path):
            async with AsyncEvalsClient() as client:
                assert (await client.push_samples(sys.argv[1], path)).complete

        def work(path):
            asyncio.run(push(path))
    """,
    "sync": """
        from prime_sync import EvalsClient

        def work(path):
            with EvalsClient() as client:
                assert client.push_samples(sys.argv[1], path).complete
    """,
    "command": """
        from prime_async_cli.app import main

        def work(path):
            assert not main(["eval", "push", path, "--eval-id", sys.argv[1], "--env", "e"])
    """,
}

READ = {
    "async": """
        from prime_async import AsyncEvalsClient

        async def read(evaluation_id):
            async with AsyncEvalsClient() as client:
                async for sample in client.iter_samples(evaluation_id):
                    assert sample["example_id"] == 1

        def work(evaluation_id):
            asyncio.run(read(evaluation_id))
    """,
    "sync": """
        from prime_sync import EvalsClient

        def work(evaluation_id):
            with EvalsClient() as client:
                for sample in client.iter_samples(evaluation_id):
                    assert sample["example_id"] == 1
    """,
    "command": """
        from prime_async_cli.app import main

        def work(evaluation_id):
            assert not main(["eval", "samples", evaluation_id, "--all"])
    """,
}


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A little file and a large one."""
    folder = tmp_path_factory.mktemp("large")
    paths = [folder / "little.jsonl", folder / "much.jsonl"]
    for path, size in zip(paths, (LITTLE, MUCH), strict=True):
        path.write_text(f"{SAMPLE}\n" * (size * MIB // len(SAMPLE)), "ascii")
    return list(map(str, paths))


@pytest.fixture
async def large(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stub]:
    """A platform that forgets what it is sent, and sends as many megabytes as it is asked for."""
    async with Stub(keep_bodies=False) as stub:
        point_at(monkeypatch, stub.url)
        evaluation = Answer(json={"evaluation_id": EVALUATION})
        stub.route("*", "/api/v1/evaluations/.*", evaluation)
        stub.route("POST", ".*/samples", Answer(json={}))
        stub.route("GET", ".*/samples", _page)
        yield stub


def _page(request: Request) -> Answer:
    size = int(request.path.split("/")[-2].removeprefix("mib-"))
    number, limit = int(request.query["page"]), int(request.query["limit"])
    total = size * MIB // len(SAMPLE)
    count = max(0, min(limit, total - (number - 1) * limit))
    samples = ",".join([SAMPLE] * count)
    return Answer(body=f'{{"samples": [{samples}], "total": {total}}}'.encode())


@scenario(5)
async def test_pushing_ten_times_as_much(surface: Surface, large: Stub, files: list[str]) -> None:
    """A file is pushed with the memory that a tenth of it takes."""
    little, much = await _peaks(PUSH[surface.name], EVALUATION, *files)
    assert len(large.seen("POST", ".*/samples")) >= LITTLE + MUCH
    assert much - little < MOST_MORE


@scenario(5)
async def test_reading_ten_times_as_much(surface: Surface, large: Stub) -> None:
    """Samples are read back page by page, and no page is kept."""
    little, much = await _peaks(READ[surface.name], "", f"mib-{LITTLE}", f"mib-{MUCH}")
    assert len(large.seen("GET", ".*/samples")) > (LITTLE + MUCH) * MIB // len(SAMPLE) // PER_PAGE
    assert much - little < MOST_MORE


async def _peaks(work: str, *arguments: str) -> tuple[int, int]:
    """Do something little, then much, in one new process; its peak memory after each, in bytes."""
    program = "".join(map(textwrap.dedent, (PRELUDE, work, PEAKS)))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        *arguments,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    little, much = err.split()[-2:]
    return int(little) * 1024, int(much) * 1024
