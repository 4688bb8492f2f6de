"""Sources: read off the event loop, closed when given up, whatever kind they are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import pytest

from prime_async.traces import AsyncTracesClient, aiter_batches, partial_upload
from prime_async.traces import errors as family
from tests.stub import Answer, Stub
from tests.traces.receiver import Receiver, committed, refusal

LINE = b'{"id":"a"}\n'


class Plain:
    """A plain source that remembers where it was read, how far, and whether it was closed."""

    def __init__(self, count: int, *, blocked: threading.Event | None = None) -> None:
        self.count = count
        self.read = 0
        self.closed = False
        self.threads: set[int] = set()
        self._blocked = blocked

    def __iter__(self) -> Iterator[bytes]:
        self.threads.add(threading.get_ident())
        return self

    def __next__(self) -> bytes:
        self.threads.add(threading.get_ident())
        if self.read >= self.count:
            raise StopIteration
        self.read += 1
        if self._blocked is not None and self.read > 1:
            self._blocked.wait(10)
        return LINE

    def close(self) -> None:
        self.closed = True


class Asynchronous:
    """The same, asynchronous; `closing` is what its ``aclose`` gives."""

    def __init__(self, count: int, closing: Callable[[], Any] | None = None) -> None:
        self.count = count
        self.read = 0
        self.closed = False
        self._closing = closing

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.read >= self.count:
            raise StopAsyncIteration
        self.read += 1
        await asyncio.sleep(0)
        return LINE

    def aclose(self) -> Any:
        self.closed = True
        return self._closing() if self._closing else _nothing()


async def _nothing() -> None:
    return None


def _done() -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_result(None)
    return future


@pytest.fixture(params=["plain", "async"])
def make(request: pytest.FixtureRequest) -> Callable[[int], Any]:
    """Makes a source of so many lines."""
    return Plain if request.param == "plain" else Asynchronous


async def test_a_plain_source_never_runs_on_the_loop(
    client: AsyncTracesClient, receiver: Receiver
) -> None:
    """Neither its ``__iter__`` nor any ``__next__``; all of them in one thread."""
    source = Plain(50)
    await client.upload_lines(source, target_batch_bytes=30)
    assert len(receiver.uploads) == 25
    assert len(source.threads) == 1
    assert threading.get_ident() not in source.threads


async def test_records_are_encoded_off_the_loop(
    client: AsyncTracesClient, receiver: Receiver
) -> None:
    """``to_record`` of a plain source runs in its thread too."""
    seen: set[int] = set()

    class Record:
        def to_record(self) -> dict[str, Any]:
            seen.add(threading.get_ident())
            return {"id": "a"}

    await client.upload_records([Record()] * 3)
    assert seen
    assert threading.get_ident() not in seen


async def test_a_failed_upload_closes_its_source(
    client: AsyncTracesClient, stub: Stub, make: Callable[[int], Any]
) -> None:
    """After one request, without reading to the end."""
    stub.default = refusal(400, "invalid_trace")
    source = make(1_000)
    with pytest.raises(family.ValidationRejectedError):
        await client.upload_lines(source, target_batch_bytes=1, max_concurrent=1)
    assert len(stub.requests) == 1
    assert source.closed
    assert source.read <= 4


async def test_a_cancelled_upload_closes_its_source(
    client: AsyncTracesClient, stub: Stub, make: Callable[[int], Any]
) -> None:
    """Before the cancellation comes out, however often it is said."""
    stub.default = Answer(status=0, end="silent")
    source = make(1_000)
    task = asyncio.create_task(client.upload_lines(source, target_batch_bytes=1))
    await stub.wait_for(4)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.closed
    assert source.read <= 8


async def test_cancelling_waits_for_an_item_that_is_being_made(
    client: AsyncTracesClient, receiver: Receiver
) -> None:
    """The source is closed by the thread that is in it, and the upload ends after that."""
    blocked = threading.Event()
    source = Plain(3, blocked=blocked)
    task = asyncio.create_task(client.upload_lines(source, target_batch_bytes=1))
    while source.read < 2:
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    blocked.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.closed
    assert source.read == 2


async def test_a_source_that_hangs_does_not_hold_the_upload_for_ever(
    client: AsyncTracesClient, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clean-up has its time, and no more."""
    monkeypatch.setattr("prime_async.feeds.CLOSING_SECONDS", 0.05)
    blocked = threading.Event()
    source = Plain(3, blocked=blocked)
    try:
        with pytest.raises(family.APITimeoutError):
            await client.upload_lines(source, timeout=0.1)
        assert not source.closed
    finally:
        blocked.set()


