"""Processes beside the caller: input, end of input, signals, both streams, re-attaching."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from prime_async import APIError, APITimeoutError, AsyncSandboxClient, UsageError
from prime_async.connect import Code, Failure
from prime_async.sandboxes import demand
from prime_async.sandboxes.wire import Ended, Output, Started
from tests.sandbox_double import Running, SandboxDouble


async def test_input_output_and_the_exit_code(client: AsyncSandboxClient, box: str) -> None:
    """What is written arrives in order; the end of input ends the program."""
    async with await client.open_process(box, "cat; echo bye >&2; exit 7") as process:
        assert process.pid > 0
        assert process.returncode is None
        await asyncio.gather(*(process.write_stdin(b"%d\n" % n) for n in range(20)))
        await process.write_stdin(b"x" * 600_000)
        await process.close_stdin()
        data = b"".join([piece async for piece in process.stdout])
        assert data == b"".join(b"%d\n" % n for n in range(20)) + b"x" * 600_000
        assert b"".join([piece async for piece in process.stderr]) == b"bye\n"
        assert await process.wait() == 7
        assert process.returncode == 7
        with pytest.raises(BrokenPipeError):
            await process.write_stdin(b"late")
        await process.kill()


async def test_arguments_reach_the_process(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """Variables and folder; wrong ones are refused before anything is sent."""
    process = await client.open_process(
        box, 'printf "%s" "$A"; pwd', working_dir=str(double.folder), env={"A": "it's\n"}
    )
    assert await process.wait() == 0
    assert await process.stdout.read() == f"it's\n{double.folder}\n".encode()
    sent = len(double.seen)
    for wrong in (
        {"command": ""},
        {"command": "a\0"},
        {"command": "x", "env": {"A=": "b"}},
        {"command": "x", "user": ""},
        {"command": "x", "pty": (0, 5)},
        {"command": "x", "pty": 80},
        {"command": "\udcff"},
    ):
        with pytest.raises(UsageError):
            await client.open_process(box, **wrong)  # type: ignore[arg-type]  # on purpose
    assert len(double.seen) == sent


@pytest.mark.parametrize(("call", "code"), [("terminate", -15), ("kill", -9)])
async def test_signals_end_it(client: AsyncSandboxClient, box: str, call: str, code: int) -> None:
    """The exit code tells the signal."""
    process = await client.open_process(box, "sleep 60")
    await getattr(process, call)()
    assert await process.wait() == code
    await process.aclose()


async def test_any_signal_can_be_sent(client: AsyncSandboxClient, box: str) -> None:
    """By number; what is none is refused."""
    process = await client.open_process(
        box, "trap 'echo hup' HUP; echo ready; while :; do sleep 0.05; done"
    )
    assert await process.stdout.read() == b"ready\n"
    await process.send_signal(signal.SIGHUP)
    assert await process.stdout.read() == b"hup\n"
    for wrong in (0, 65):
        with pytest.raises(UsageError):
            await process.send_signal(wrong)
    await process.aclose()
    assert process.returncode is not None


async def test_waiting_for_it_has_a_limit(client: AsyncSandboxClient, box: str) -> None:
    """A process that runs on is an error of the wait, not its end."""
    async with await client.open_process(box, "sleep 60") as process:
        with pytest.raises(APITimeoutError):
            await process.wait(timeout=0.2)
        assert process.returncode is None
    assert process.returncode == -15


async def test_a_stubborn_process_is_killed_at_the_end(
    client: AsyncSandboxClient, box: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The block ends it: first asked, then killed."""
    monkeypatch.setattr("prime_async.sandboxes.processes._CLOSE_SECONDS", 0.3)
    async with await client.open_process(
        box, "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    ) as process:
        await process.stdout.read()
    assert process.returncode == -9


async def test_cancelling_a_block_ends_the_process(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """The cancellation stays one, and the process is gone."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5), await client.open_process(box, "sleep 60") as process:
            await process.wait()
    assert [running.over.exit_code for running in double.running.values() if running.over] == [-15]


async def test_a_terminal_has_a_size(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """The size is sent with the start and with each change; without a terminal there is none."""
    async with await client.open_process(box, "sleep 60", pty=(80, 24)) as process:
        await process.resize(100, 40)
        await process.write_stdin(b"typed")
        [running] = double.running.values()
        assert running.request.pty is not None
        assert (running.request.pty.cols, running.request.pty.rows) == (80, 24)
        assert len(double.requests("POST", "/Update")) == 1
        with pytest.raises(UsageError):
            await process.resize(0, 40)
    async with await client.open_process(box, "sleep 60") as plain:
        with pytest.raises(UsageError, match="terminal"):
            await plain.resize(100, 40)


async def test_a_process_is_left_and_found_again(client: AsyncSandboxClient, box: str) -> None:
    """By its session or its process id; what it wrote before is not repeated."""
    process = await client.open_process(box, "echo one; read line; echo $line")
    assert await process.stdout.read() == b"one\n"
    await process.detach()
    await process.aclose()
    again = await client.attach_process(box, process.session_id)
    assert again.pid == process.pid
    by_pid = await client.attach_process(box, pid=process.pid)
    await again.write_stdin(b"two\n")
    assert await again.stdout.read() == b"two\n"
    assert await again.wait() == await by_pid.wait() == 0
    with pytest.raises(APIError) as caught:
        await client.attach_process(box, "nothing")
    assert caught.value.code == "not_found"
    with pytest.raises(UsageError):
        await client.attach_process(box)


async def test_a_broken_connection_is_made_again(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process goes on; that something may be missing is counted."""
    monkeypatch.setattr("prime_async.sandboxes.attachment._FIRST_DELAY", 0.01)
    double.streams_to_cut = 1
    process = await client.open_process(box, "echo one; read line; echo two; exit 3")
    await process.write_stdin(b"go\n")
    assert await process.wait() == 3
    assert process.reconnects == 1
    assert len(double.requests("POST", "/Start")) == 1
    assert len(double.requests("POST", "/Connect")) == 1


async def test_a_lost_start_is_sent_again_and_runs_once(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """A start has a name of its own: the same one again attaches."""
    double.fault("POST", "/Start", does="cut")
    process = await client.open_process(box, "echo one")
    assert await process.wait() == 0
    assert len(double.running) == 1


async def test_a_connection_that_cannot_be_made_again_is_told(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every read from then on; what had arrived can still be read."""
    monkeypatch.setattr("prime_async.sandboxes.attachment._FIRST_DELAY", 0.01)

    async def play(running: Running) -> AsyncIterator[Any]:
        yield Started(1)
        yield Output("stdout", b"so far")
        yield Failure(Code.PERMISSION_DENIED, "no more")

    double.plays["denied"] = play
    process = await client.open_process(box, "denied")
    with pytest.raises(APIError, match="no more"):
        await process.wait()
    assert await process.stdout.read() == b"so far"
    for stream in (process.stdout, process.stderr):
        with pytest.raises(APIError, match="no more"):
            await stream.read()


async def test_no_end_of_input_on_a_platform_without(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """The official service has no such call: a clear error."""
    double.fault("POST", "/CloseStdin", status=404, times=2)
    async with await client.open_process(box, "cat") as process:
        with pytest.raises(APIError, match="no end of input"):
            await process.close_stdin()


async def test_what_nobody_reads_is_bounded_and_counted(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading one stream does not wait for the other, and does not hoard it in silence."""
    monkeypatch.setattr(demand, "MAX_UNREAD", 1000)

    async def play(running: Running) -> AsyncIterator[Any]:
        yield Started(1)
        for _ in range(50):
            yield Output("stderr", b"e" * 100)
        yield Output("stdout", b"out")
        yield Ended(0)

    double.plays["noisy"] = play
    process = await client.open_process(box, "noisy")
    assert await process.stdout.read() == b"out"
    assert await process.wait() == 0
    left = b"".join([piece async for piece in process.stderr])
    assert 0 < len(left) <= 1000
    assert len(left) + process.stderr.dropped_bytes == 5000


async def test_two_readers_get_everything(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks that read one stream each lose nothing, however slow one of them is."""
    monkeypatch.setattr(demand, "MAX_UNREAD", 1000)

    async def play(running: Running) -> AsyncIterator[Any]:
        yield Started(1)
        for _ in range(100):
            yield Output("stderr", b"e" * 100)
            yield Output("stdout", b"o" * 100)
        yield Ended(0)

    double.plays["both"] = play
    process = await client.open_process(box, "both")

    async def read(stream: Any, pause: float) -> int:
        size = 0
        async for piece in stream:
            size += len(piece)
            await asyncio.sleep(pause)
        return size

    sizes = await asyncio.gather(read(process.stdout, 0), read(process.stderr, 0.002))
    assert sizes == [10_000, 10_000]
    assert process.stderr.dropped_bytes == process.stdout.dropped_bytes == 0
    assert await process.wait() == 0
