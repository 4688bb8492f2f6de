"""Async iterators read from plain code."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
import time
import traceback
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import msgspec
import pytest

from prime_async.errors import WrongLoopError
from prime_sync._bridge import Bridge


async def numbers(count: int) -> AsyncIterator[int]:
    for number in range(count):
        yield number


class Source:
    """An endless source that counts how far it was read and tells when it is closed."""

    def __init__(self) -> None:
        self.read = 0
        self.closed = threading.Event()
        self.tasks: set[object] = set()

    async def items(self) -> AsyncIterator[int]:
        with anyio.CancelScope():  # fails when left by a task that did not enter it
            self.tasks.add(asyncio.current_task())
            try:
                while True:
                    self.read += 1
                    yield self.read
            finally:
                await asyncio.sleep(0)
                self.tasks.add(asyncio.current_task())
                self.closed.set()


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1000])
def test_gives_every_item_in_order(bridge: Bridge, count: int) -> None:
    """The items are those of the source, none lost at the borders of the buffer."""
    iterator = bridge.iterate(numbers(count))
    assert list(iterator) == list(range(count))
    assert list(iterator) == []
    iterator.close()


def test_threads_share_an_iterator(bridge: Bridge) -> None:
    """Each item goes to one of them, and none ends before the source does."""
    iterator = bridge.iterate(numbers(2000), prefetch=3)
    with ThreadPoolExecutor(4) as pool:
        shares = list(pool.map(list, [iterator] * 4))
    assert sorted(itertools.chain(*shares)) == list(range(2000))


def test_an_item_is_seen_as_soon_as_it_is_there(bridge: Bridge) -> None:
    """A slow source is not held back until a buffer is full."""
    more = threading.Event()

    async def slow() -> AsyncIterator[int]:
        yield 1
        while not more.is_set():
            await asyncio.sleep(0.001)
        yield 2

    iterator = bridge.iterate(slow())
    assert next(iterator) == 1
    more.set()
    assert next(iterator) == 2


def test_reads_a_bounded_number_of_items_ahead(bridge: Bridge) -> None:
    """An endless source stops at the limit while nobody reads."""
    source = Source()
    with bridge.iterate(source.items(), prefetch=10) as iterator:
        for expected in range(1, 101):
            assert next(iterator) == expected
            assert source.read <= expected + 20
    assert source.closed.is_set()


class _Output(msgspec.Struct):
    """An item whose text may be large, as that of a job that has ended."""

    text: str


@pytest.mark.parametrize(
    "item", ["x" * 2**19, b"x" * 2**19, _Output("x" * 2**19)], ids=lambda item: type(item).__name__
)
def test_reads_a_bounded_number_of_bytes_ahead(bridge: Bridge, item: Any) -> None:
    """Large items are not gathered by the dozen: one mebibyte, as everything that buffers."""
    made = 0

    async def source() -> AsyncIterator[Any]:
        nonlocal made
        for _ in range(20):
            made += 1
            yield item

    with bridge.iterate(source()) as items:
        next(items)
        bridge.call(asyncio.sleep(0.0))
        bridge.call(asyncio.sleep(0.0))
        assert made <= 4
        assert sum(1 for _ in items) == 19


def test_one_task_from_first_step_to_clean_up(bridge: Bridge) -> None:
    """A source that holds an anyio scope can be read, and stopped early."""
    source = Source()
    iterator = bridge.iterate(source.items())
    assert [next(iterator) for _ in range(200)][-1] == 200
    iterator.close()
    assert source.closed.is_set()
    assert len(source.tasks) == 1
    with pytest.raises(StopIteration):
        next(iterator)


def test_breaking_out_of_a_loop_closes_the_source(bridge: Bridge) -> None:
    """Dropping the iterator is enough, as it is with a generator."""
    source = Source()
    for number in bridge.iterate(source.items()):
        if number == 3:
            break
    assert source.closed.wait(5)


def test_dropping_a_waiting_iterator_frees_it(bridge: Bridge) -> None:
    """The task on the loop does not keep the iterator alive."""
    source = Source()
    iterator = bridge.iterate(source.items())
    next(iterator)
    seen = weakref.ref(source)
    del iterator
    assert source.closed.wait(5)
    del source
    bridge.call(asyncio.sleep(0))
    gc.collect()
    assert seen() is None


def test_an_error_comes_after_the_items_before_it(bridge: Bridge) -> None:
    """Everything fetched before the failure is given first, and the frames are the source's."""

    async def failing() -> AsyncIterator[int]:
        yield 1
        yield 2
        raise ExceptionGroup("group", [KeyError("x")])

    seen: list[int] = []
    with pytest.raises(KeyError) as caught:
        seen.extend(bridge.iterate(failing()))
    assert seen == [1, 2]
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "_refill" not in names
    assert "__next__" not in names


def test_an_error_not_reached_is_not_raised_by_close(bridge: Bridge) -> None:
    """A failure in the part read ahead is nothing to a reader who stops before it."""

    async def failing() -> AsyncIterator[int]:
        yield 1
        raise KeyError("x")

    iterator = bridge.iterate(failing())
    assert next(iterator) == 1
    iterator.close()


def test_an_error_of_the_clean_up_is_raised_by_close(bridge: Bridge) -> None:
    """What goes wrong while the source is closed is not hidden."""

    async def failing() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            raise KeyError("x")

    iterator = bridge.iterate(failing())
    next(iterator)
    with pytest.raises(KeyError):
        iterator.close()
    iterator.close()


def test_closing_before_the_first_item_closes_the_source(bridge: Bridge) -> None:
    """A source that was never started is told as well."""

    class Never:
        closed = False

        def __aiter__(self) -> Any:
            return self

        async def __anext__(self) -> int:
            raise StopAsyncIteration

        async def aclose(self) -> None:
            self.closed = True

    source = Never()
    bridge.iterate(source).close()
    assert source.closed


def test_on_the_loop_thread_it_refuses_and_names_the_source(bridge: Bridge) -> None:
    """As a call does."""

    async def reenter() -> int:
        return next(bridge.iterate(numbers(1)))

    with pytest.raises(WrongLoopError, match="numbers"):
        bridge.call(reenter())


def test_an_item_costs_at_most_five_microseconds(bridge: Bridge) -> None:
    """Items are handed over in batches, not one hop each.

    Processor time, the best of several runs: the tests share their cores with others.
    """

    def run() -> float:
        began = time.process_time()
        assert sum(1 for _ in bridge.iterate(numbers(20_000))) == 20_000
        return (time.process_time() - began) / 20_000

    best = min(run() for _ in range(8))
    assert best < 5e-6
