"""Rule 5: memory. Ten times the data takes no more memory, up or down, on any face."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from prime_async.errors import PrimeError
from tests.meters import TracedPeak
from tests.official_stub import EVALUATION, OfficialStub
from tests.rules.arguments import SANDBOX
from tests.rules.calls import ALL_CALLS, clients
from tests.rules.conftest import point_at
from tests.rules.handles import speaks_sandbox
from tests.rules.surfaces import PythonSurface, Surface
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


@scenario(5, shows=("AsyncEvalsClient.push_samples", "eval push", "eval sync"))
async def test_pushing_ten_times_as_much(surface: Surface, large: Stub, files: list[str]) -> None:
    """A file is pushed with the memory that a tenth of it takes."""
    little, much = await _peaks(PUSH[surface.name], EVALUATION, *files)
    assert len(large.seen("POST", ".*/samples")) >= LITTLE + MUCH
    assert much - little < MOST_MORE


@scenario(5, shows=("AsyncEvalsClient.iter_samples", "eval samples"))
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


MEBIBYTES = 24
LINE = b"x" * 60_000 + b"\n"
LINES = MEBIBYTES * MIB // len(LINE)
PIECE = b"x" * (MIB - 1) + b"\n"
STREAMED = Answer(pieces=[PIECE] * MEBIBYTES, headers={"Content-Type": "application/x-ndjson"})

DOWN = {
    "AsyncTracesClient.download_raw",
    "AsyncTracesAPIClient.stream_bytes",
    "AsyncSandboxClient.download_file",
}
UP = {
    "AsyncTracesClient.upload_file",
    "AsyncTracesClient.upload_lines",
    "AsyncTracesClient.upload_records",
    "AsyncSandboxClient.upload_file",
}
OUTPUT = {
    "AsyncCommandStream.outputs",
    "AsyncCommandStream.wait",
    "AsyncProcessStream.read",
    "AsyncSandboxProcess.wait",
    "AsyncSandboxClient.execute_command",
    "AsyncSandboxClient.stream_command",
}
MOST_HELD = 12 * MIB
"""What may be held of 24 MiB: 8 MiB of output that nobody reads, and windows."""

SAME = "its iterators hold a bounded number of items, as tests/prime_sync/test_iterators.py shows"
NO_FILES = "it hands on what the calls read, a window at a time"


@scenario(5, shows=DOWN, not_sync=SAME, not_command=NO_FILES)
async def test_what_is_fetched_is_not_held(surface: PythonSurface, official: OfficialStub) -> None:
    """24 MiB come down through windows of one."""
    speaks_sandbox(official)
    official.route("GET", ".*/(traces|trace-1|trace-1/raw|download)", STREAMED)
    async with clients(surface.face) as on:
        for call in (call for call in ALL_CALLS if str(call) in DOWN):
            with TracedPeak() as peak:
                if call.name == "stream_bytes":
                    received = 0
                    async for piece in on[call.owner].stream_bytes("/traces"):
                        received += len(piece)
                    assert received == MEBIBYTES * MIB
                else:
                    await call.on(on)
            assert peak.growth < MOST_HELD, (call, peak.growth)


@scenario(5, shows=OUTPUT, not_sync=SAME, not_command=NO_FILES)
async def test_what_commands_write_is_not_held(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """24 MiB of output, read or not: no more than its limit is kept of it."""
    ended = [LINE] * LINES
    for name in sorted(OUTPUT):
        async with surface.face.AsyncSandboxClient() as client:
            speaks_sandbox(official, *ended, ends=True)
            with TracedPeak() as peak:
                await COMMANDS_READ[name](client)
            assert peak.growth < MOST_HELD, (name, peak.growth)


async def _execute(client: Any) -> None:
    answer = await client.execute_command(SANDBOX, "true", max_output_bytes=MIB)
    assert (len(answer.stdout), answer.stdout_truncated) == (MIB, True)


async def _stream(client: Any) -> None:
    async with client.stream_command(SANDBOX, "true", max_output_bytes=MIB) as stream:
        count = 0
        async for _ in stream:
            count += 1
    assert count == LINES


async def _outputs(client: Any) -> None:
    async with client.stream_command(SANDBOX, "true", max_output_bytes=MIB) as stream:
        sizes = [len(data) async for _, data in stream.outputs()]
    assert sum(sizes) == LINES * len(LINE)


async def _wait(client: Any) -> None:
    async with client.stream_command(SANDBOX, "true", max_output_bytes=MIB) as stream:
        assert (await stream.wait()).exit_code == 0


async def _process(client: Any) -> None:
    process = await client.open_process(SANDBOX, "true")
    assert await process.wait() == 0
    await process.aclose()


async def _read(client: Any) -> None:
    process = await client.open_process(SANDBOX, "true")
    size = 0
    while piece := await process.stdout.read():
        size += len(piece)
    assert size + process.stdout.dropped_bytes == LINES * len(LINE)
    await process.aclose()


COMMANDS_READ = {
    "AsyncCommandStream.outputs": _outputs,
    "AsyncCommandStream.wait": _wait,
    "AsyncProcessStream.read": _read,
    "AsyncSandboxClient.execute_command": _execute,
    "AsyncSandboxClient.stream_command": _stream,
    "AsyncSandboxProcess.wait": _process,
}


@scenario(
    5,
    shows=UP,
    not_sync=SAME,
    not_command="a file of samples is shown above",
)
async def test_what_is_sent_is_not_held(
    surface: PythonSurface, official: OfficialStub, tmp_path: Path
) -> None:
    """24 MiB go up from files and generators, to a platform that keeps nothing."""
    official.keep_bodies = False
    speaks_sandbox(official)
    official.route("POST", ".*/traces", Answer(201, json={"upload_id": "u", "status": "committed"}))
    official.route("POST", ".*/upload", Answer(json={"success": True, "path": "p", "size": 1}))
    sent = tmp_path / "lines.jsonl"
    line = b'{"id": "t", "text": "%s"}\n' % (b"x" * 64_000)
    with sent.open("wb") as file:
        for _ in range(MEBIBYTES * 16):
            file.write(line)
    sources: dict[str, dict[str, Any]] = {
        "AsyncTracesClient.upload_file": {"path": sent},
        "AsyncTracesClient.upload_lines": {"lines": (line for _ in range(MEBIBYTES * 16))},
        "AsyncTracesClient.upload_records": {
            "records": ({"id": "t", "text": f"{n:016}" * 4000} for n in range(MEBIBYTES * 16))
        },
        "AsyncSandboxClient.upload_file": {"local_file_path": sent},
    }
    assert set(sources) == UP
    small = {"target_batch_bytes": MIB, "compress": False}
    async with clients(surface.face) as on:
        for call in (call for call in ALL_CALLS if str(call) in UP):
            more = small if call.of_traces else {}
            with TracedPeak() as peak, contextlib.suppress(PrimeError):
                await call.on(on, **sources[str(call)], **more)
            assert peak.growth < MOST_HELD, (call, peak.growth)