@pytest.mark.parametrize("closing", [_nothing, _done, lambda: None])
async def test_a_clean_up_of_any_kind(
    client: AsyncTracesClient, stub: Stub, closing: Callable[[], Any]
) -> None:
    """A coroutine, a future, or nothing to wait for."""
    stub.default = refusal(400)
    source = Asynchronous(100, closing)
    with pytest.raises(family.ValidationRejectedError):
        await client.upload_lines(source, target_batch_bytes=1)
    assert source.closed


async def test_a_source_that_fails(client: AsyncTracesClient, receiver: Receiver) -> None:
    """Its error comes out unchanged, after what was read before it has been settled."""

    async def asynchronous() -> AsyncIterator[bytes]:
        for line in plain():
            yield line

    def plain() -> Iterator[bytes]:
        yield LINE
        yield LINE
        yield LINE
        raise LookupError("source")

    for source in (plain(), asynchronous()):
        receiver.uploads.clear()
        with pytest.raises(LookupError, match="source") as caught:
            await client.upload_lines(source, target_batch_bytes=1)
        partial = partial_upload(caught.value)
        assert partial is not None
        assert len(partial.receipts) == len(receiver.uploads) == 2
        assert partial.next_line_number == 3


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_source_that_awaited_something_cancelled(
    client: AsyncTracesClient, receiver: Receiver, kind: str
) -> None:
    """Nobody cancelled the upload: it does not end as if all was sent, and what was is told."""
    error = asyncio.CancelledError()

    def plain() -> Iterator[bytes]:
        yield from [LINE] * 3
        raise error

    async def later() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield LINE
        raise error

    lines = plain() if kind == "plain" else later()
    with pytest.raises(asyncio.CancelledError) as caught:
        await client.upload_lines(lines, target_batch_bytes=len(LINE))
    assert caught.value is error
    achieved = partial_upload(caught.value)
    assert achieved is not None
    assert (len(achieved.receipts), achieved.next_line_number) == (2, 3)


async def test_a_source_with_a_scope_of_its_own_is_closed_where_it_was_read(
    client: AsyncTracesClient, stub: Stub
) -> None:
    """Task groups and cancel scopes inside a source must be left by the task that entered them."""
    stub.default = refusal(400)
    closed = False

    async def scoped() -> AsyncIterator[bytes]:
        nonlocal closed
        async with anyio.create_task_group():
            with anyio.fail_after(60):
                try:
                    while True:
                        yield LINE
                finally:
                    closed = True

    with pytest.raises(family.ValidationRejectedError):
        await client.upload_lines(scoped(), target_batch_bytes=1)
    assert closed


async def test_only_one_batch_is_read_ahead(
    client: AsyncTracesClient, stub: Stub, make: Callable[[int], Any]
) -> None:
    """However slow the platform: those on their way, one that is ready, one line beyond."""
    release = asyncio.Event()
    source = make(40)

    async def slow(request: Any) -> Answer:
        await release.wait()
        return committed(request)

    stub.route("POST", "/api/v1/traces", slow)
    async with anyio.create_task_group() as group:

        async def upload() -> None:
            await client.upload_lines(source, target_batch_bytes=1, max_concurrent=2)

        group.start_soon(upload)
        await stub.wait_for(2)
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert source.read <= 2 + 1 + 2
        release.set()
    assert source.read == 40
    assert len(stub.requests) == 40


async def test_batches_that_are_given_up_close_their_source(make: Callable[[int], Any]) -> None:
    """``aiter_batches`` too."""
    source = make(1_000)
    batches = aiter_batches(source, target_bytes=1)
    assert (await anext(batches)).data == LINE
    await batches.aclose()  # type: ignore[attr-defined]
    assert source.closed
    assert source.read <= 4
