"""Async context managers entered from plain code."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import traceback
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from prime_sync._bridge import Bridge


class Trail:
    """Records what happens to a context manager and in which tasks."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.tasks: set[Any] = set()

    @contextlib.asynccontextmanager
    async def manager(self, swallow: bool = False) -> AsyncIterator[int]:
        async with anyio.create_task_group() as group:  # must be left by the task that entered it
            self.tasks.add(asyncio.current_task())
            self.events.append("entered")
            group.start_soon(self.background)
            try:
                yield 7
            except BaseException as error:
                self.events.append(type(error).__name__)
                if not swallow:
                    raise
            finally:
                self.tasks.add(asyncio.current_task())
                await asyncio.sleep(0)
                self.events.append("left")
                group.cancel_scope.cancel()

    async def background(self) -> None:
        await asyncio.Event().wait()


def test_enters_and_leaves_in_one_task(bridge: Bridge) -> None:
    """Task groups and cancel scopes inside the manager work; the value is wrapped."""
    trail = Trail()
    with bridge.scope(trail.manager(), str) as value:
        assert value == "7"
        assert trail.events == ["entered"]
    assert trail.events == ["entered", "left"]
    assert len(trail.tasks) == 1


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, StopIteration])
def test_an_error_in_the_block_goes_through_the_manager(
    bridge: Bridge, kind: type[BaseException]
) -> None:
    """The manager sees the error, and the user gets the very same one, not a group around it."""
    trail = Trail()
    error = kind("x")
    with pytest.raises(kind) as caught, bridge.scope(trail.manager(), int):
        raise error
    assert caught.value is error
    assert trail.events == ["entered", kind.__name__, "left"]
    assert len(traceback.extract_tb(error.__traceback__)) == 1


def test_a_manager_may_swallow_the_error(bridge: Bridge) -> None:
    """What the async manager suppresses is suppressed here too."""
    with bridge.scope(Trail().manager(swallow=True), int):
        raise ValueError


def test_an_error_of_entering_is_raised_from_the_with_line(bridge: Bridge) -> None:
    """Nothing is left to leave, and the bridge's frames are not shown."""

    @contextlib.asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        if not closed:
            raise KeyError("x")
        yield

    closed = False
    with pytest.raises(KeyError) as caught, bridge.scope(broken(), id):
        pytest.fail("the block must not run")
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "broken" in names
    assert not {"call", "_enter", "__enter__"} & set(names[:2])


def test_an_error_of_leaving_is_raised_after_the_block(bridge: Bridge) -> None:
    """It takes the place of the block's error, which stays its context."""

    @contextlib.asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        try:
            yield
        finally:
            raise KeyError("x")

    with pytest.raises(KeyError), bridge.scope(broken(), id):
        pass
    with pytest.raises(KeyError) as caught, bridge.scope(broken(), id):
        raise ValueError
    assert isinstance(caught.value.__context__, ValueError)


def test_calls_inside_the_block_use_what_was_entered(bridge: Bridge) -> None:
    """The manager's task waits without holding up other calls."""

    async def add(number: int) -> int:
        return number + 1

    with bridge.scope(Trail().manager(), int) as value:
        assert bridge.call(add(value)) == 8


def test_a_block_that_is_never_left_is_left_at_exit(bridge: Bridge) -> None:
    """The end of the loop cancels the manager, which cleans up."""
    trail = Trail()
    bridge.scope(trail.manager(), int).__enter__()  # keeps what was entered, at most
    gc.collect()
    assert trail.events == ["entered"]
    bridge.close()
    assert trail.events == ["entered", "CancelledError", "left"]
