"""Field reports, groups E and F: building commands, timeouts, cancelling, leftovers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from prime_async import (
    APIError,
    AsyncSandboxClient,
    CommandTimeoutError,
    CreateSandboxRequest,
    SandboxOOMError,
)
from prime_async.sandboxes.wire import Output, Started
from tests.sandbox_double import Running, SandboxDouble

NASTY = "it's; touch {pwned}; $(touch {pwned}) `touch {pwned}` \"\n&& \\"


async def test_FR20_nothing_we_build_is_run(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """A value in an environment, a folder's name, a file's name arrives as it is."""
    pwned = tmp_path / "pwned"
    value = NASTY.format(pwned=pwned).replace("/", "%")
    result = await client.execute_command(box, 'printf %s "$VALUE"', env={"VALUE": value})
    assert result.stdout == value
    folder = double.folder / value[:40]
    folder.mkdir()
    result = await client.execute_command(box, "pwd", working_dir=str(folder))
    assert result.stdout.rstrip("\n").startswith(str(double.folder))
    file = folder / value[:60]
    await client.upload_bytes(box, str(file), b"x")
    assert file.read_bytes() == b"x"
    assert [entry.path for entry in await client.list_files(box, str(folder))] == [str(file)]
    await client.download_tree(box, str(folder), tmp_path / "copy")
    await client.upload_tree(box, str(folder / "again"), tmp_path / "copy")
    assert (folder / "again" / file.name).read_bytes() == b"x"
    assert not pwned.exists()


async def test_FR23_a_timeout_ends_the_whole_group(client: AsyncSandboxClient, box: str) -> None:
    """A timeout is a timeout error in time, and no child is left."""
    mark = f"{time.time_ns() % 10**6 + 10**6}"
    began = time.monotonic()
    with pytest.raises(CommandTimeoutError):
        await client.execute_command(box, f"sleep {mark} & sleep {mark}; wait", timeout=1)
    assert time.monotonic() - began < 2.5
    async with asyncio.timeout(2):
        while _sleeping(mark):
            await asyncio.sleep(0.05)


def _sleeping(mark: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == f"sleep\0{mark}\0".encode():
                return True
        except OSError:
            continue
    return False


async def test_FR23_a_platform_that_does_not_end_it_is_told_to(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """Where the service does not keep the time, the client does and sends the signal."""

    async def play(running: Running) -> AsyncIterator[Any]:
        yield Started(1)
        yield Output("stdout", b"begun")
        await asyncio.sleep(60)

    double.plays["stuck"] = play
    with pytest.raises(CommandTimeoutError) as caught:
        await client.execute_command(box, "stuck", timeout=0.5)
    assert caught.value.stdout == "begun"
    assert [command.signals for command in double.running.values()] == [[9]]


async def test_FR24_silence_is_an_error_in_time(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox that cannot be reached any more: told within the timeout and a grace, no repeat."""
    monkeypatch.setattr("prime_async.sandboxes.killing.KILL_SECONDS", 0.5)

    async def play(running: Running) -> AsyncIterator[Any]:
        yield Started(1)
        yield Output("stdout", b"one chunk")
        double.fault("POST", "/SendSignal", does="silence", times=100)
        await asyncio.sleep(60)

    double.plays["silent"] = play
    began = time.monotonic()
    with pytest.raises(CommandTimeoutError, match="unreachable"):
        await client.execute_command(box, "silent", timeout=1)
    assert time.monotonic() - began < 11
    assert len(double.requests("POST", "/Start")) == 1


SCRIPT = """
import asyncio, sys
from prime_async import AsyncSandboxClient, CreateSandboxRequest

async def one(client):
    async with client.sandbox(CreateSandboxRequest(name="x", docker_image="i")):
        print("up", flush=True)
        await asyncio.sleep(60)

async def main():
    async with AsyncSandboxClient(api_key="k", base_url=sys.argv[1]) as client:
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(one(client))

asyncio.run(main())
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_FR25_signals_delete_every_sandbox(
    double: SandboxDouble, number: signal.Signals, code: int
) -> None:
    """20 live sandboxes, slow deletes: all are deleted, and the exit code is the usual one."""
    double.delete_delay = 1.0
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(SCRIPT),
        double.url,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    async with asyncio.timeout(60):
        for _ in range(20):
            await child.stdout.readline()
        began = time.monotonic()
        child.send_signal(number)
        exit_code = await child.wait()
    assert time.monotonic() - began < 10
    assert exit_code in (code, -number)
    assert double.live == []
    assert len(double.requests("DELETE", r"sbx\d+")) == 20


async def test_FR25_cancelling_the_main_task_deletes_every_sandbox(
    client: AsyncSandboxClient, double: SandboxDouble
) -> None:
    """Cancellation does not cut the clean-up."""
    double.delete_delay = 0.5

    async def one() -> None:
        async with client.sandbox(CreateSandboxRequest(name="x", docker_image="i")):
            await asyncio.sleep(60)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(one())

    task = asyncio.create_task(main())
    async with asyncio.timeout(30):
        while len(double.requests("POST", "/Start")) < 20:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert double.live == []
    assert len(double.sandboxes) == 20


async def test_FR26_the_reason_of_the_end_is_told(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """A sandbox that ran out of memory during a command: the error says so, not "503"."""
    double.end(box, errorType="OOM_KILLED", errorMessage="used 2 GB of 1 GB")
    double.fault("POST", "/Start", status=503, times=100, headers={"Retry-After": "0"})
    with pytest.raises(SandboxOOMError, match="out of memory") as caught:
        await client.execute_command(box, "train", timeout=30)
    assert (caught.value.status, caught.value.command) == ("TERMINATED", "train")
    assert isinstance(caught.value, RuntimeError)


async def test_FR26_also_when_the_deadline_passes(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """The deadline of the command does not hide the reason."""

    async def play(running: Running) -> AsyncIterator[Any]:
        yield Started(1)
        yield Output("stdout", b"so far")
        double.end(box, errorType="OOM_KILLED")
        await asyncio.sleep(60)

    double.plays["dies"] = play
    with pytest.raises(SandboxOOMError) as caught:
        await client.execute_command(box, "dies", timeout=0.5)
    assert caught.value.stdout == "so far"


async def test_FR11_never_more_than_allowed(double: SandboxDouble) -> None:
    """Limit 8, 100 tasks, some failures: never more than 8 live, none at the end."""
    async with AsyncSandboxClient(api_key="k", base_url=double.url, max_live=8) as client:

        async def one(index: int) -> None:
            request = CreateSandboxRequest(name=f"n{index}", docker_image="i")
            async with client.sandbox(request, wait=False) as box:
                await asyncio.sleep(index % 7 / 500)
                if index % 10 == 0:
                    raise APIError(f"task {index} of {box.id} failed")

        results = await asyncio.gather(*map(one, range(100)), return_exceptions=True)
    assert sum(result is not None for result in results) == 10
    assert double.live_most == 8
    assert double.live == []


async def test_FR24_also_when_nothing_answers_any_more(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """Gateway and control plane silent at once: still within the timeout and ten seconds."""

    async def play(running: Running) -> AsyncIterator[Any]:
        yield Started(1)
        double.fault("POST", "/SendSignal", does="silence", times=100)
        double.fault("GET", "/error-context", does="silence", times=100)
        await asyncio.sleep(60)

    double.plays["silent"] = play
    began = time.monotonic()
    with pytest.raises(CommandTimeoutError, match="unreachable"):
        await client.execute_command(box, "silent", timeout=1)
    assert time.monotonic() - began < 11
