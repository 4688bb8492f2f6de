"""Deletes: repeated only where the first try provably did nothing."""

from __future__ import annotations

import socket

import pytest

from prime_async.traces import AsyncTracesAPIClient, AsyncTracesClient, ErrorCode, LineFormat
from prime_async.traces import errors as family
from prime_async.traces.codes import BUSY_CODES
from prime_async.transport import RetryPolicy
from tests.faces import Face, both_faces
from tests.platform import KEY, ThreadedPlatform
from tests.stub import NOTHING, Answer, Stub
from tests.traces.receiver import refusal
from tests.traces.records import episode, fresh_run, trace

ACCEPTED = Answer(202)


@pytest.mark.parametrize(
    "first", [refusal(429), refusal(429, "rate_limited"), *(refusal(503, c) for c in BUSY_CODES)]
)
async def test_what_did_nothing_is_repeated(
    client: AsyncTracesClient, stub: Stub, first: Answer
) -> None:
    """429, and 503 with one of the service's own codes."""
    stub.script(first, first, ACCEPTED)
    await client.delete("t1")
    assert [request.method for request in stub.requests] == ["DELETE"] * 3


@pytest.mark.parametrize(
    "first",
    [
        refusal(502),
        refusal(504),
        refusal(503),
        refusal(503, "gateway_says"),
        refusal(500),
        NOTHING,
        Answer(end="reset", status=0),
        Answer(202, length=50, body=b"x", end="cut"),
    ],
)
async def test_what_may_have_been_done_is_not(
    client: AsyncTracesClient, stub: Stub, first: Answer
) -> None:
    """A gateway's answer, or a connection that broke after the request had left."""
    stub.default = first
    with pytest.raises(family.AmbiguousDeleteError, match="not known whether") as caught:
        await client.delete_run("r1")
    assert len(stub.requests) == 1
    assert caught.value.ambiguous
    assert caught.value.status == (first.status if first.status >= 500 else None)
    assert caught.value.__cause__ is not None


async def test_tries_are_three(client: AsyncTracesClient, stub: Stub) -> None:
    """Then the error is that of the last answer."""
    stub.default = refusal(503, "ingest_unavailable")
    with pytest.raises(family.RetryableAPIError) as caught:
        await client.delete("t1")
    assert len(stub.requests) == 3
    assert caught.value.code == ErrorCode.INGEST_UNAVAILABLE
    assert not caught.value.ambiguous


async def test_a_404_after_a_repeat_comes_out(client: AsyncTracesClient, stub: Stub) -> None:
    """Nothing was done before: there really is no such trace."""
    stub.script(refusal(503, "ingest_unavailable"), refusal(404, "trace_not_found"))
    with pytest.raises(family.NotFoundError):
        await client.delete("t1")


async def test_a_delete_that_takes_too_long(client: AsyncTracesClient, stub: Stub) -> None:
    """May have been carried out."""
    stub.default = Answer(status=0, end="silent")
    with pytest.raises(family.AmbiguousDeleteError) as caught:
        await client.delete("t1", timeout=0.05)
    assert isinstance(caught.value.__cause__, TimeoutError)


async def test_a_service_that_is_not_there() -> None:
    """Nothing was sent: that is certain, and no ambiguity."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        retry = RetryPolicy(first_delay=0.001)
        async with AsyncTracesClient(AsyncTracesAPIClient("key", url, retry=retry)) as client:
            with pytest.raises(family.APIConnectionError) as caught:
                await client.delete("t1")
        assert not caught.value.ambiguous
        await client.client.aclose()


async def test_what_is_sent(client: AsyncTracesClient, stub: Stub) -> None:
    """The id as one segment, the hint as it was said, the run in the query."""
    stub.default = ACCEPTED
    await client.delete("a b?", created_at="2026-01-02T00:00:00Z")
    await client.delete_run("run 1")
    await client.client.delete("traces/x", {"k": "v"})
    assert [request.target for request in stub.requests] == [
        "/api/v1/traces/a%20b%3F?created_at=2026-01-02T00:00:00Z",
        "/api/v1/traces?run_id=run+1",
        "/api/v1/traces/x?k=v",
    ]


@pytest.mark.parametrize("wrong", ["", " ", ".", "..", "a/b", None])
async def test_an_id_that_is_none(client: AsyncTracesClient, stub: Stub, wrong: str) -> None:
    """Nothing is sent that could mean something else."""
    for call in (client.delete, client.delete_run, client.get, client.get_run, client.get_episode):
        with pytest.raises(family.TracesUsageError):
            await call(wrong)
    assert stub.requests == []


@both_faces
async def test_deletes_on_the_platform(face: Face, platform: ThreadedPlatform) -> None:
    """What is deleted is gone, and deleting it again says so."""
    run = fresh_run()
    async with face.AsyncTracesClient(KEY, base_url=platform.url) as client:
        await client.upload_records([trace(f"{run}-{n}", run=run) for n in range(3)])
        created = (await client.get(f"{run}-0")).created_at
        assert await client.delete(f"{run}-0", created_at=created) is None
        for call in (client.get, client.get_raw, client.delete):
            with pytest.raises(family.NotFoundError) as caught:
                await call(f"{run}-0")
            assert caught.value.code == ErrorCode.TRACE_NOT_FOUND
        await client.delete_run(run)
        with pytest.raises(family.NotFoundError):
            await client.delete_run(run)
        assert (await client.list(run_id=run)).items == []


@both_faces
async def test_an_episode_goes_with_its_traces(face: Face, platform: ThreadedPlatform) -> None:
    """On the embedded platform; other traces stay."""
    run = fresh_run()
    async with face.AsyncTracesClient(KEY, base_url=platform.url) as client:
        await client.upload_records(
            [episode(f"{run}-e{n}", trace(f"{run}-{n}", run=run)) for n in range(2)],
            line_format=LineFormat.EPISODE,
        )
        await client.delete_episode(f"{run}-e0")
        with pytest.raises(family.NotFoundError):
            await client.delete_episode(f"{run}-e0")
        assert [item.trace_id async for item in client.iter(run_id=run)] == [f"{run}-1"]
