"""What every runtime must do: the rules of `protocol.py`, for each runtime there is."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
from pathlib import Path

import anyio
import msgspec
import pytest

from prime_async.server.runtimes.base import BaseRuntime
from prime_async.server.runtimes.commands import Command
from prime_async.server.runtimes.errors import (
    CommandRefusedError,
    ImageUnknownError,
    SandboxEndedError,
    SandboxStartError,
    StdinClosedError,
)
from prime_async.server.runtimes.protocol import (
    RETAINED_BYTES,
    Ending,
    ExecSpec,
    SandboxRecord,
    SandboxSpec,
    TerminalSize,
)
from prime_async.server.runtimes.sandbox import Sandbox
from tests.runtimes.boxes import MIB, collect, ending, finish, run, sh, spec, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_command_gives_its_output_and_its_code(box: Sandbox) -> None:
    """Both outputs apart, in order, and the exit code."""
    done = await sh(box, "echo one; echo two >&2; exit 7")
    assert (done.stdout, done.stderr, done.code) == ("one\n", "two\n", 7)


async def test_a_signal_that_ends_a_command_is_told(box: Sandbox) -> None:
    """As shells say it, and by its number."""
    done = await sh(box, "kill -TERM $$")
    assert (done.code, done.exit.signal) == (143, signal.SIGTERM)


async def test_commands_start_in_the_working_directory(box: Sandbox) -> None:
    """In ``/app``, or where they are told to."""
    assert (await sh(box, "pwd")).stdout.endswith("/app\n")
    done = await sh(box, "pwd", working_dir="/workspace")
    assert done.stdout.endswith("/workspace\n")


async def test_variables_of_sandbox_and_command_arrive_unchanged(runtime: BaseRuntime) -> None:
    """Whatever they hold; the command's win; and none is in a repr."""
    value = "it's; touch /tmp/pwned; $(id) `id`\n\\ \"é☕"
    wanted = spec(environment={"A": value, "B": "sandbox"})
    assert "pwned" not in repr(wanted)
    box = await runtime.start(wanted)
    done = await run(box, "/usr/bin/printenv", "A", environment={"B": "command"})
    assert done.stdout == value + "\n"
    done = await run(box, "/usr/bin/printenv", "B", environment={"B": "command"})
    assert done.stdout == "command\n"


async def test_large_environments_and_arguments_arrive(box: Sandbox) -> None:
    """What is larger than one packet to the spawner."""
    large = {f"LARGE_{index}": "x" * 100_000 for index in range(10)}
    done = await run(box, "/usr/bin/printenv", "LARGE_9", environment=large)
    assert len(done.stdout) == 100_001


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("argv", {"argv": ()}),
        ("argv", {"argv": ("/no/such/program",)}),
        ("argv", {"argv": ("no-such-program",)}),
        ("argv", {"argv": ("/bin/echo", "a\0b")}),
        ("argv", {"argv": ("/bin/echo", "x" * 200_000)}),
        ("environment", {"argv": ("/bin/true",), "environment": {"A=B": "1"}}),
        ("environment", {"argv": ("/bin/true",), "environment": {"": "1"}}),
        ("environment", {"argv": ("/bin/true",), "environment": {"A": "a\0b"}}),
        ("working_dir", {"argv": ("/bin/true",), "working_dir": "/no/such/folder"}),
        ("working_dir", {"argv": ("/bin/true",), "working_dir": "relative"}),
        ("user", {"argv": ("/bin/true",), "user": "nobody-of-this-name"}),
        ("pty", {"argv": ("/bin/true",), "pty": TerminalSize(0, 24)}),
    ],
)
async def test_a_wrong_field_is_named(box: Sandbox, field: str, fields: dict) -> None:
    """And nothing is started."""
    with pytest.raises(CommandRefusedError) as refused:
        await box.exec(ExecSpec(**fields))
    assert refused.value.field == field
    assert not box.commands


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("id", {"id": "../up"}),
        ("environment", {"id": "a", "environment": {"A": "\0"}}),
        ("cpu_cores", {"id": "a", "cpu_cores": 0.0}),
        ("memory_bytes", {"id": "a", "memory_bytes": 1}),
        ("disk_bytes", {"id": "a", "disk_bytes": 0}),
    ],
)
async def test_a_wrong_sandbox_is_refused(runtime: BaseRuntime, field: str, fields: dict) -> None:
    """Naming the field, with nothing left on disk."""
    with pytest.raises(CommandRefusedError) as refused:
        await runtime.start(SandboxSpec(**fields))
    assert refused.value.field == field
    assert _folders(runtime) == []


