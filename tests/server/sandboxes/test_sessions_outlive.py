"""kill -9 of the server: commands that somebody talks to go on, and are found again."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from prime_async.sandboxes import AsyncSandboxClient, AsyncSandboxProcess, CreateSandboxRequest
from tests.platform import KEY, ProcessPlatform
from tests.server.sandboxes.usable import needs_bubblewrap

pytestmark = needs_bubblewrap

REQUEST = CreateSandboxRequest(name="x", docker_image="python:3.11", memory_gb=1)

COUNTER = "n=0; until test -e /tmp/go; do n=$((n+1)); echo $n; echo e$n >&2; sleep 0.01; done"


async def _all(stream: object) -> bytes:
    return b"".join([piece async for piece in stream])  # type: ignore[attr-defined]


async def _until_read(process: AsyncSandboxProcess, words: bytes) -> bytes:
    seen = b""
    while words not in seen:
        piece = await process.stdout.read()
        assert piece, seen
        seen += piece
    return seen


@pytest.mark.slow
async def test_sessions_outlive_a_killed_server(tmp_path: Path) -> None:
    """Pipes and terminal: same process, same input and output, nothing lost and nothing twice."""
    with ProcessPlatform(tmp_path) as platform:
        async with AsyncSandboxClient(api_key=KEY, base_url=platform.url) as client:
            box = (await client.create(REQUEST)).id
            await client.wait_for_creation(box)
            counter = await client.open_process(box, COUNTER)
            shell = await client.open_process(box, "bash --norc -i", pty=(80, 24))
            echo = await client.open_process(box, "cat; exit 7")
            quick = await client.open_process(box, "read x; head -c 300000 /dev/zero; exit 4")
            await _until_read(counter, b"20\n")
            await shell.write_stdin(b"kept=yes; echo re''ady\n")
            await _until_read(shell, b"ready")
            out, err = (
                asyncio.create_task(_all(counter.stdout)),
                asyncio.create_task(_all(counter.stderr)),
            )
            await asyncio.to_thread(platform.kill)
            await asyncio.to_thread(platform.start)
            await shell.resize(100, 40)
            await shell.write_stdin(b"echo $kept; stty size; exit 5\n")
            assert b"yes" in await _until_read(shell, b"40 100")
            assert await shell.wait() == 5
            await echo.write_stdin(b"still here")
            await echo.close_stdin()
            assert await _all(echo.stdout) == b"still here"
            assert await echo.wait() == 7
            await quick.write_stdin(b"\n")
            assert await _all(quick.stdout) == bytes(300_000)
            assert await quick.wait() == 4
            await client.upload_bytes(box, "/tmp/go", b"")
            told, errors = (await out).split(), (await err).split()
            first = int(told[0])
            assert [int(n) for n in told] == list(range(first, first + len(told)))
            assert errors == [b"e%d" % n for n in range(1, len(errors) + 1)]
            assert errors[-1] == b"e" + told[-1]
            assert await counter.wait() == 0
            assert counter.reconnects > 0
            assert counter.stdout.missing_bytes == counter.stderr.missing_bytes == 0
            again = await client.open_process(box, "sleep 60")
            await again.kill()
            assert await again.wait() == 128 + signal.SIGKILL
            await client.delete(box)
