"""Commands that are started at the same time: one request, and each its own result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import anyio
import pytest

from prime_async.connect import Code
from prime_async.errors import (
    APIConnectionError,
    BadRequestError,
    CommandTimeoutError,
    SandboxNotRunningError,
)
from prime_async.sandboxes import AsyncSandboxClient, grouping
from prime_async.sandboxes.commands import partial_output
from prime_async.sandboxes.wire import StartManyRequest, TimedStart
from tests.platform import KEY
from tests.server.sandboxes.boxes import Boxes, start


@pytest.fixture
async def client(boxes: Boxes) -> AsyncIterator[AsyncSandboxClient]:
    """A client of the platform."""
    async with AsyncSandboxClient(api_key=KEY, base_url=boxes.platform.url) as made:
        yield made


@pytest.fixture
async def box(boxes: Boxes, client: AsyncSandboxClient) -> str:
    """A sandbox that the client has used: it knows what its gateway can do."""
    made = await boxes.running()
    await client.execute_command(made, ":")
    return made


async def answered(boxes: Boxes, **expected: int) -> None:
    """Wait until the platform has answered so many requests of each kind, and not more."""
    with anyio.fail_after(10):
        while (found := {rpc: _answers(boxes, rpc) for rpc in expected}) != expected:
            assert all(found[rpc] <= expected[rpc] for rpc in expected), found
            await anyio.sleep(0.01)


def _answers(boxes: Boxes, rpc: str) -> int:
    lines = boxes.platform.parts.metrics.text().decode().splitlines()
    mine = (line for line in lines if "requests_total{" in line and f'/{rpc}"' in line)
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in mine)


async def test_one_request_and_each_its_own_result(
    boxes: Boxes, client: AsyncSandboxClient, box: str
) -> None:
    """Outputs apart, codes, environments; a working directory that is not there fails alone."""
    bad = asyncio.create_task(client.execute_command(box, "pwd", working_dir="/no/such"))
    results = await asyncio.gather(
        *(
            client.execute_command(box, "echo $N; echo e$N >&2; exit $N", env={"N": str(number)})
            for number in range(20)
        )
    )
    for number, result in enumerate(results):
        assert (result.stdout, result.stderr) == (f"{number}\n", f"e{number}\n")
        assert result.exit_code == number
    with pytest.raises(BadRequestError, match="working_dir"):
        await bad
    await answered(boxes, StartMany=1, Start=1)  # one had made the gateway known


async def test_a_command_alone_is_an_ordinary_start(
    boxes: Boxes, client: AsyncSandboxClient, box: str
) -> None:
    """One after the other, they are what the official service knows."""
    assert (await client.execute_command(box, "echo a")).stdout == "a\n"
    assert (await client.execute_command(box, "echo b")).stdout == "b\n"
    await answered(boxes, StartMany=0, Start=3)


async def test_much_output_of_one_and_little_of_another(
    client: AsyncSandboxClient, box: str
) -> None:
    """What is written while the command runs arrives whole; the kept part is bounded."""
    large, small, cut = await asyncio.gather(
        client.execute_command(box, "seq 1 400000"),
        client.execute_command(box, "sleep 0.1; echo small"),
        client.execute_command(box, "seq 1 100000", max_output_bytes=7),
    )
    assert large.stdout == "".join(f"{number}\n" for number in range(1, 400_001))
    assert small.stdout == "small\n"
    assert (cut.stdout, cut.stdout_truncated) == ("100000\n", True)


async def test_a_timeout_and_a_cancellation_end_one_command_each(
    boxes: Boxes, client: AsyncSandboxClient, box: str
) -> None:
    """The others go on; what the two had written is kept, and nothing of them is left."""
    slow = "echo step 1; sleep 61 & sleep 62"
    late = asyncio.create_task(client.execute_command(box, slow, timeout=1))
    gone = asyncio.create_task(client.execute_command(box, slow))
    fine = asyncio.create_task(client.execute_command(box, "sleep 1.5; echo fine"))
    await asyncio.sleep(0.5)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await gone
    with pytest.raises(CommandTimeoutError) as timed_out:
        await late
    assert timed_out.value.stdout == "step 1\n"
    found = partial_output(cancelled.value)
    assert found is not None
    assert found.stdout == "step 1\n"
    assert (await fine).stdout == "fine\n"
    with anyio.fail_after(10):
        for command in boxes.box(box).commands:
            await command.wait()


async def test_the_end_of_the_sandbox_is_told_to_all(client: AsyncSandboxClient, box: str) -> None:
    """As its end, not as a broken connection."""
    tasks = [asyncio.create_task(client.execute_command(box, "sleep 60")) for _ in range(3)]
    await asyncio.sleep(0.3)
    await client.delete(box)
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(result, SandboxNotRunningError)
        assert result.command == "sleep 60"


async def test_a_client_that_is_closed_leaves_no_task(
    boxes: Boxes, client: AsyncSandboxClient, box: str
) -> None:
    """Those that wait are told that it may have been carried out."""
    tasks = [asyncio.create_task(client.execute_command(box, "sleep 2")) for _ in range(2)]
    await asyncio.sleep(0.3)
    await client.aclose()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(result, APIConnectionError)
        assert result.ambiguous
    left = [task for task in asyncio.all_tasks() if "commands" in task.get_name()]
    assert left == []


async def test_a_group_that_is_refused_goes_one_by_one(
    client: AsyncSandboxClient, box: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that does not take it has carried nothing out: nothing is lost or done twice."""
    monkeypatch.setattr(grouping.Rpc.START_MANY, "_value_", "NoSuchCall")
    results = await asyncio.gather(
        *(client.execute_command(box, f"echo x >> f; echo {number}") for number in range(3))
    )
    assert [result.stdout for result in results] == ["0\n", "1\n", "2\n"]
    assert (await client.execute_command(box, "wc -l < f")).stdout.strip() == "3"


async def test_a_request_without_ids_or_commands_is_refused(boxes: Boxes) -> None:
    """Every command needs an id, by which it can be ended when the stream is gone."""
    made = await boxes.running()
    for message in (StartManyRequest(()), StartManyRequest((TimedStart(start("echo")),))):
        async with boxes.stream(made, "StartMany", message) as followed:
            assert followed.response.status == Code.INVALID_ARGUMENT.status
            assert (await followed.response.json())["code"] == "invalid_argument"


async def test_a_client_that_dies_leaves_commands_with_ids(boxes: Boxes, box: str) -> None:
    """The stream of a group ends as the stream of one: what has an id goes on."""
    mark = boxes.box(box).folder / "app" / "mark"
    named = replace(start("sleep 0.5; touch mark"), session_uuid="one")
    message = StartManyRequest((TimedStart(named),))
    async with boxes.stream(box, "StartMany", message):
        await anyio.sleep(0.2)
    with anyio.fail_after(10):
        while not mark.exists():
            await anyio.sleep(0.05)
