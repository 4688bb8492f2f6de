"""Stores samples exactly once per (push, index), however a push is cut and repeated."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, and_, bindparam, case, delete, func, insert, select, update

from prime_async.server.failures import RequestError
from prime_async.server.logs import log_event
from prime_async.server.samples import Batch, Run
from prime_async.server.store.database import Database
from prime_async.server.store.schema import evaluations, pushes, sample_chunks

__all__ = ["Appended", "append", "purge", "purge_leftovers", "stored_ranges"]

CHUNK_BYTES = 1024 * 1024
"""Bytes of a stored piece: large enough for speed, small enough to read one page from."""

CHUNK_SAMPLES = 1024
_PURGED_AT_ONCE = 64

Span = tuple[int, int]


# Built once: see the note in evaluations.py.
_TOTAL = select(evaluations.c.total_samples).where(evaluations.c.number == bindparam("evaluation"))
_GROW = (
    update(evaluations)
    .where(evaluations.c.number == bindparam("evaluation"))
    .values(
        total_samples=evaluations.c.total_samples + bindparam("stored"),
        updated_at=bindparam("now"),
        status=case((evaluations.c.status == "PENDING", "RUNNING"), else_=evaluations.c.status),
    )
)
_GROW_PUSH = (
    update(pushes)
    .where(pushes.c.number == bindparam("push"))
    .values(stored=pushes.c.stored + bindparam("stored_now"))
)
_FIND_PUSH = select(pushes.c.number).where(
    pushes.c.evaluation == bindparam("evaluation"), pushes.c.push_id == bindparam("push_id")
)
_ADD_PUSH = insert(pushes).returning(pushes.c.number)
_ADD_CHUNKS = insert(sample_chunks)
_MINE = and_(
    sample_chunks.c.evaluation == bindparam("evaluation"),
    sample_chunks.c.push == bindparam("push"),
)
# Chunks do not overlap, so only the last one that begins at or before the first index can reach
# into the batch.
_BEGIN = select(func.max(sample_chunks.c.start)).where(
    _MINE, sample_chunks.c.start <= bindparam("first")
)
_SPANS = (
    select(sample_chunks.c.start, sample_chunks.c.count)
    .where(_MINE, sample_chunks.c.start >= bindparam("begin"))
    .where(sample_chunks.c.start < bindparam("last"))
    .order_by(sample_chunks.c.start)
)


@dataclass(frozen=True, slots=True)
class Appended:
    """How many samples were new and how many were there already."""

    stored: int
    duplicates: int
    total_samples: int


def append(connection: Connection, evaluation: int, batch: Batch, now: float) -> Appended | None:
    """Store the samples of a batch that are not there yet; None when the evaluation is gone."""
    total = connection.execute(_TOTAL, {"evaluation": evaluation}).scalar()
    if total is None:
        return None
    sent = sum(len(run.samples) for run in batch.runs)
    if not sent:
        return Appended(0, 0, total)
    push, known = _push(connection, evaluation, batch)
    rows = [row for run in batch.runs for row in _rows(evaluation, push, run, known)]
    stored = sum(row["count"] for row in rows)
    if rows:
        connection.execute(_ADD_CHUNKS, rows)
        connection.execute(_GROW_PUSH, {"push": push, "stored_now": stored})
        grown = {"evaluation": evaluation, "stored": stored, "now": now}
        connection.execute(_GROW, grown)
    return Appended(stored, sent - stored, total + stored)


def _push(connection: Connection, evaluation: int, batch: Batch) -> tuple[int, list[Span]]:
    """The push's number, and the index spans it already holds around the batch."""
    names = {"evaluation": evaluation, "push_id": batch.push_id}
    number = connection.execute(_FIND_PUSH, names).scalar()
    if number is None:
        made = connection.execute(_ADD_PUSH, {**names, "stored": 0})
        return made.scalar_one(), []
    first, last = batch.runs[0].start, batch.runs[-1].stop
    return number, _known(connection, {"evaluation": evaluation, "push": number}, first, last)


