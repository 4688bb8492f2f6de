"""Everything that can be pushed, and that the first request leaves before the input ends."""

from __future__ import annotations

import asyncio
import io
import threading
from collections import UserList, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from prime_async.errors import PartialPushError, UsageError
from prime_async.evals import AsyncEvalsClient
from tests.evals.pushing import Target, numbered, write_jsonl
from tests.official_stub import EVALUATION, OfficialStub
from tests.stub import Answer

SAMPLES = numbered(50)
VARIABLE: ContextVar[int] = ContextVar("VARIABLE")


@dataclass
class Row:
    """A sample that is a dataclass."""

    example_id: int
    answer: str


class Struct(msgspec.Struct):
    """A sample that is a Struct."""

    example_id: int
    answer: str


async def _async(samples: list[Any]) -> AsyncIterator[Any]:
    for sample in samples:
        yield sample


class _LateSequence:
    """Only `__iter__`, each time anew."""

    def __iter__(self) -> Iterator[Any]:
        return iter(SAMPLES)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "list": lambda _: SAMPLES,
    "tuple": lambda _: tuple(SAMPLES),
    "deque": lambda _: deque(SAMPLES),
    "UserList": lambda _: UserList(SAMPLES),
    "dict values": lambda _: dict(enumerate(SAMPLES)).values(),
    "iterator": lambda _: iter(SAMPLES),
    "generator": lambda _: (sample for sample in SAMPLES),
    "iterable": lambda _: _LateSequence(),
    "async generator": lambda _: _async(SAMPLES),
    "dataclasses": lambda _: [Row(**sample) for sample in SAMPLES],
    "structs": lambda _: [Struct(**sample) for sample in SAMPLES],
    "path": lambda folder: write_jsonl(folder / "rows.jsonl", SAMPLES),
    "text path": lambda folder: str(write_jsonl(folder / "rows.jsonl", SAMPLES)),
    "anyio path": lambda folder: anyio.Path(write_jsonl(folder / "rows.jsonl", SAMPLES)),
    "another suffix": lambda folder: write_jsonl(folder / "rows.txt", SAMPLES),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("limit", [None, 200])
async def test_every_source_gives_the_same(
    target: Target, tmp_path: Path, kind: str, limit: int | None
) -> None:
    """Each sample once, in order, one request or many; no request is larger than it may be."""
    receipt = await target.push(SOURCES[kind](tmp_path), max_payload_bytes=limit)
    assert await target.stored() == SAMPLES
    assert receipt.stored == ((0, 50),)
    assert (receipt.samples_pushed, receipt.samples_skipped) == (50, 0)
    assert receipt.samples_total == 50
    assert receipt.complete
    assert receipt.resume_token is None
    if limit is not None:
        assert receipt.batches >= receipt.bytes_sent / limit


@pytest.mark.parametrize("kind", SOURCES)
async def test_the_wire_size_is_the_counted_size(
    official: OfficialStub, official_target: Target, tmp_path: Path, kind: str
) -> None:
    """Every body is exactly as large as counted, below the ceiling, and no crumb of it."""
    await official_target.push(SOURCES[kind](tmp_path), max_payload_bytes=500)
    posts = official.seen("POST", ".*/samples")
    sizes = [len(request.body) for request in posts]
    assert [int(request.headers["Content-Length"]) for request in posts] == sizes
    assert max(sizes) <= 500
    assert len(sizes) <= 2 * sum(sizes) / 500
    assert sorted(official.ids) == list(range(50))


@pytest.mark.parametrize("empty", [[], (), iter([]), {}.values(), deque()])
async def test_nothing_to_push(official: OfficialStub, official_target: Target, empty: Any) -> None:
    """An empty input is complete at once and sends nothing, as the official client does."""
    receipt = await official_target.push(empty)
    assert (receipt["samples_pushed"], receipt["samples_skipped"]) == (0, 0)
    assert receipt.complete
    assert official.requests == []


async def test_nothing_to_push_from_async_and_files(
    official: OfficialStub, official_target: Target, tmp_path: Path
) -> None:
    """The same for an async generator, an empty file and one of blank lines."""
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "blank.jsonl").write_text("\n \n\r\n\t\n")
    for source in (_async([]), tmp_path / "empty.jsonl", tmp_path / "blank.jsonl"):
        receipt = await official_target.push(source)
        assert receipt.complete
        assert receipt.samples_total == 0
    assert official.requests == []


MEGABYTE = [{"example_id": index, "answer": "x" * 10_000} for index in range(110)]


async def test_a_generator_that_blocks_has_its_first_megabyte_sent(official: OfficialStub) -> None:
    """The first request leaves while the source is still inside its next()."""
    go_on = threading.Event()

    def source() -> Iterator[Any]:
        yield from MEGABYTE
        assert go_on.wait(20)
        yield {"example_id": 110}

    await _first_request_leaves(official, source(), go_on.set)


async def test_an_async_generator_that_waits_has_its_first_megabyte_sent(
    official: OfficialStub,
) -> None:
    """The same for an async source."""
    go_on = asyncio.Event()

    async def source() -> AsyncIterator[Any]:
        for sample in MEGABYTE:
            yield sample
        await go_on.wait()
        yield {"example_id": 110}

    await _first_request_leaves(official, source(), go_on.set)


