"""Field reports, group C: what commands write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from prime_async import AsyncSandboxClient, CommandTimeoutError, partial_output
from prime_async.connect import encode_end
from prime_async.sandboxes.wire import Ended, Output, Started
from tests.sandbox_double import Running, SandboxDouble


@pytest.mark.parametrize("size", [9_999, 10_000, 10_001, 16_384])
async def test_FR12_cut_output_is_marked(client: AsyncSandboxClient, box: str, size: int) -> None:
    """Either the whole text, or a mark and the original size; never a silent cut."""
    command = f"head -c {size} /dev/zero | tr '\\0' x; printf end >&2"
    result = await client.execute_command(box, command, max_output_bytes=10_000)
    assert result.stdout_size == size
    assert result.stdout_truncated == result.truncated == (size > 10_000)
    assert result.stdout == "x" * min(size, 10_000)
    assert (result.stderr, result.stderr_truncated) == ("end", False)


async def test_FR12_the_end_is_kept(client: AsyncSandboxClient, box: str) -> None:
    """The beginning goes first, between characters."""
    result = await client.execute_command(box, "printf 'aa☕☕'", max_output_bytes=5)
    assert (result.stdout, result.stdout_bytes, result.stdout_size) == (
        "☕",
        "☕☕".encode()[-5:],
        8,
    )
    nothing = await client.execute_command(box, "printf abc", max_output_bytes=0)
    assert (nothing.stdout, nothing.truncated) == ("", True)


async def test_FR13_bytes_that_are_no_text(client: AsyncSandboxClient, box: str) -> None:
    """The text has replacement characters, the bytes view is exact."""
    result = await client.execute_command(box, r"printf 'ok\xff\xfe\x00end\n'")
    assert result.stdout == "ok��\0end\n"
    assert result.stdout_bytes == b"ok\xff\xfe\x00end\n"
    assert result.to_wire()["stdout"] == result.stdout


@pytest.mark.parametrize("size", [1, 3, 7, 65_536])
async def test_FR14_characters_across_chunks(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, size: int
) -> None:
    """Stream and result are equal to the input, whatever the chunks; a cut end gives one U+FFFD."""
    count = 100_000 if size > 7 else 2_000
    texts = {"stdout": "☕" * count, "stderr": "👩‍👩‍👧" * (count // 4)}

    async def play(running: Running) -> AsyncIterator[Any]:
        yield Started(1)
        parts = {name: text.encode() for name, text in texts.items()}
        longest = max(map(len, parts.values()))
        for start in range(0, longest, size):
            for name, data in parts.items():
                if piece := data[start : start + size]:
                    yield Output(name, piece)  # type: ignore[arg-type]  # the two names
        yield Output("stdout", "\n☕".encode()[:-1])
        yield Ended(0)
        yield encode_end()

    double.plays["coffee"] = play
    result = await client.execute_command(box, "coffee")
    assert result.stdout == texts["stdout"] + "\n�"
    assert result.stderr == texts["stderr"]
    heard = {"stdout": "", "stderr": ""}
    async with client.stream_command(box, "coffee") as run:
        async for line in run:
            heard[line.stream] += line.text + ("\n" if line.complete else "")
    assert heard == {"stdout": texts["stdout"] + "\n�", "stderr": texts["stderr"]}
    assert run.result == result or run.result.stdout == result.stdout


async def test_FR15_output_is_kept_on_timeout(client: AsyncSandboxClient, box: str) -> None:
    """The timeout error carries what was written, and the time that passed."""
    with pytest.raises(CommandTimeoutError) as caught:
        await client.execute_command(box, "echo step 1; echo oops >&2; sleep 30", timeout=1)
    error = caught.value
    assert (error.stdout, error.stderr) == ("step 1\n", "oops\n")
    assert 0.9 <= error.elapsed < 3
    assert (error.sandbox_id, error.timeout) == (box, 1)


@pytest.mark.parametrize("how", ["cancel", "timeout"])
async def test_FR15_output_is_kept_on_cancel(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, how: str
) -> None:
    """A cancellation carries it too, and stays the cancellation asyncio promises."""
    said = asyncio.Event()

    async def run() -> None:
        await client.execute_command(box, "echo step 1; sleep 30", output=lambda line: said.set())

    if how == "cancel":
        task = asyncio.create_task(run())
        await said.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await task
        error: BaseException = cancelled.value
    else:
        with pytest.raises(TimeoutError) as late:
            async with asyncio.timeout(0.5):
                await run()
        error = late.value
    output = partial_output(error)
    assert output is not None
    assert output.stdout == "step 1\n"
    assert output.elapsed > 0
    assert [command.signals for command in double.running.values()] == [[9]]
