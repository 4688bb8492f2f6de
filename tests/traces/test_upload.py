"""Uploads: what goes over the wire, several batches at a time, accounted for in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import prime_traces
import pytest

from prime_async.traces import (
    AsyncTracesClient,
    Batch,
    LineFormat,
    PartialUpload,
    PrimeTracesError,
    TracesUsageError,
    TracesValueError,
    TraceTooLargeError,
    UploadReceipt,
    UploadReceipts,
    compress_batch,
    iter_batches,
    partial_upload,
)
from prime_async.traces import errors as family
from tests.faces import Face, both_faces
from tests.platform import KEY, ThreadedPlatform
from tests.stub import NOTHING, Answer, Request, Stub
from tests.traces.receiver import Receiver, committed, refusal, upload_in
from tests.traces.records import episode, fresh_run, line, trace

LINES = [f'{{"id":"line-{n:03}"}}\n'.encode() for n in range(1, 41)]
"""Of 18 bytes each; three fit into a batch of 54."""


async def test_what_goes_over_the_wire(client: AsyncTracesClient, receiver: Receiver) -> None:
    """Key, form, metadata, compression: as the official client sends it."""
    receipts = await client.upload_lines([b'{"id":"a"}\r\n', b" \n", b'{"id":"b"}'])
    (upload,) = receiver.uploads
    assert upload.lines == b'{"id":"a"}\r\n{"id":"b"}'
    assert upload.key == f"sha256:{upload.digest}"
    assert upload.metadata == {"schema_version": 1}
    assert (upload.encoding, upload.line_format) == ("gzip", None)
    assert upload.parts["metadata"].get_content_type() == "application/json"
    assert upload.parts["metadata"].get_filename() is None
    assert upload.parts["traces"].get_content_type() == "application/x-ndjson"
    assert upload.parts["traces"].get_filename() == "traces.jsonl"
    (request,) = receiver.stub.requests
    assert int(request.headers["Content-Length"]) == len(request.body)
    assert request.headers["Authorization"] == "Bearer key"
    assert receipts == [{"upload_id": upload.digest, "status": "committed"}]
    assert isinstance(receipts[0], UploadReceipt)


async def test_what_is_said_of_the_lines(client: AsyncTracesClient, receiver: Receiver) -> None:
    """Context, schema version, line format, no compression."""
    await client.upload_records(
        [episode("e", trace("t"))],
        line_format=LineFormat.EPISODE,
        context={"source": "tests", "ü": "☕"},
        schema_version=2,
        compress=False,
    )
    (upload,) = receiver.uploads
    assert upload.metadata == {"schema_version": 2, "context": {"source": "tests", "ü": "☕"}}
    assert (upload.encoding, upload.line_format) == (None, "episode")
    assert json.loads(upload.lines)["traces"][0]["id"] == "t"


async def test_zstandard_once_the_platform_has_announced_it(
    client: AsyncTracesClient, stub: Stub
) -> None:
    """The first answer says so; what follows uses it."""
    receiver = Receiver(stub, features="traces-zstd")
    for _ in range(2):
        await client.upload_lines(LINES)
    assert [upload.encoding for upload in receiver.uploads] == ["gzip", "zstd"]
    assert {upload.lines for upload in receiver.uploads} == {b"".join(LINES)}


async def test_zstandard_from_the_first_batch_where_it_matters(
    client: AsyncTracesClient, stub: Stub
) -> None:
    """Before a large batch is compressed the platform is asked, once, whatever it answers."""
    receiver = Receiver(stub)
    known = {"X-Prime-Features": "traces-zstd"}
    stub.route("GET", "/api/v1/user/whoami", Answer(404, headers=known, json={}))
    line = b'{"id":"%s"}\n' % (b"x" * 2**20)
    await client.upload_lines([line] * 9, target_batch_bytes=5 * 2**20)
    assert [upload.encoding for upload in receiver.uploads] == ["zstd"] * 3
    asked = [request.path for request in stub.requests if request.method == "GET"]
    assert asked == ["/api/v1/user/whoami"]


@pytest.mark.parametrize("target", [1, 50, 170, 10_000])
async def test_batches_are_those_of_the_official_client(
    client: AsyncTracesClient, receiver: Receiver, target: int
) -> None:
    """Receipts come in the order of the input, whatever the order of the answers."""
    receipts = await client.upload_lines(LINES, target_batch_bytes=target, max_concurrent=3)
    wanted = list(prime_traces.iter_batches(LINES, target_bytes=target))
    assert [receipt.upload_id for receipt in receipts] == [batch.digest for batch in wanted]
    assert sorted(upload.lines for upload in receiver.uploads) == sorted(b.data for b in wanted)


@both_faces
@pytest.mark.parametrize("way", ["records", "lines", "file", "iterator", "async"])
async def test_every_source_on_the_platform(
    face: Face, platform: ThreadedPlatform, tmp_path: Path, way: str
) -> None:
    """What is read back is what was uploaded, byte for byte."""
    run = fresh_run()
    records = [trace(f"{run}-{n}", run=run) for n in range(6)]
    lines = [line(record) for record in records]

    async def asynchronous() -> AsyncIterator[dict[str, Any]]:
        for record in records:
            yield record

    async with face.AsyncTracesClient(KEY, base_url=platform.url) as client:
        options: dict[str, Any] = {"target_batch_bytes": 2_000, "context": {"way": way}}
        if way == "file":
            path = tmp_path / "traces.jsonl"
            path.write_bytes(b"\n".join(lines))
            receipts = await client.upload_file(path, **options)
        elif way == "lines":
            receipts = await client.upload_lines(lines, **options)
        elif way == "async" and face.name == "async":
            receipts = await client.upload_records(asynchronous(), **options)
        else:
            source = iter(records) if way == "iterator" else records
            receipts = await client.upload_records(source, **options)
        assert len(receipts) == 3
        assert {receipt.status for receipt in receipts} == {"committed"}
        for record, wanted in zip(records, lines, strict=True):
            assert await client.get_raw(record["id"]) == wanted.rstrip(b"\n")
        page = await client.list(run_id=run, context={"way": way})
        assert len(page.items) == 6
        again = await client.upload_lines(lines, target_batch_bytes=2_000)
        assert [receipt.upload_id for receipt in again] == [r.upload_id for r in receipts]


async def test_batches_travel_together(client: AsyncTracesClient, stub: Stub) -> None:
    """Four at a time by default; a fifth waits."""
    together, most = 0, 0
    release = asyncio.Event()

    async def slow(request: Request) -> Answer:
        nonlocal together, most
        together += 1
        most = max(most, together)
        if together == 4:
            release.set()
        await release.wait()
        together -= 1
        return committed(request)

    stub.route("POST", "/api/v1/traces", slow)
    receipts = await client.upload_lines(LINES, target_batch_bytes=1)
    assert most == 4
    assert [r.upload_id for r in receipts] == [
        b.digest for b in iter_batches(LINES, target_bytes=1)
    ]


async def test_bytes_on_their_way_are_bounded(
    client: AsyncTracesClient, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many may travel, no more than the bound, one batch beyond."""
    monkeypatch.setattr("prime_async.traces.uploading.IN_FLIGHT_BYTES", 40)
    together, most = 0, 0

    async def slow(request: Request) -> Answer:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0)
        together -= 1
        return committed(request)

    stub.route("POST", "/api/v1/traces", slow)
    await client.upload_lines(LINES, target_batch_bytes=1, max_concurrent=30)
    assert most <= 2


