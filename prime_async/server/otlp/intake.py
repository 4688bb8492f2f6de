"""Keeps the spans that arrive and makes their traces anew, when it is worth it or somebody looks.

Spans of one trace arrive in any number of requests. Each is kept by its id, so that a request sent
again changes nothing, and a trace is made of all that are there. Making one takes as long as it has
spans; so that a trace of many requests is not made as often, it is made when its spans have doubled
since the last time, and before anything of its owner is read. What a trace was made of before is
replaced, which only touches traces that came this way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection

from prime_async.server.endpoints import Call
from prime_async.server.failures import RequestError
from prime_async.server.logs import log_event
from prime_async.server.otlp.decoding import Decoded
from prime_async.server.portions import portions
from prime_async.server.store import spans as store
from prime_async.server.store.spans import Room, SpanRow, Waiting
from prime_async.server.traces.adding import Addition, add_traces
from prime_async.server.traces.owners import owner_of
from prime_async.traces.genai.documents import trace_document
from prime_async.traces.genai.spans import Span, decode_span, encode_span

__all__ = ["settle", "take"]

_CONTEXTS: Mapping[str | None, Mapping[str, str]] = {
    None: {"source": "otlp"},
    "eval": {"source": "otlp", "run_type": "eval"},
    "train": {"source": "otlp", "run_type": "train"},
}
"""By type of run, which lists of runs read from the context of an upload."""

_BYTES_AT_ONCE = 16 * 1024 * 1024
"""Bytes of the spans of traces that are made together."""


class _Draft(NamedTuple):
    """A trace that was made: of what, the type of its run, and its line."""

    waiting: Waiting
    kind: str | None
    line: bytes

    @property
    def source(self) -> tuple[str, str]:
        return self.kind or "", self.waiting.user_id


async def take(call: Call, owner: str, decoded: Decoded) -> Sequence[str]:
    """Keep the spans of a request; return why some were refused, one text for each."""
    if not decoded.spans:
        return decoded.refused
    platform, user_id = call.platform, call.caller.account.id
    limits = platform.config.limits
    room = Room(limits.otlp_spans, limits.otlp_trace_bytes)
    rows = await platform.in_thread(_rows, decoded.spans)
    kept = await platform.database.write(
        lambda connection: store.put(connection, owner, user_id, rows, room), rows=len(rows)
    )
    if kept.grown:
        await platform.span_turns.take(owner, kept.grown, partial(_make, call, owner))
    return [*decoded.refused, *kept.over]


async def settle(call: Call) -> None:
    """Make what is read up to date: the trace of the path, or all of the owner's."""
    platform, owner = call.platform, owner_of(call)
    trace_id = call.path.get("trace_id")
    wanted = None if trace_id is None else [trace_id]
    due = platform.database.point(lambda reader: store.waiting(reader, owner, wanted))
    if due:
        ids = [one.trace_id for one in due]
        await platform.span_turns.take(owner, ids, partial(_make, call, owner))


async def _make(call: Call, owner: str, trace_ids: Sequence[str]) -> None:
    due = await call.platform.database.scan(
        lambda connection: store.waiting(connection, owner, trace_ids)
    )
    for some in portions(due, attrgetter("bytes"), _BYTES_AT_ONCE):
        await _make_some(call, owner, [one.trace_id for one in some])


async def _make_some(call: Call, owner: str, trace_ids: Sequence[str]) -> None:
    drafts = await call.platform.database.scan(
        lambda connection: _drafts(connection, owner, trace_ids)
    )
    drafts.sort(key=lambda draft: draft.source)
    for _, group in groupby(drafts, key=lambda draft: draft.source):
        same = list(group)
        if not await _add(call, owner, same):
            # One of them was deleted meanwhile: it is not among those that wait any more.
            await _make_some(call, owner, [one.waiting.trace_id for one in same])


def _drafts(connection: Connection, owner: str, trace_ids: Sequence[str]) -> list[_Draft]:
    return [
        _draft(one, store.of_trace(connection, owner, one.trace_id))
        for one in store.waiting(connection, owner, trace_ids)
    ]


def _draft(one: Waiting, texts: Iterable[bytes]) -> _Draft:
    document = trace_document([decode_span(text) for text in texts])
    kind = document.get("run", {}).get("type")
    return _Draft(one, kind, msgspec.json.encode(document) + b"\n")


async def _add(call: Call, owner: str, drafts: Sequence[_Draft]) -> bool:
    """Store traces of one source; False when one of them has been deleted."""
    made = [draft.waiting for draft in drafts]
    addition = Addition(
        owner,
        made[0].user_id,
        b"".join(draft.line for draft in drafts),
        _CONTEXTS[drafts[0].kind],
        tuple(_CONTEXTS.values()),
        partial(store.set_made, made=made),
    )
    try:
        return await add_traces(call, addition)
    except RequestError as failure:
        if failure.status != 400:
            raise
        if len(drafts) == 1:
            await _give_up(call, drafts[0], failure)
            return True
    # One of them cannot be stored: the others are.
    return all([await _add(call, owner, [draft]) for draft in drafts])


async def _give_up(call: Call, draft: _Draft, failure: RequestError) -> None:
    one = draft.waiting
    log_event(logging.WARNING, "trace_not_made", trace_id=one.trace_id, reason=failure.message)
    await call.platform.database.write(lambda connection: store.give_up(connection, one))


def _rows(spans: Sequence[Span]) -> list[SpanRow]:
    return [SpanRow(span.trace_id, span.span_id, span.start, encode_span(span)) for span in spans]
