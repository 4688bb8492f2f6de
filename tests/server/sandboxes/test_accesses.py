"""Tokens for many sandboxes: one request, each sandbox its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from prime_async.errors import SandboxNotRunningError
from prime_async.sandboxes import AsyncSandboxClient
from tests.platform import KEY
from tests.server.sandboxes.boxes import Boxes
from tests.server.sandboxes.test_groups import answered


@pytest.fixture
async def client(boxes: Boxes) -> AsyncIterator[AsyncSandboxClient]:
    """A client that has made none of the sandboxes itself."""
    async with AsyncSandboxClient(api_key=KEY, base_url=boxes.platform.url) as made:
        yield made


async def test_tokens_that_are_needed_together_come_together(
    boxes: Boxes, client: AsyncSandboxClient
) -> None:
    """The first request shows what the platform can do; all others are one."""
    made = [await boxes.running() for _ in range(5)]
    done = await asyncio.gather(*(client.execute_command(one, "echo $$") for one in made))
    assert all(result.exit_code == 0 for result in done)
    await answered(boxes, **{"auth": 1, "auth:batchGet": 1})


async def test_a_sandbox_that_never_was_is_told_so(
    boxes: Boxes, client: AsyncSandboxClient
) -> None:
    """Among others, which get theirs; as the error of a sandbox that does not run."""
    made = await boxes.running()
    await client.execute_command(made, ":")
    again = await boxes.running()
    good, bad = await asyncio.gather(
        client.execute_command(again, "echo fine"),
        client.execute_command("no-such-box", "true"),
        return_exceptions=True,
    )
    assert not isinstance(good, BaseException)
    assert good.stdout == "fine\n"
    assert isinstance(bad, SandboxNotRunningError)
    assert (bad.status, bad.error_type) == ("TERMINATED", "SANDBOX_NOT_FOUND")
    assert "there is no sandbox no-such-box" in str(bad)
    await boxes.delete(f"/sandbox/{again}")
    with pytest.raises(SandboxNotRunningError, match=f"{again} is not running .status TERMINATED"):
        await client.execute_command(again, "true")


async def test_a_request_is_bounded(boxes: Boxes) -> None:
    """From one to a hundred sandboxes."""
    for ids in ([], ["x"] * 101):
        assert (await boxes.post("/sandbox/auth:batchGet", {"sandbox_ids": ids})).status == 422
