"""Servers and spawners that die: keepers go on, and are found again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
import pytest_asyncio

from prime_async.local.processes import process_start
from prime_async.server.runtimes import launchers
from prime_async.server.runtimes.base import BaseRuntime
from prime_async.server.runtimes.bubblewrap import BubblewrapRuntime
from prime_async.server.runtimes.conversation import Conversation
from prime_async.server.runtimes.errors import (
    CommandLostError,
    CommandRefusedError,
    StdinClosedError,
)
from prime_async.server.runtimes.protocol import (
    Ending,
    ExecSpec,
    OutputStream,
    SandboxRecord,
    TerminalSize,
)
from tests.runtimes.boxes import MIB, chunks, collect, ending, finish, sh, spec, until
from tests.runtimes.conftest import RUNTIMES

pytestmark = pytest.mark.asyncio(loop_scope="module")

SERVER = """
import asyncio, sys
from pathlib import Path
import msgspec
from prime_async.local.processes import process_start
from prime_async.server.runtimes.bubblewrap import BubblewrapRuntime
from prime_async.server.runtimes.protocol import ExecSpec, SandboxSpec

async def main(store, count):
    async with BubblewrapRuntime(Path(store)) as runtime:
        for number in range(count):
            box = await runtime.start(
                SandboxSpec(f"adopted-{number}", memory_bytes=256 << 20, disk_bytes=256 << 20,
                            timeout_seconds=600, environment={"SECRET": f"s{number}"})
            )
            script = f"echo {number} > file; setsid sleep 300 > /dev/null 2>&1 & echo"
            command = await box.exec(ExecSpec(("/bin/bash", "-c", script)))
            await command.wait()
            await box.exec(ExecSpec(("/bin/sleep", "301")))
            log = Path(store).parent / f"log-{number}"
            await box.exec(ExecSpec(("/bin/bash", "-c", "while :; do echo x; sleep 0.1; done"),
                                    log=log, survives=True))
            print(msgspec.json.encode(box.record).decode(), flush=True)
        print("spawner", runtime.spawner.pid, flush=True)
        await asyncio.sleep(300)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def killed_server(store: Path, count: int, *, spawner_too: bool) -> list[SandboxRecord]:
    """Start a server with sandboxes, kill it -9 (and its spawner), return what it wrote down."""
    command = [sys.executable, "-c", SERVER, str(store), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        records = []
        for line in server.stdout:
            if line.startswith("spawner"):
                if spawner_too:
                    os.kill(int(line.split()[1]), signal.SIGKILL)
                break
            records.append(msgspec.json.decode(line, type=SandboxRecord))
        server.kill()
    assert len(records) == count
    return records


@pytest.mark.parametrize("spawner_too", [False, True])
async def test_keepers_outlive_a_killed_server(
    store: Path, refusal: str, spawner_too: bool
) -> None:
    """kill -9 of the server, and of its spawner as well: all adopted, files and jobs intact."""
    if refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    records = killed_server(store, 2, spawner_too=spawner_too)
    async with BubblewrapRuntime(store) as runtime, ending(runtime):
        for number, record in enumerate(records):
            box = await runtime.adopt(record)
            assert box is not None
            done = await sh(box, "cat file; printenv SECRET; pgrep -c -f 'sleep 300'")
            assert done.stdout == f"{number}\ns{number}\n1\n"
            await box.files.upload("/app/new", chunks(b"x" * MIB))
            log = store.parent / f"log-{number}"
            size = log.stat().st_size

            async def grows(log: Path = log, size: int = size) -> bool:
                return log.stat().st_size > size

            # What was started to survive did; with the spawner alive, the other command was ended.
            await until(grows)
            if not spawner_too:
                assert (await sh(box, "pgrep -f 'sleep 301'")).stdout == ""
            assert (await box.stop()).kind is Ending.STOPPED
        assert [path for path in store.iterdir() if not path.name.startswith(".")] == []
    assert not any(process_start(record.pid) for record in records)


async def test_the_way_out_is_there_again_after_adoption(store: Path, refusal: str) -> None:
    """The egress proxy listens again, on the same port."""
    if refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    record = killed_server(store, 1, spawner_too=False)[0]
    async with BubblewrapRuntime(store) as runtime, ending(runtime):
        box = await runtime.adopt(record)
        assert box is not None
        script = (
            "exec 3<>/dev/tcp/127.0.0.1/41080; printf 'GET / HTTP/1.1\\r\\n\\r\\n' >&3; head -1 <&3"
        )
        assert "400" in (await sh(box, script)).stdout
        await box.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def own(store: Path, refusal: str) -> AsyncIterator[BubblewrapRuntime]:
    """A runtime that a test may break."""
    if refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    async with BubblewrapRuntime(store) as entered, ending(entered):
        yield entered


async def test_a_lost_spawner_is_started_anew(own: BubblewrapRuntime) -> None:
    """Ordinary commands have another parent and go on; what only the spawner could start, a command
    on a terminal, is lost, and said so. The sandbox goes on."""
    box = await own.start(spec())
    plain = await box.exec(ExecSpec(("/bin/cat",), stdin=True))
    command = await box.exec(ExecSpec(("/bin/sleep", "300"), pty=TerminalSize(80, 24)))
    first = own.spawner.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    with pytest.raises(CommandLostError):
        await command.wait()
    await command.aclose()
    await plain.write_stdin(b"still here")
    await plain.close_stdin()
    assert (await finish(plain)).stdout == "still here"
    assert (await sh(box, "echo fine", pty=TerminalSize(80, 24))).stdout == "fine\r\n"
    assert own.spawner.pid != first

    async def gone() -> bool:
        return not Path(f"/proc/{command.host_pid}").exists()

    await until(gone)


async def test_a_launcher_that_is_killed_loses_its_commands(isolating: BubblewrapRuntime) -> None:
    """They are ended, since nobody could tell how they end; the next command has another one."""
    box = await isolating.start(spec())
    command = await box.exec(ExecSpec(("/bin/bash", "-c", "sleep 300 & sleep 301; :")))
    os.kill(_parent(command.host_pid), signal.SIGKILL)
    with pytest.raises(CommandLostError):
        await command.wait()
    await command.aclose()
    assert (await sh(box, "echo fine")).stdout == "fine\n"

    async def gone() -> bool:
        return (await sh(box, "pgrep -f 'sleep 30'")).stdout == ""

    await until(gone)


async def test_a_launcher_goes_when_nothing_runs(
    isolating: BubblewrapRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle sandbox is its first process alone; while a command runs, its launcher stays."""
    monkeypatch.setattr(launchers, "IDLE_SECONDS", 0.05)
    box = await isolating.start(spec())
    assert (await sh(box, "echo one")).stdout == "one\n"
    command = await box.exec(ExecSpec(("/bin/cat",), stdin=True))
    parent = _parent(command.host_pid)
    await anyio.sleep(0.2)
    assert process_start(parent)
    await command.close_stdin()
    await finish(command)

    async def gone() -> bool:
        return process_start(parent) is None

    await until(gone)
    assert (await sh(box, "echo two")).stdout == "two\n"


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_leaving_with_commands_running(store: Path, refusal: str) -> None:
    """A server that ends in good order kills what only it could have listened to."""
    if refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    async with BubblewrapRuntime(store) as runtime:
        box = await runtime.start(spec())
        await box.exec(ExecSpec(("/bin/sleep", "300")))
        log = store.parent / "log"
        kept = await box.exec(ExecSpec(("/bin/sleep", "301"), log=log, survives=True))
    assert process_start(kept.host_pid)
    async with BubblewrapRuntime(store) as runtime, ending(runtime):
        again = await runtime.adopt(box.record)
        assert again is not None
        assert (await sh(again, "pgrep -a sleep")).stdout.count("sleep 30") == 1
        await again.stop()


async def test_many_starts_at_once_and_their_memory(isolating: BubblewrapRuntime) -> None:
    """All come up, each with its own files, and an idle one holds less than 1 MB."""
    boxes = []

    async def one() -> None:
        boxes.append(await isolating.start(spec(memory_bytes=64 * MIB)))

    async with anyio.create_task_group() as group:
        for _ in range(16):
            group.start_soon(one)
    assert len({box.record.pid for box in boxes}) == 16
    sizes = [_proportional(box.record.pid) for box in boxes]
    assert max(sizes) < MIB
    async with anyio.create_task_group() as group:
        for box in boxes:
            group.start_soon(box.stop)


def _proportional(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


async def test_a_start_that_fails_leaves_nothing(isolating: BubblewrapRuntime) -> None:
    """Neither folder nor groups nor processes; the message is bubblewrap's own."""
    from prime_async.server.runtimes.errors import SandboxStartError
    from prime_async.server.runtimes.protocol import Mount

    store = isolating._folder
    bad = spec(mounts=(Mount(store / "no-such-folder", "/data"),))
    with pytest.raises(SandboxStartError, match="no-such-folder"):
        await isolating.start(bad)
    assert [path for path in store.iterdir() if not path.name.startswith(".")] == []
    box = await isolating.start(spec())
    assert (await finish(await box.exec(ExecSpec(("/bin/true",))))).code == 0


@pytest_asyncio.fixture(loop_scope="module", params=["bubblewrap", "process"])
async def later(
    request: pytest.FixtureRequest, store: Path, refusal: str
) -> AsyncIterator[Callable[[], BaseRuntime]]:
    """Makes one runtime after the other on one folder; what is left in it is ended."""
    if request.param == "bubblewrap" and refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    kind = RUNTIMES[request.param]
    yield lambda: kind(store)


async def _read(stream: OutputStream, size: int) -> bytes:
    seen = b""
    while len(seen) < size:
        seen += await stream.read(size - len(seen))
    return seen


async def test_a_held_command_outlives_its_server(later: Callable[[], BaseRuntime]) -> None:
    """The next one finds it by what it was held with; input, output and end are one whole."""
    script = "echo one; read line; echo $line; read line; exit 7"
    held = ExecSpec(("/bin/bash", "-c", script), stdin=True, held=b"label", deadline=5.5)
    async with later() as runtime:
        box = await runtime.start(spec())
        first = await box.exec(held)
        assert await _read(first.stdout, 4) == b"one\n"
        gone = await box.exec(ExecSpec(("/bin/bash", "-c", "echo bye; exit 3"), held=b"gone"))
        await gone.wait()
        await first.write_stdin(b"two\n", "key")
    async with later() as runtime, ending(runtime):
        again = await runtime.adopt(box.record)
        assert again is not None
        found = {label: (deadline, one) for label, deadline, one in await again.find_held()}
        deadline, command = found[b"label"]
        assert (deadline, command.pid) == (5.5, first.pid)
        await command.write_stdin(b"two\n", "key")  # Written already: not again.
        assert await command.stdout.resume(2) == 2
        assert await _read(command.stdout, 6) == b"e\ntwo\n"
        await command.write_stdin(b"three\n", "another")
        assert (await finish(command)).code == 7
        assert (await finish(found[b"gone"][1])).stdout == "bye\n"
        assert await again.find_held() == []
        assert (await again.stop()).kind is Ending.STOPPED


async def test_a_held_terminal_outlives_its_server(later: Callable[[], BaseRuntime]) -> None:
    """Its size can be changed, and its input goes on; both are nothing after its end."""
    held = ExecSpec(("/bin/bash", "-c", "read x; stty size"), pty=TerminalSize(80, 24), held=b"")
    async with later() as runtime:
        box = await runtime.start(spec())
        await box.exec(held)
    async with later() as runtime, ending(runtime):
        again = await runtime.adopt(box.record)
        assert again is not None
        [(_, _, command)] = await again.find_held()
        await command.resize(TerminalSize(100, 40))
        await command.write_stdin(b"\n")
        assert (await command.wait()).code == 0
        await command.resize(TerminalSize(1, 1))
        with pytest.raises(StdinClosedError):
            await command.write_stdin(b"late")
        assert (await finish(command)).stdout == "\r\n40 100\r\n"
        await again.stop()


async def test_what_is_written_while_nobody_is_there(later: Callable[[], BaseRuntime]) -> None:
    """The command never waits; the newest mebibyte is kept, and what is asked for before it is
    known to be gone."""
    size = 3 * MIB
    script = f"read x; yes | head -c {size}; exec cat"
    async with later() as runtime:
        box = await runtime.start(spec())
        first = await box.exec(ExecSpec(("/bin/bash", "-c", script), stdin=True, held=b""))
        await first.stdout.resume()
        await first.write_stdin(b"\n")
        assert await _read(first.stdout, 1000) == b"y\n" * 500
        first.stdout.detach()
    async with later() as runtime, ending(runtime):
        again = await runtime.adopt(box.record)
        assert again is not None
        [(_, _, command)] = await again.find_held()
        await command.write_stdin(b"end")
        await command.close_stdin()
        await command.wait()
        at = await command.stdout.resume(1000)
        assert at == size + 3 - MIB
        assert await collect(command.stdout) == (b"y\n" * (MIB // 2))[3:] + b"end"
        assert await command.stdout.resume() == size + 3
        assert await command.stdout.resume(size - 3) == size - 3
        assert await collect(command.stdout) == b"\ny\nend"
        await again.stop()


async def test_input_that_is_repeated_is_written_once(isolating: BubblewrapRuntime) -> None:
    """Also when its writer went away in the middle, because nobody read."""
    box = await isolating.start(spec())
    script = "until test -e /app/go; do sleep 0.01; done; wc -c"
    command = await box.exec(ExecSpec(("/bin/bash", "-c", script), stdin=True, held=b""))
    writing = asyncio.create_task(command.write_stdin(b"x" * MIB, "key"))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    async with anyio.create_task_group() as group:
        group.start_soon(command.write_stdin, b"x" * MIB, "key")
        group.start_soon(command.write_stdin, b"y", "other")
        await sh(box, "touch /app/go")
    await command.close_stdin()
    assert (await finish(command)).stdout == f"{MIB + 1}\n"


@pytest.mark.parametrize("pty", [None, TerminalSize(80, 24)])
@pytest.mark.parametrize(
    ("field", "argv", "cwd"),
    [("argv", "/none", "/app"), ("working_dir", "/bin/true", "/none"), ("user", "/bin/true", "/")],
)
async def test_a_held_command_that_cannot_be_started(
    isolating: BubblewrapRuntime, field: str, argv: str, cwd: str, pty: TerminalSize | None
) -> None:
    """What is wrong is named, and nothing is held."""
    box = await isolating.start(spec())
    user = "nobody-here" if field == "user" else None
    with pytest.raises(CommandRefusedError) as caught:
        await box.exec(ExecSpec((argv,), working_dir=cwd, user=user, pty=pty, held=b""))
    assert caught.value.field == field
    assert await box.find_held() == []


async def test_a_held_command_waits_for_its_reader(isolating: BubblewrapRuntime) -> None:
    """While somebody reads, nothing is dropped, and no more than a window is held."""
    box = await isolating.start(spec())
    size = 20 * MIB
    script = f"yes | head -c {size}"
    command = await box.exec(ExecSpec(("/bin/bash", "-c", script), held=b""))
    await command.stdout.resume()
    assert (await finish(command)).stdout == "y\n" * (size // 2)


async def test_a_holder_goes_with_its_sandbox_or_when_nothing_is_held(
    isolating: BubblewrapRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no process of the sandbox, and does not outlive it."""
    monkeypatch.setattr(launchers, "IDLE_SECONDS", 0.05)
    box = await isolating.start(spec())
    one = await box.exec(ExecSpec(("/bin/cat",), stdin=True, held=b""))
    parent = _parent(one.host_pid)
    await anyio.sleep(0.2)
    assert process_start(parent)
    await one.close_stdin()
    await finish(one)

    async def gone() -> bool:
        return process_start(parent) is None

    await until(gone)
    two = await box.exec(ExecSpec(("/bin/sleep", "300"), held=b""))
    parent = _parent(two.host_pid)
    await box.stop()
    assert two.exit is not None
    assert two.exit.signal == signal.SIGKILL
    await until(gone)


async def test_a_killed_holder_loses_its_commands(isolating: BubblewrapRuntime) -> None:
    """They are ended, since nobody could tell how they end; the next command has another one."""
    box = await isolating.start(spec())
    command = await box.exec(ExecSpec(("/bin/sleep", "301"), held=b""))
    os.kill(_parent(command.host_pid), signal.SIGKILL)
    with pytest.raises(CommandLostError):
        await command.wait()
    assert await collect(command.stdout) == b""
    await command.aclose()
    again = await box.exec(ExecSpec(("/bin/echo", "fine"), held=b""))
    assert (await finish(again)).stdout == "fine\n"

    async def gone() -> bool:
        return (await sh(box, "pgrep -f 'sleep 301'")).stdout == ""

    await until(gone)


async def test_a_launcher_whose_server_is_killed_ends_its_commands(
    store: Path, refusal: str
) -> None:
    """Also when one of them ends at that moment, which it can tell nobody any more."""
    if refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    async with BubblewrapRuntime(store) as runtime, ending(runtime):
        box = await runtime.start(spec())
        command = await box.exec(ExecSpec(("/bin/sleep", "301")))
        other = await box.exec(ExecSpec(("/bin/sleep", "302")))
        parent = _parent(command.host_pid)
        os.kill(parent, signal.SIGSTOP)
        os.kill(other.host_pid, signal.SIGKILL)
        box._launchers.close()
        os.kill(parent, signal.SIGCONT)

        async def gone() -> bool:
            return process_start(parent) is None and process_start(command.host_pid) is None

        await until(gone, 5)


@pytest.mark.parametrize("fields", [{}, {"held": b""}, {"pty": TerminalSize(80, 24)}])
async def test_who_is_cancelled_while_the_answer_comes_leaves_nothing(
    isolating: BubblewrapRuntime, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    """The command was started, but nobody was told: it is ended again."""
    box = await isolating.start(spec())
    dispatch = Conversation._dispatch
    started: list[int] = []

    def answered(talk: Conversation, message: Any, descriptors: list[int]) -> None:
        dispatch(talk, message, descriptors)
        if "host_pid" in message and "id" in message:
            started.append(message["host_pid"])
            task.cancel()

    monkeypatch.setattr(Conversation, "_dispatch", answered)
    task = asyncio.create_task(box.exec(ExecSpec(("/bin/sleep", "301"), **fields)))
    with pytest.raises(asyncio.CancelledError):
        await task
    monkeypatch.undo()

    async def gone() -> bool:
        return process_start(started[0]) is None

    await until(gone, 5)
