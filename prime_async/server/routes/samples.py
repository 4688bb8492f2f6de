"""Samples of an evaluation: push, read by page, and what is stored of a push."""

from __future__ import annotations

from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct
from sqlalchemy import Connection

from prime_async.evals.models import SamplePage
from prime_async.evals.requests import PushAnswer, PushSamples, RefusedSample, StoredPush
from prime_async.server.answers import Answer, answer
from prime_async.server.endpoints import Call, Endpoint, Header, Reply
from prime_async.server.failures import ErrorAnswer, RequestError
from prime_async.server.routes.evaluations import evaluation_not_found
from prime_async.server.samples import Batch, cut, push_target
from prime_async.server.store import evaluations, pages
from prime_async.server.store.evaluations import Access
from prime_async.server.store.pages import Slice
from prime_async.server.store.samples import Appended, append, stored_ranges

__all__ = ["ENDPOINTS"]


class PageQuery(Struct, kw_only=True):
    """Query of a page of samples; ``page`` counts from 1."""

    page: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


async def push(call: Call) -> Reply:
    """Store samples: exactly once per push and index when the request names them, else as a push of
    their own.
    """
    number = _find(call, public=False).number
    target = push_target(call.request.headers)
    async with call.read(call.platform.config.limits.samples_body_bytes) as body:
        batch = await call.platform.in_thread(cut, body, target)
        return await _store(call, number, batch)


async def _store(call: Call, number: int, batch: Batch) -> Answer:
    now = call.platform.clock.now()
    outcome: list[Appended] = []

    def write(connection: Connection) -> Answer:
        done = append(connection, number, batch, now)
        if done is None:
            raise evaluation_not_found(call.path["evaluation_id"])
        outcome.append(done)
        return answer(
            PushAnswer(
                stored=done.stored,
                duplicates=done.duplicates,
                refused=[*batch.refused, *map(_conflict, done.conflicts)],
                total_samples=done.total_samples,
            )
        )

    reply = await call.commit(write, rows=sum(len(run.samples) for run in batch.runs))
    for done in outcome:
        call.platform.metrics.samples.inc(done.stored)
        call.platform.metrics.duplicates.inc(done.duplicates)
    return reply


def _conflict(index: int) -> RefusedSample:
    return RefusedSample(
        index=index, status=409, message="another sample of this push is stored at this index"
    )


async def get_page(call: Call) -> web.StreamResponse:
    """Read one page of samples, in order."""
    query: PageQuery = call.query
    stored = _find(call, public=True)
    platform = call.platform
    directory = platform.directories.get(stored.number, stored.total_samples)
    if directory is None:
        directory = await platform.database.scan(lambda reader: pages.build(reader, stored.number))
        platform.directories.put(stored.number, directory)
    first = (query.page - 1) * query.limit
    slices = await platform.database.scan(
        lambda reader: pages.plan(reader, directory, first, query.limit)
    )
    head = b'{"samples":['
    tail = b'],"total":%d,"page":%d,"limit":%d,"hasMore":%s}' % (
        directory.total,
        query.page,
        query.limit,
        b"true" if first + query.limit < directory.total else b"false",
    )
    return await _stream(call, head, slices, tail)


async def _stream(call: Call, head: bytes, slices: list[Slice], tail: bytes) -> web.StreamResponse:
    """Send a page in windows of about 1 MiB, so that its size does not matter."""
    response = web.StreamResponse()
    response.content_type = "application/json"
    response.charset = "utf-8"
    commas = max(0, len(slices) - 1)
    response.content_length = (
        len(head) + len(tail) + commas + sum(one.end - one.begin for one in slices)
    )
    windows = list(_windows(slices))
    # The first window is read before the head goes out: until then an error can still be answered
    # as one.
    piece = await _read(call, windows[0]) if windows else b""
    await response.prepare(call.request)
    if len(windows) <= 1:
        await response.write_eof(head + piece + tail)
        return response
    await response.write(head + piece)
    for window in windows[1:]:
        await response.write(b"," + await _read(call, window))
    await response.write_eof(tail)
    return response


def _windows(slices: list[Slice]) -> list[list[Slice]]:
    windows: list[list[Slice]] = []
    size = pages.WINDOW_BYTES
    for one in slices:
        if size >= pages.WINDOW_BYTES:
            windows.append([])
            size = 0
        windows[-1].append(one)
        size += one.end - one.begin
    return windows


async def _read(call: Call, window: list[Slice]) -> bytes:
    return await call.platform.database.scan(lambda reader: pages.read_slices(reader, window))


async def get_push(call: Call) -> Reply:
    """Say which index ranges of a push are stored."""
    stored, push_id = _find(call, public=False), call.path["push_id"]
    ranges = await call.platform.database.scan(
        lambda reader: stored_ranges(reader, stored.number, push_id)
    )
    if ranges is None:
        raise RequestError(404, "push_not_found", f"nothing is stored of the push {push_id}")
    count = sum(stop - start for start, stop in ranges)
    return answer(StoredPush(push_id=push_id, ranges=ranges, stored=count))


def _find(call: Call, *, public: bool) -> Access:
    evaluation_id = call.path["evaluation_id"]
    stored = call.platform.database.point(
        lambda reader: evaluations.access(reader, evaluation_id, call.caller, public=public)
    )
    if stored is None:
        raise evaluation_not_found(evaluation_id)
    return stored


_PUSH_HEADERS = (
    Header("X-Prime-Push", "Id of the push the samples belong to", "^[A-Za-z0-9_-]{1,64}$"),
    Header(
        "X-Prime-Range",
        "Half-open ranges of input indexes, START-STOP,START-STOP",
        r"^[0-9]{1,16}-[0-9]{1,16}(,[0-9]{1,16}-[0-9]{1,16})*$",
    ),
    Header(
        "X-Prime-Indexes", "The indexes, when the range has gaps", r"^[0-9]{1,16}(,[0-9]{1,16})*$"
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/evaluations/{evaluation_id}/samples",
        push,
        "Push samples",
        {200: PushAnswer, 404: ErrorAnswer, 409: ErrorAnswer},
        body=PushSamples,
        streams_body=True,
        headers=_PUSH_HEADERS,
    ),
    Endpoint(
        "GET",
        "/evaluations/{evaluation_id}/samples",
        get_page,
        "Read a page of samples",
        {200: SamplePage, 404: ErrorAnswer},
        query=PageQuery,
    ),
    Endpoint(
        "GET",
        "/evaluations/{evaluation_id}/pushes/{push_id}",
        get_push,
        "Read what is stored of a push",
        {200: StoredPush, 404: ErrorAnswer},
    ),
)