async def test_an_unknown_image_is_refused(runtime: BaseRuntime) -> None:
    """By a typed error, with nothing left on disk."""
    with pytest.raises(ImageUnknownError):
        await runtime.start(spec(image="no-such/image:1"))
    assert _folders(runtime) == []


async def test_an_id_is_there_once(runtime: BaseRuntime, box: Sandbox) -> None:
    """A second start under it fails and leaves the first alone."""
    with pytest.raises(SandboxStartError):
        await runtime.start(SandboxSpec(box.id))
    assert (await sh(box, "echo fine")).stdout == "fine\n"


async def test_requests_above_the_host_are_clipped_with_a_note(runtime: BaseRuntime) -> None:
    """Promise B1: 4 CPUs and 16 GB work on any host, and more as well."""
    box = await runtime.start(spec(cpu_cores=4096.0, memory_bytes=1 << 50))
    assert box.limits.cpu_cores <= (os.cpu_count() or 1)
    assert len(box.limits.notes) == 2


async def test_stdin_reaches_the_command_and_ends(box: Sandbox) -> None:
    """Bytes as they are, more than a pipe holds, and then the end."""
    command = await box.exec(ExecSpec(("/usr/bin/sha256sum",), stdin=True))
    data = os.urandom(2 * MIB)
    await command.write_stdin(data)
    await command.close_stdin()
    await command.close_stdin()
    assert (await finish(command)).stdout.split()[0] == hashlib.sha256(data).hexdigest()


async def test_without_stdin_a_command_reads_an_empty_one(box: Sandbox) -> None:
    """It does not wait for input that cannot come."""
    assert (await run(box, "/bin/cat")).code == 0


async def test_writing_to_who_does_not_read_fails(box: Sandbox) -> None:
    """Typed, not a broken pipe; the same after the end."""
    command = await box.exec(ExecSpec(("/bin/sh", "-c", "exec 0<&-; exec sleep 60"), stdin=True))
    with pytest.raises(StdinClosedError):
        await _write_on_and_on(command)
    await command.aclose()
    with pytest.raises(StdinClosedError):
        await command.write_stdin(b"x")


async def test_a_writer_that_waits_can_be_cancelled(box: Sandbox) -> None:
    """The command does not read: the writer waits, and its cancellation is not swallowed."""
    command = await box.exec(ExecSpec(("/bin/sleep", "60"), stdin=True))
    with anyio.move_on_after(0.3) as limit:
        await command.write_stdin(b"x" * (4 * MIB))
    assert limit.cancelled_caught
    await command.aclose()


async def test_a_command_that_writes_waits_for_its_reader(box: Sandbox) -> None:
    """Back-pressure: 64 MiB pass, with no more than the pipe in between."""
    command = await box.exec(ExecSpec(("/bin/sh", "-c", "head -c 67108864 /dev/zero; echo >&2 x")))
    await anyio.sleep(0.2)
    assert command.exit is None
    assert len(await collect(command.stdout)) == 64 * MIB
    assert (await command.wait()).code == 0
    await command.aclose()