async def test_callbacks_come_in_order_and_one_by_one(
    client: AsyncTracesClient, stub: Stub
) -> None:
    """Each committed batch with its receipt, plain or awaited, although the last answer first."""
    answers: list[asyncio.Event] = [asyncio.Event() for _ in range(3)]
    seen: list[tuple[int, str]] = []

    async def backwards(request: Request) -> Answer:
        place = int(upload_in(request).lines[12:15]) - 1
        if place < 2:
            await answers[place + 1].wait()
        answers[place].set()
        return committed(request)

    async def told(batch: Batch, receipt: UploadReceipt) -> None:
        await asyncio.sleep(0)
        assert receipt.upload_id == batch.digest
        seen.append((batch.first_line_number, batch.data.decode()))

    stub.route("POST", "/api/v1/traces", backwards)
    await client.upload_lines(LINES[:3], target_batch_bytes=1, on_batch=told)
    assert seen == [(n, LINES[n - 1].decode()) for n in (1, 2, 3)]
    plain: list[int] = []
    stub.default = committed
    stub.route("POST", "/api/v1/traces", committed)
    await client.upload_lines(
        LINES[:3], target_batch_bytes=1, on_batch=lambda batch, _: plain.append(batch.num_lines)
    )
    assert plain == [1, 1, 1]