async def _first_request_leaves(
    official: OfficialStub, source: Any, go_on: Callable[[], None]
) -> None:
    async with AsyncEvalsClient("key", base_url=official.url) as client:
        async with asyncio.TaskGroup() as group:
            push = group.create_task(client.push_samples(EVALUATION, source))
            await official.wait_for(1, timeout=20)
            assert not push.done()
            go_on()
        assert push.result().samples_pushed == 111


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_slow_source_is_not_held_back(official: OfficialStub, kind: str) -> None:
    """A single sample is sent when the source pauses, time and again, not when a batch is full."""
    steps = [threading.Event() for _ in range(3)]

    def plain() -> Iterator[Any]:
        for number, step in enumerate(steps):
            yield {"example_id": number}
            assert step.wait(20)

    async def later() -> AsyncIterator[Any]:
        for number, step in enumerate(steps):
            yield {"example_id": number}
            await asyncio.to_thread(step.wait, 20)

    source = plain() if kind == "plain" else later()
    async with (
        AsyncEvalsClient("key", base_url=official.url) as client,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(client.push_samples(EVALUATION, source))
        for number, step in enumerate(steps, 1):
            await official.wait_for(number, timeout=20)
            step.set()
    assert official.ids == [0, 1, 2]


async def test_a_source_that_fails(target: Target) -> None:
    """What came before is delivered; the user's own error is raised, with the account as a note."""

    def source() -> Iterator[Any]:
        yield from SAMPLES[:7]
        raise LookupError("the user's own")

    async def later() -> AsyncIterator[Any]:
        for sample in SAMPLES[:7]:
            yield sample
        raise LookupError("the user's own")

    for number, failing in enumerate((source(), later()), 1):
        with pytest.raises(LookupError, match="the user's own") as caught:
            await target.push(failing)
        assert await target.ids() == list(range(7)) * number
        (note,) = caught.value.__notes__
        assert "7 samples stored" in note
        assert "push_" in note


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()], ids=repr
)
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_source_that_raises_what_is_no_exception(
    official_target: Target, official: OfficialStub, error: BaseException, kind: str
) -> None:
    """It comes out as it is, in no group, and what came before it is delivered all the same."""

    def plain() -> Iterator[Any]:
        yield from SAMPLES[:7]
        raise error

    async def later() -> AsyncIterator[Any]:
        for sample in SAMPLES[:7]:
            yield sample
        raise error

    with pytest.raises(type(error)) as caught:
        await official_target.push(plain() if kind == "plain" else later())
    assert caught.value is error
    assert official.ids == list(range(7))


async def test_a_plain_source_sees_the_variables_of_its_caller(
    official_target: Target, official: OfficialStub
) -> None:
    """Its thread runs in a copy of the context of whoever pushes."""
    VARIABLE.set(7)
    await official_target.push({"example_id": VARIABLE.get(0)} for _ in range(1))
    assert official.ids == [7]


async def test_an_async_source_is_closed_in_the_task_that_read_it(target: Target) -> None:
    """A generator that is not read to its end runs its finally, in its own context."""
    tasks: list[Any] = []

    async def source() -> AsyncIterator[Any]:
        tasks.append(asyncio.current_task())
        try:
            for sample in SAMPLES:
                yield sample
            await asyncio.Event().wait()
        finally:
            tasks.append(asyncio.current_task())

    push = asyncio.create_task(target.push(source()))
    while not await target.ids():
        await asyncio.sleep(0.01)
    push.cancel()
    with pytest.raises(asyncio.CancelledError):
        await push
    assert len(tasks) == 2
    assert tasks[0] is tasks[1]


async def test_a_generator_that_is_given_up_is_closed(
    official: OfficialStub, official_target: Target
) -> None:
    """In the thread that read it, and not when the garbage collector finds it."""
    official.route("POST", ".*/samples", Answer(status=0, end="silent"))
    threads: list[int] = []
    closed = asyncio.Event()
    loop = asyncio.get_running_loop()
    large = {"example_id": 0, "answer": "x" * 100_000}

    def source() -> Iterator[Any]:
        threads.append(threading.get_ident())
        try:
            while True:
                yield large
        finally:
            threads.append(threading.get_ident())
            loop.call_soon_threadsafe(closed.set)

    samples = source()
    push = asyncio.create_task(official_target.push(samples))
    await official.wait_for(1)
    push.cancel()
    with pytest.raises(asyncio.CancelledError):
        await push
    await closed.wait()
    assert threads[0] == threads[1] != threading.get_ident()


async def test_a_list_that_shrinks_while_it_is_pushed(target: Target) -> None:
    """What was there at the beginning and is gone now counts as not delivered."""
    samples = numbered(2000, size=1000)  # several turns of the encoder

    def shrink(_: int) -> None:
        del samples[1990:]

    with pytest.raises(PartialPushError) as caught:
        await target.push(samples, max_payload_bytes=10_000, progress_callback=shrink)
    assert caught.value.receipt.undelivered == ((1990, 2000),)
    assert await target.ids() == list(range(1990))


@pytest.mark.parametrize(
    "wrong",
    [{"example_id": 1}, b"bytes", bytearray(b"bytes"), 5, None, 1.5, object(), io.StringIO("{}")],
    ids=lambda wrong: type(wrong).__name__,
)
async def test_what_cannot_be_pushed(
    official: OfficialStub, official_target: Target, wrong: Any
) -> None:
    """One sample in place of a list of them, or nothing to iterate: an error before any request."""
    with pytest.raises(UsageError) as caught:
        await official_target.push(wrong)
    assert caught.value.field == "samples"
    assert official.requests == []
