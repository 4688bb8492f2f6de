"""Keeps the spans that arrive and makes their traces anew.

Spans of one trace arrive in any number of requests. Each is kept by its id, so that a request sent
again changes nothing, and a trace is made of all that are there. What it was made of before is
replaced, which only touches traces that came this way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

import msgspec
from sqlalchemy import Connection

from prime_async.server.endpoints import Call
from prime_async.server.otlp.decoding import Decoded
from prime_async.server.store import spans as store
from prime_async.server.traces.adding import Addition, add_traces
from prime_async.traces.genai.documents import trace_document
from prime_async.traces.genai.spans import Span, decode_span, encode_span

__all__ = ["take"]

_CONTEXTS: Mapping[str | None, Mapping[str, str]] = {
    None: {"source": "otlp"},
    "eval": {"source": "otlp", "run_type": "eval"},
    "train": {"source": "otlp", "run_type": "train"},
}
"""By type of run, which lists of runs read from the context of an upload."""


async def take(call: Call, owner: str, decoded: Decoded) -> Sequence[str]:
    """Keep the spans of a request; return why some were refused, one text for each."""
    if not decoded.spans:
        return decoded.refused
    platform = call.platform
    limit = platform.config.limits.otlp_spans
    rows = await platform.in_thread(_rows, decoded.spans)
    over = await platform.database.write(
        lambda connection: store.put(connection, owner, rows, limit), rows=len(rows)
    )
    touched = {row.trace_id for row in rows}
    await platform.span_turns.take(owner, touched, partial(_make, call, owner))
    full = [f"span {one}: its trace has {limit} spans already" for one in over]
    return [*decoded.refused, *full]


async def _make(call: Call, owner: str, trace_ids: Sequence[str]) -> None:
    lines = await call.platform.database.scan(
        lambda connection: _lines(connection, owner, trace_ids)
    )
    for kind, some in lines.items():
        await add_traces(call, Addition(owner, some, _CONTEXTS[kind], tuple(_CONTEXTS.values())))


def _rows(spans: Sequence[Span]) -> list[store.SpanRow]:
    return [
        store.SpanRow(span.trace_id, span.span_id, span.start, encode_span(span)) for span in spans
    ]


def _lines(connection: Connection, owner: str, trace_ids: Sequence[str]) -> dict[str | None, bytes]:
    """The traces of some ids as JSON lines, by the type of their run."""
    found: dict[str | None, list[bytes]] = {}
    texts = store.of_traces(connection, owner, trace_ids)
    for _, group in groupby(texts, key=lambda row: row[0]):
        document = trace_document([decode_span(text) for _, text in group])
        kind = document.get("run", {}).get("type")
        found.setdefault(kind, []).append(msgspec.json.encode(document) + b"\n")
    return {kind: b"".join(lines) for kind, lines in found.items()}