@pytest.mark.parametrize("how", [429, 502, 503, 504, "cut"])
async def test_a_try_that_fails_is_repeated_with_the_same_bytes(
    client: AsyncTracesClient, stub: Stub, how: int | str
) -> None:
    """Same key, same body; four failures are stood by default."""
    bad = NOTHING if how == "cut" else refusal(int(how))
    stub.script(bad, bad, bad, bad)
    stub.default = committed
    (receipt,) = await client.upload_lines(LINES)
    assert len(stub.requests) == 5
    assert len({request.body for request in stub.requests}) == 1
    assert {request.headers["Idempotency-Key"] for request in stub.requests} == {
        f"sha256:{receipt.upload_id}"
    }


async def test_tries_are_limited(client: AsyncTracesClient, stub: Stub) -> None:
    """By `max_attempts`; the error says whether the batch may have been stored."""
    stub.default = refusal(503, "storage_unavailable")
    with pytest.raises(family.RetryableAPIError) as caught:
        await client.upload_lines(LINES, max_attempts=2)
    assert len(stub.requests) == 2
    assert caught.value.code == "storage_unavailable"
    assert caught.value.receipts == ()


async def test_a_batch_that_is_refused_stops_the_upload(
    client: AsyncTracesClient, receiver: Receiver
) -> None:
    """What is stored, what failed and where to go on is on the error."""
    receiver.refusing[b"line-005"] = refusal(400, "invalid_trace")
    with pytest.raises(family.ValidationRejectedError) as caught:
        await client.upload_lines(LINES, target_batch_bytes=54, max_concurrent=1)
    error = caught.value
    (wanted, failed, *_) = iter_batches(LINES, target_bytes=54)
    assert [receipt.upload_id for receipt in error.receipts] == [wanted.digest]
    assert error.upload is not None
    assert partial_upload(error) is error.upload
    (batch,) = error.upload.failed
    assert (batch.digest, batch.first_line_number, batch.last_line_number) == (
        failed.digest,
        4,
        6,
    )
    assert batch.error is error
    assert error.upload.unknown == ()
    assert error.upload.next_line_number == 7
    assert len(receiver.stub.requests) == 2


async def test_batches_on_their_way_are_waited_for(client: AsyncTracesClient, stub: Stub) -> None:
    """When one fails, the fate of the others becomes known, and no further one is begun."""
    refused = asyncio.Event()

    async def handler(request: Request) -> Answer:
        if b"line-002" in upload_in(request).lines:
            await stub.wait_for(3)
            refused.set()
            return refusal(422)
        await refused.wait()
        return committed(request)

    stub.route("POST", "/api/v1/traces", handler)
    with pytest.raises(family.ValidationError) as caught:
        await client.upload_lines(LINES, target_batch_bytes=1, max_concurrent=3)
    assert len(stub.requests) == 3
    wanted = [batch.digest for batch in iter_batches(LINES[:3], target_bytes=1)]
    assert [r.upload_id for r in caught.value.receipts] == [wanted[0], wanted[2]]


async def test_an_outcome_that_is_unknown_says_so(client: AsyncTracesClient, stub: Stub) -> None:
    """No answer: the batch may have been stored; sending it again settles that."""
    stub.default = NOTHING
    with pytest.raises(family.TransportError) as caught:
        await client.upload_lines(LINES[:1], max_attempts=1)
    assert caught.value.upload is not None
    assert [batch.first_line_number for batch in caught.value.upload.unknown] == [1]


async def test_the_first_failure_of_the_input_is_raised(
    client: AsyncTracesClient, stub: Stub
) -> None:
    """Not the first in time."""
    second = asyncio.Event()

    async def handler(request: Request) -> Answer:
        if b"line-001" in upload_in(request).lines:
            await second.wait()
            return refusal(413)
        second.set()
        return refusal(400)

    stub.route("POST", "/api/v1/traces", handler)
    with pytest.raises(family.PayloadTooLargeError) as caught:
        await client.upload_lines(LINES[:2], target_batch_bytes=1)
    assert caught.value.upload is not None
    assert [batch.first_line_number for batch in caught.value.upload.failed] == [1, 2]