async def test_bytes_that_are_no_text_arrive_as_they_are(box: Sandbox) -> None:
    """FR-13: bytes are bytes."""
    command = await box.exec(ExecSpec(("/usr/bin/printf", r"ok\377\376\000end\n")))
    assert await collect(command.stdout) == b"ok\xff\xfe\x00end\n"
    await command.aclose()


async def test_a_detached_stream_keeps_its_newest_bytes(box: Sandbox) -> None:
    """Nobody listens: the command ends all the same, the rest is counted, nothing is silent."""
    script = "head -c 4194304 /dev/zero; echo the end"
    command = await box.exec(ExecSpec(("/bin/sh", "-c", script)))
    command.stdout.detach()
    command.stderr.detach()
    with anyio.fail_after(30):
        assert (await command.wait()).code == 0
    kept = await collect(command.stdout)
    assert kept.endswith(b"the end\n")
    assert len(kept) <= RETAINED_BYTES
    assert len(kept) + command.stdout.dropped == 4 * MIB + 8
    await command.aclose()


async def test_a_listener_that_comes_back_goes_on(box: Sandbox) -> None:
    """Re-attach: what was written meanwhile, then what comes, without a gap."""
    script = "echo one; read x; echo two; read x; echo three"
    command = await box.exec(ExecSpec(("/bin/sh", "-c", script), stdin=True))
    assert await command.stdout.read() == b"one\n"
    command.stdout.detach()
    await command.write_stdin(b"\n")

    async def kept() -> bool:
        return command.stdout._kept_bytes > 0

    await until(kept)
    assert await command.stdout.read() == b"two\n"
    await command.write_stdin(b"\n")
    assert await collect(command.stdout) == b"three\n"
    assert command.stdout.dropped == 0
    await command.aclose()


async def test_descendants_do_not_hold_the_end_back(box: Sandbox) -> None:
    """FR-22: the shell ends, its background job goes on with the output still open."""
    with anyio.fail_after(10):
        done = await sh(box, "(sleep 1; echo late; touch survived; sleep 300) & echo started")
    assert done.stdout == "started\n"

    async def survived() -> bool:
        return any(entry.name == "survived" for entry in await box.files.list("/app"))

    await until(survived)


async def test_FR23_a_killed_command_takes_its_group_along(box: Sandbox) -> None:
    """`sleep 300 & sleep 300; wait`: nothing of it is left after SIGKILL."""
    before = await box.stats()
    command = await box.exec(ExecSpec(("/bin/bash", "-c", "sleep 300 & sleep 300; wait")))
    assert await command.signal(signal.SIGKILL)
    assert (await command.wait()).signal == signal.SIGKILL

    async def gone() -> bool:
        return (await box.stats()).processes <= before.processes

    await until(gone, 2.0)
    assert not await command.signal(signal.SIGTERM)


async def test_sigkill_reaches_other_groups_of_the_session(box: Sandbox) -> None:
    """Job control makes groups of their own; the session is one all the same."""
    before = await box.stats()
    script = "set -m; sleep 300 & sleep 300 & echo up; wait"
    command = await box.exec(ExecSpec(("/bin/bash", "-c", script)))
    assert await command.stdout.read() == b"up\n"
    await command.aclose()

    async def gone() -> bool:
        return (await box.stats()).processes <= before.processes

    await until(gone, 5.0)


async def test_a_terminal_is_one(box: Sandbox) -> None:
    """Size, resize with SIGWINCH, echo, end of file."""
    script = "trap 'stty size' WINCH; stty size; while read line; do echo \"got $line\"; done; tty"
    command = await box.exec(ExecSpec(("/bin/bash", "-c", script), pty=TerminalSize(101, 43)))
    assert command.pty
    seen = await _read_until(command, b"43 101\r\n")
    await command.resize(TerminalSize(90, 30))
    await command.write_stdin(b"hello\n")
    seen = await _read_until(command, b"got hello\r\n")
    assert b"30 90\r\n" in seen or b"30 90\r\n" in await _read_until(command, b"30 90\r\n")
    await command.close_stdin()
    done = await finish(command)
    assert "/dev/pts/" in done.stdout
    assert done.code == 0


