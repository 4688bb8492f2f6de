"""Ends by limits: memory, processes, disk, by control groups and without; the host unharmed."""

from __future__ import annotations

import resource
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
import pytest_asyncio

from prime_async.server.runtimes.bubblewrap import BubblewrapRuntime
from prime_async.server.runtimes.protocol import Ending, ExecSpec
from tests.runtimes.boxes import MIB, collect, ending, finish, new_store, run, sh, spec

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["groups", "watchdog"])
async def shared_limiting(
    request: pytest.FixtureRequest, refusal: str
) -> AsyncIterator[BubblewrapRuntime]:
    """The runtime with control groups, where there are any, and without."""
    if refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    groups = request.param == "groups"
    with new_store() as folder:
        async with BubblewrapRuntime(folder, use_cgroups=groups) as entered:
            if groups and entered._cgroups is None:
                pytest.skip("no control groups for this user on this machine")
            yield entered


@pytest_asyncio.fixture(loop_scope="module")
async def limiting(shared_limiting: BubblewrapRuntime) -> AsyncIterator[BubblewrapRuntime]:
    """The same, with no sandbox of another test."""
    async with ending(shared_limiting):
        yield shared_limiting


async def test_ten_gigabytes_in_one_process(limiting: BubblewrapRuntime) -> None:
    """It does not get them: killed with its sandbox, or refused by the kernel."""
    box = await limiting.start(spec(memory_bytes=128 * MIB))
    script = "b = bytearray(10 << 30)\nfor i in range(0, len(b), 4096): b[i] = 1"
    command = await box.exec(ExecSpec(("python3", "-c", script)))
    command.stderr.detach()
    with anyio.fail_after(60):
        done = await command.wait()
    assert done.code != 0
    if limiting._cgroups is not None:
        with anyio.fail_after(10):
            assert (await box.ended()).kind is Ending.OOM_KILLED
        assert "128 MiB" in box.end.message
    else:
        assert b"MemoryError" in await collect(command.stderr)


async def test_much_memory_in_many_processes(limiting: BubblewrapRuntime) -> None:
    """Together they may not use more than one alone."""
    box = await limiting.start(spec(memory_bytes=128 * MIB))
    script = "import time\nb = bytearray(b'x') * (40 << 20)\ntime.sleep(60)"
    for _ in range(6):
        command = await box.exec(ExecSpec(("python3", "-c", script)))
        command.stdout.detach()
        command.stderr.detach()
        if box.end is not None:
            break
    with anyio.fail_after(30):
        assert (await box.ended()).kind is Ending.OOM_KILLED
    with anyio.fail_after(10):
        await command.wait()


async def test_a_fork_bomb_is_contained(limiting: BubblewrapRuntime) -> None:
    """It reaches its limit, the host does not; the sandbox can be ended at once."""
    box = await limiting.start(spec(processes=60))
    script = (
        "import os, time\nn = 0\n"
        "try:\n while True:\n  if os.fork() == 0: time.sleep(60); os._exit(0)\n  n += 1\n"
        "except OSError: print(n)"
    )
    done = await run(box, "python3", "-c", script)
    assert 40 <= int(done.stdout) <= 60
    assert (await box.stats()).processes <= 62
    with anyio.fail_after(10):
        await box.stop()


async def test_the_classic_bomb_ends_with_its_sandbox(limiting: BubblewrapRuntime) -> None:
    """``:(){ :|:& };:``"""
    box = await limiting.start(spec(processes=100))
    command = await box.exec(ExecSpec(("/bin/bash", "-c", "b() { b | b & }; b; sleep 1")))
    command.stdout.detach()
    command.stderr.detach()
    with anyio.move_on_after(2):
        await command.wait()
    with anyio.fail_after(20):
        await box.stop()
    assert not Path(f"/proc/{box.record.pid}").exists()


async def test_a_disk_that_fills_ends_the_sandbox(limiting: BubblewrapRuntime) -> None:
    """One file is stopped by its limit, many by the watchdog."""
    box = await limiting.start(spec(disk_bytes=24 * MIB))
    done = await sh(box, "(ulimit -f 1024; head -c 100M /dev/zero > one); stat -c %s one; rm one")
    assert int(done.stdout) <= MIB
    assert int((await sh(box, "ulimit -f")).stdout) * 1024 == 24 * MIB
    script = (
        "i=0; while :; do head -c 1M /dev/zero > /app/f$i || exit; i=$((i+1)); sleep 0.02; done"
    )
    command = await box.exec(ExecSpec(("/bin/bash", "-c", script)))
    with anyio.fail_after(30):
        assert (await box.ended()).kind is Ending.DISK_FULL
    await command.aclose()
    await box.stop()


@pytest.mark.slow
async def test_empty_files_fill_a_disk_too(limiting: BubblewrapRuntime) -> None:
    """Names cost something."""
    box = await limiting.start(spec(disk_bytes=4 * MIB))
    script = "import itertools, time\nfor i in itertools.count(): open(f'/app/{i}', 'w').close()"
    command = await box.exec(ExecSpec(("python3", "-c", script)))
    command.stderr.detach()
    with anyio.fail_after(30):
        assert (await box.ended()).kind is Ending.DISK_FULL
    await box.stop()


async def test_the_machines_disk_has_a_floor(store: Path, refusal: str) -> None:
    """Below it the largest sandbox ends, whatever it was given."""
    if refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    async with BubblewrapRuntime(store, free_bytes=1 << 60) as runtime:
        box = await runtime.start(spec())
        with anyio.fail_after(10):
            reason = await box.ended()
        assert (reason.kind, "left" in reason.message) == (Ending.DISK_FULL, True)
        await box.stop()


async def test_limits_of_commands(limiting: BubblewrapRuntime) -> None:
    """What every command gets: no core files, as many descriptors as are usual."""
    box = await limiting.start(spec(disk_bytes=64 * MIB))
    done = await sh(box, "ulimit -c; ulimit -n; ulimit -f")
    core, descriptors, blocks = done.stdout.split()
    assert (core, int(blocks)) == ("0", 64 * 1024)
    assert int(descriptors) <= resource.getrlimit(resource.RLIMIT_NOFILE)[1]


async def test_shared_memory_has_a_size(limiting: BubblewrapRuntime) -> None:
    """It counts against memory, and cannot grow beyond half of it."""
    box = await limiting.start(spec(memory_bytes=128 * MIB))
    done = await sh(box, "head -c 100M /dev/zero > /dev/shm/f; stat -c %s /dev/shm/f")
    assert int(done.stdout) <= 64 * MIB


async def test_the_report_says_how_limits_are_enforced(limiting: BubblewrapRuntime) -> None:
    """Which way was chosen on this machine, per limit."""
    report = await limiting.probe()
    assert report.usable
    expected = limiting._cgroups.version if limiting._cgroups else "watchdog"
    assert expected in report.enforced["memory"]


async def test_cpu_is_limited_where_groups_can(limiting: BubblewrapRuntime) -> None:
    """A tenth of a core does a tenth of the work."""
    if limiting._cgroups is None or "cpu" not in limiting._cgroups.controllers:
        pytest.skip("nothing limits the CPU on this machine")
    box = await limiting.start(spec(cpu_cores=0.1))
    script = (
        "import time\nend = time.monotonic() + 2\n"
        "while time.monotonic() < end: pass\nprint(time.process_time())"
    )
    command = await box.exec(ExecSpec(("python3", "-c", script)))
    assert float((await finish(command)).stdout) < 0.6