async def test_records_that_cannot_be_sent_do_not_hold_up_the_others(
    client: AsyncTracesClient, receiver: Receiver
) -> None:
    """They are refused by path, the rest is stored, and then the first refusal is raised."""
    records = [
        {"id": "a"},
        {"id": "b", "x": object()},
        7,
        {"id": "c", "metrics": {"m": float("nan")}},
    ]
    with pytest.raises(TracesValueError, match=r"records\[1\]\.x") as caught:
        await client.upload_records(records)
    assert [upload.lines for upload in receiver.uploads] == [
        b'{"id":"a"}\n{"id":"c","metrics":{"m":null}}\n'
    ]
    assert caught.value.upload == PartialUpload(
        caught.value.receipts,
        refused=caught.value.upload.refused if caught.value.upload else (),
        non_finite=1,
    )
    receipts = await client.upload_records(records, on_error="skip")
    assert isinstance(receipts, UploadReceipts)
    assert len(receipts) == 1
    assert [refused.line_number for refused in receipts.refused] == [2, 3]
    assert "must be a mapping" in str(receipts.refused[1].error)
    assert receipts.non_finite == 1


async def test_nothing_is_sent_when_nothing_can_be(
    client: AsyncTracesClient, receiver: Receiver
) -> None:
    """A single wrong record is an error before any request, and no records are no request."""
    with pytest.raises(TypeError, match="must be a mapping"):
        await client.upload_records([3])  # type: ignore[list-item]
    assert await client.upload_records([]) == []
    assert await client.upload_lines([b"\n", b" "]) == []
    assert receiver.stub.requests == []