async def test_resizing_what_has_no_terminal_is_refused(box: Sandbox) -> None:
    """Typed, naming the field."""
    command = await box.exec(ExecSpec(("/bin/sleep", "60")))
    with pytest.raises(CommandRefusedError) as refused:
        await command.resize(TerminalSize())
    assert refused.value.field == "pty"
    await command.aclose()


async def test_a_log_takes_the_output(box: Sandbox, tmp_path: Path) -> None:
    """Commands that survive the server write to a file of the host."""
    log = tmp_path / "log"
    command = await box.exec(ExecSpec(("/bin/echo", "hello"), log=log, survives=True))
    await command.wait()
    assert await command.stdout.read() == b""
    assert log.read_bytes() == b"hello\n"
    assert log.stat().st_mode & 0o777 == 0o600


async def test_a_hundred_commands_at_once(box: Sandbox) -> None:
    """Each gets its own output and code."""
    codes: dict[int, tuple[int, str]] = {}

    async def one(number: int) -> None:
        done = await sh(box, f"echo {number}; exit {number}")
        codes[number] = (done.code, done.stdout)

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(one, number)
    assert codes == {number: (number, f"{number}\n") for number in range(100)}


async def test_cancelling_a_start_leaves_no_command(box: Sandbox) -> None:
    """Whether the cancellation comes before, during or after the start."""
    for delay in (0.0, 0.001, 0.003, 0.006):
        with anyio.move_on_after(delay):
            command = await box.exec(ExecSpec(("/bin/sleep", "300")))
            await command.aclose()

    async def alone() -> bool:
        return (await box.stats()).processes <= 1

    await until(alone, 10.0)


async def test_cancelling_the_start_of_a_sandbox_leaves_nothing(runtime: BaseRuntime) -> None:
    """No process, no folder."""
    with anyio.move_on_after(0.001):
        await runtime.start(spec())
    assert _folders(runtime) == []


async def test_stop_ends_and_removes_everything(runtime: BaseRuntime) -> None:
    """Processes, folder, and what one would ask of it afterwards is refused with the reason."""
    box = await runtime.start(spec())
    pid, group = box.record.pid, box.state.group
    await sh(box, "mkdir -p deep/a/b; chmod 000 deep; sleep 300 & setsid sleep 300 & echo")
    reason = await box.stop()
    assert reason.kind is Ending.STOPPED
    assert (await box.stop()) is reason
    assert not Path(f"/proc/{pid}").exists()
    assert _folders(runtime) == []
    for folder in group.folders.values() if group else ():
        assert not Path(folder).exists()
    with pytest.raises(SandboxEndedError) as refused:
        await box.exec(ExecSpec(("/bin/true",)))
    assert refused.value.reason is reason


async def test_stop_with_grace_lets_processes_end(box: Sandbox) -> None:
    """SIGTERM first, and no longer than they need."""
    script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    command = await box.exec(ExecSpec(("/bin/bash", "-c", script)))
    assert await command.stdout.read() == b"up\n"
    with anyio.fail_after(15):
        await box.stop(grace=20)
    assert await collect(command.stdout) == b"bye\n"


async def test_time_ends_a_sandbox(runtime: BaseRuntime) -> None:
    """And everybody who waits is told why."""
    box = await runtime.start(spec(timeout_seconds=0.5))
    with anyio.fail_after(10):
        assert (await box.ended()).kind is Ending.TIMEOUT
    with pytest.raises(SandboxEndedError):
        await box.exec(ExecSpec(("/bin/true",)))
    await box.stop()


async def test_a_sandbox_ends_in_time_without_any_server(runtime: BaseRuntime) -> None:
    """Its first process sleeps no longer than it may live, and a minute."""
    box = await runtime.start(spec(timeout_seconds=100.0))
    assert b"sleep\x00160" in Path(f"/proc/{box.record.pid}/cmdline").read_bytes()