def _known(connection: Connection, push: dict[str, int], first: int, last: int) -> list[Span]:
    begin = connection.execute(_BEGIN, {**push, "first": first}).scalar()
    around = {**push, "begin": first if begin is None else begin, "last": last}
    return [(start, start + count) for start, count in connection.execute(_SPANS, around)]


def _rows(evaluation: int, push: int, run: Run, known: Sequence[Span]) -> Iterator[dict[str, Any]]:
    for start, stop in _gaps(run.start, run.stop, known):
        for first, texts in _pieces(start, run.samples[start - run.start : stop - run.start]):
            offsets, data = _packed(texts)
            yield {
                "evaluation": evaluation,
                "push": push,
                "start": first,
                "count": len(texts),
                "offsets": offsets,
                "data": data,
            }


def _gaps(start: int, stop: int, known: Sequence[Span]) -> Iterator[Span]:
    """What of ``start .. stop`` the known spans leave out."""
    for known_start, known_stop in known:
        if known_stop <= start:
            continue
        if known_start >= stop:
            break
        if known_start > start:
            yield start, known_start
        start = known_stop
    if start < stop:
        yield start, stop


def _pieces(start: int, samples: Sequence[msgspec.Raw]) -> Iterator[tuple[int, list[memoryview]]]:
    piece: list[memoryview] = []
    size = 0
    for sample in samples:
        text = memoryview(sample)
        if piece and (size + len(text) > CHUNK_BYTES or len(piece) >= CHUNK_SAMPLES):
            yield start, piece
            start, piece, size = start + len(piece), [], 0
        piece.append(text)
        size += len(text)
    if piece:
        yield start, piece


def _packed(texts: Sequence[memoryview]) -> tuple[bytes, bytes]:
    offsets = array("I", [0])
    end = 0
    for text in texts:
        end += len(text) + 1
        offsets.append(end)
    return offsets.tobytes(), b",".join(texts)


def stored_ranges(connection: Connection, evaluation: int, push_id: str) -> list[Span] | None:
    """The stored index ranges of a push, joined where they touch; None without such a push."""
    push = connection.execute(_FIND_PUSH, {"evaluation": evaluation, "push_id": push_id}).scalar()
    if push is None:
        return None
    query = (
        select(sample_chunks.c.start, sample_chunks.c.count)
        .where(sample_chunks.c.evaluation == evaluation, sample_chunks.c.push == push)
        .order_by(sample_chunks.c.start)
    )
    ranges: list[Span] = []
    for start, count in connection.execute(query):
        if ranges and ranges[-1][1] == start:
            ranges[-1] = ranges[-1][0], start + count
        else:
            ranges.append((start, start + count))
    return ranges


async def purge(database: Database, evaluation: int) -> None:
    """Drop the samples of a deleted evaluation, a few at a time so that other writes go on between.

    Deleting an evaluation hides its samples at once. When this is cut short, by a crash or a full
    disk, the next start goes on with it.
    """
    mine = sample_chunks.c.evaluation == evaluation
    some = select(sample_chunks.c.number).where(mine).limit(_PURGED_AT_ONCE).scalar_subquery()
    drop = delete(sample_chunks).where(sample_chunks.c.number.in_(some))
    last = delete(pushes).where(pushes.c.evaluation == evaluation)
    try:
        while await database.write(lambda connection: connection.execute(drop).rowcount):
            continue
        await database.write(lambda connection: connection.execute(last).rowcount)
    except RequestError as failure:
        log_event(logging.WARNING, "purge_postponed", evaluation=evaluation, reason=failure.code)


async def purge_leftovers(database: Database) -> None:
    """Drop the samples of evaluations whose deletion was cut short."""
    alive = select(evaluations.c.number)
    query = select(pushes.c.evaluation).where(pushes.c.evaluation.not_in(alive)).distinct()
    for evaluation in await database.scan(lambda reader: reader.execute(query).scalars().all()):
        await purge(database, evaluation)