async def test_lines_too_large_are_passed_over(
    client: AsyncTracesClient,
    receiver: Receiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By their number; batches after them keep the line numbers of the file."""
    monkeypatch.setattr("prime_async.traces.lines.bounded_lines.__defaults__", (20,), raising=False)
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b'{"id":"a"}\n' + b"x" * 50 + b"\n" + b'{"id":"b"}\n')
    places: list[int] = []
    with pytest.raises(TraceTooLargeError, match="line 2 has 50 bytes"):
        await client.upload_file(
            path,
            target_batch_bytes=1,
            on_batch=lambda batch, _: places.append(batch.first_line_number),
        )
    assert places == [1, 3]


async def test_late_changes_change_nothing(client: AsyncTracesClient, receiver: Receiver) -> None:
    """A record is encoded when it is taken: the same dict may be filled anew for the next."""
    record: dict[str, Any] = {}

    async def reused() -> AsyncIterator[dict[str, Any]]:
        for number in range(3):
            record["id"] = number
            yield record

    await client.upload_records(reused())
    assert receiver.uploads[0].lines == b'{"id":0}\n{"id":1}\n{"id":2}\n'


async def test_a_batch_made_elsewhere(client: AsyncTracesClient, receiver: Receiver) -> None:
    """In pieces or in one, compressed here or before."""
    (batch,) = iter_batches(LINES)
    encoded = await compress_batch(batch.chunks, {"traces-zstd"})
    for options in ({}, {"encoded": encoded}, {"compress": False}):
        receipt = await client.upload_batch(
            LINES, batch.digest, context={"a": "b"}, line_format=LineFormat.TRACE, **options
        )
        assert receipt.upload_id == batch.digest
    assert [upload.encoding for upload in receiver.uploads] == ["gzip", "zstd", None]
    assert {upload.lines for upload in receiver.uploads} == {batch.data}


async def test_the_wire_client_sends_a_batch_too(
    client: AsyncTracesClient, receiver: Receiver
) -> None:
    """Under the name and with the answer it has in the official client."""
    answer = await client.client.upload_batch(b"{}\n", None, line_format=LineFormat.EPISODE)
    assert answer == {"upload_id": receiver.uploads[0].digest, "status": "committed"}
    assert receiver.uploads[0].line_format == "episode"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"line_format": "traces"}, "line_format"),
        ({"context": {"a": 1}}, "context.a"),
        ({"context": ["a"]}, "context"),
        ({"schema_version": 0}, "schema_version"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_concurrent": 0}, "max_concurrent"),
        ({"target_batch_bytes": 0}, "target_bytes"),
        ({"on_batch": 5}, "on_batch"),
        ({"on_error": "ignore"}, "on_error"),
        ({"timeout": -1}, "timeout"),
    ],
)
async def test_wrong_arguments(
    client: AsyncTracesClient, stub: Stub, options: dict[str, Any], field: str
) -> None:
    """Named, before the source is touched or anything is sent."""

    def untouched() -> Iterator[bytes]:
        raise AssertionError("read")
        yield b""

    with pytest.raises(TracesUsageError) as caught:
        await client.upload_lines(untouched(), **options)
    assert caught.value.field == field
    assert stub.requests == []


@pytest.mark.parametrize("single", [{"id": "t"}, b"{}\n", "text", 5, None])
async def test_one_thing_is_not_many(client: AsyncTracesClient, single: Any) -> None:
    """A record or a line in place of several."""
    with pytest.raises(TracesUsageError, match="records is a"):
        await client.upload_records(single)
    with pytest.raises(TracesUsageError, match="lines is a"):
        await client.upload_lines(single)


async def test_a_file_that_is_not_there(client: AsyncTracesClient, tmp_path: Path) -> None:
    """The system's own error, with what an upload had achieved."""
    with pytest.raises(FileNotFoundError) as caught:
        await client.upload_file(tmp_path / "none.jsonl")
    assert partial_upload(caught.value) == PartialUpload((), next_line_number=1)


async def test_an_upload_ends_in_time(client: AsyncTracesClient, stub: Stub) -> None:
    """What was on its way is unknown then."""
    stub.default = Answer(status=0, end="silent")
    with pytest.raises(family.APITimeoutError) as caught:
        await client.upload_lines(LINES, target_batch_bytes=54, timeout=0.1)
    assert caught.value.upload is not None
    assert [batch.first_line_number for batch in caught.value.upload.unknown] == [1, 4, 7, 10]
    assert caught.value.upload.next_line_number == 13


async def test_a_callback_that_fails(client: AsyncTracesClient, receiver: Receiver) -> None:
    """Its error comes out, after what was on its way; its batch is stored all the same."""

    def fails(batch: Batch, receipt: UploadReceipt) -> None:
        raise LookupError(batch.first_line_number)

    with pytest.raises(LookupError, match="1") as caught:
        await client.upload_lines(LINES, target_batch_bytes=54, max_concurrent=1, on_batch=fails)
    partial = partial_upload(caught.value)
    assert partial is not None
    assert len(partial.receipts) == len(receiver.uploads) >= 1


async def test_a_callback_that_awaited_something_cancelled(
    client: AsyncTracesClient, receiver: Receiver
) -> None:
    """Its error is raised at the end, as any other; the batches are committed all the same."""

    async def fails(batch: Batch, receipt: UploadReceipt) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        mine.cancel()
        await mine

    with pytest.raises(asyncio.CancelledError) as caught:
        await client.upload_lines(LINES[:3], target_batch_bytes=1, on_batch=fails)
    achieved = partial_upload(caught.value)
    assert achieved is not None
    assert len(achieved.receipts) == 3


async def test_a_cancelled_upload_says_how_far_it_got(
    client: AsyncTracesClient, stub: Stub
) -> None:
    """The cancellation stays one; the account is on it."""
    stub.script(committed)
    stub.default = Answer(status=0, end="silent")
    found: list[PartialUpload | None] = []

    async def upload() -> None:
        try:
            await client.upload_lines(LINES, target_batch_bytes=54, max_concurrent=1)
        except asyncio.CancelledError as error:
            found.append(partial_upload(error))
            raise

    async with anyio.create_task_group() as group:
        group.start_soon(upload)
        await stub.wait_for(2)
        group.cancel_scope.cancel()
    (partial,) = found
    assert partial is not None
    assert len(partial.receipts) == 1
    assert [batch.first_line_number for batch in partial.unknown] == [4]


def test_every_failure_is_of_the_family() -> None:
    """Which is what users catch."""
    assert issubclass(TraceTooLargeError, PrimeTracesError)


@both_faces
async def test_bad_lines_are_named(face: Face, platform: ThreadedPlatform) -> None:
    """The embedded platform says which lines of a batch it refused, and stores none of it."""
    run = fresh_run()
    lines = [line(trace(f"{run}-{n}", run=run)) for n in range(4)]
    lines[1], lines[3] = b"{broken\n", b"[]\n"
    async with face.AsyncTracesClient(KEY, base_url=platform.url) as client:
        with pytest.raises(family.ValidationRejectedError) as caught:
            await client.upload_lines(lines)
        assert caught.value.bad_lines == (2, 4)
        assert (await client.list(run_id=run)).items == []