async def test_idleness_ends_a_sandbox_that_does_nothing(runtime: BaseRuntime) -> None:
    """A running command keeps it; after its end the clock runs."""
    box = await runtime.start(spec(idle_seconds=1.0))
    done = await sh(box, "sleep 2; echo done")
    assert done.stdout == "done\n"
    with anyio.fail_after(10):
        assert (await box.ended()).kind is Ending.IDLE
    await box.stop()


async def test_a_first_process_that_is_killed_is_told(runtime: BaseRuntime) -> None:
    """Somebody killed it from outside."""
    box = await runtime.start(spec())
    os.kill(box.record.pid, signal.SIGKILL)
    with anyio.fail_after(10):
        assert (await box.ended()).kind is Ending.KILLED
    await box.stop()


async def test_files_are_those_of_the_commands(box: Sandbox) -> None:
    """What a command writes is read through the files, and the other way round."""
    await sh(box, "echo from inside > note.txt")
    assert (await box.files.read("/app/note.txt")).data == b"from inside\n"


async def test_ports_of_the_sandbox_are_reached(box: Sandbox) -> None:
    """Both ways: what listens inside, and what we listen for inside."""
    ours, theirs = free_ports(2)  # a runtime without namespaces shares them with the host
    listening = await box.listen(ours)
    listening.close()
    script = (
        f"import socket; s = socket.create_server(('127.0.0.1', {theirs}));"
        "print('up', flush=True); c, _ = s.accept(); c.sendall(c.recv(5).upper())"
    )
    command = await box.exec(ExecSpec(("python3", "-c", script)))
    assert await command.stdout.read() == b"up\n"
    with await box.connect(theirs) as connected:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(connected, b"hello")
        assert await loop.sock_recv(connected, 5) == b"HELLO"
    await command.aclose()
    with pytest.raises(OSError, match="111"):
        await box.connect(ours)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        made = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in made]


async def test_a_sandbox_is_adopted_by_its_record(shared_runtime: BaseRuntime, store: Path) -> None:
    """The record is JSON, holds no secret, and is all that another server needs."""
    kind = type(shared_runtime)
    async with kind(store) as first:
        box = await first.start(spec(environment={"SECRET": "canary-123"}))
        await sh(box, "echo kept > file; setsid sleep 300 >/dev/null 2>&1 &")
        text = msgspec.json.encode(box.record)
    assert b"canary" not in text
    async with kind(store) as other, ending(other):
        again = await other.adopt(msgspec.json.decode(text, type=SandboxRecord))
        assert again is not None
        assert again.record.pid == box.record.pid
        assert (await sh(again, "cat file; printenv SECRET")).stdout == "kept\ncanary-123\n"
        assert (await again.stats()).processes >= 2
        await again.stop()
        assert _folders(other) == []


async def test_what_is_gone_is_not_adopted(shared_runtime: BaseRuntime, store: Path) -> None:
    """Neither a process with the same number that started at another time; leftovers go."""
    kind = type(shared_runtime)
    async with kind(store) as first:
        box = await first.start(spec())
        record = msgspec.structs.replace(box.record, id="other", pid=os.getpid())
        assert await first.adopt(record) is None
    os.kill(box.record.pid, signal.SIGKILL)
    async with kind(store) as other:
        assert await other.adopt(box.record) is None
        assert _folders(other) == []


async def _read_until(command: Command, mark: bytes) -> bytes:
    seen = b""
    with anyio.fail_after(20):
        while mark not in seen:
            seen += await command.stdout.read()
    return seen


async def _write_on_and_on(command: Command) -> None:
    with anyio.fail_after(20):
        while True:
            await command.write_stdin(b"x" * 65536)


def _folders(runtime: BaseRuntime) -> list[str]:
    return [path.name for path in runtime._folder.iterdir() if not path.name.startswith(".")]
